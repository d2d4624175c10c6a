"""A study of a paper: runs kept by setting and recipe, tables and figures that find them, a program that shows them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import app, flags

from fedjax_fair.cli import settings
from fedjax_fair.cli.main import guarded
from fedjax_fair.cli.mistakes import fail, one_line
from fedjax_fair.data.options import named_paths
from fedjax_fair.training import Config, load_federation, output, results, run, use_host_devices
from fedjax_fair.training.cache import use_compilation_cache
from fedjax_fair.training.setup import checked

Cell = tuple[float, float]  # mean and standard deviation


@dataclasses.dataclass(frozen=True)
class Study:
    """The settings all runs share and where they are kept."""

    config: Config
    out: pathlib.Path
    quiet: bool = False

    def run(self, recipe: str, points: Sequence[Mapping[str, float]] = ({},), **changes: Any) -> list[pathlib.Path]:
        """Folders of a recipe's run, one for every point; a finished run is read, a stopped one goes on."""
        config = dataclasses.replace(self.config, recipe=recipe, **changes)
        said = {**changes, **changes.get('hyper', {})}
        name = ','.join(f'{key}={value}' for key, value in said.items() if key != 'hyper') or 'base'
        kind = '' if points[0] == {} else ' over ' + ','.join(points[0])
        folder = self.out / 'runs' / name / (recipe + kind)
        run(config, folder, points=points, resume=True, quiet=self.quiet)
        return [folder / output.point_name(point) if point else folder for point in points]

    def write(self, name: str, lines: Sequence[str], numbers: Any, data: Any = None) -> None:
        """Print a table and keep it, with its numbers and all that is needed to repeat them.

        ``data`` says which images these were where columns differ; else they are those of the study.
        """
        text = '\n'.join(lines) + '\n'
        print(text)
        (self.out / f'{name}.md').write_text(text)
        command = f'python -m {getattr(sys.modules["__main__"].__spec__, "name", "?")} {" ".join(sys.argv[1:])}'
        facts = {'command': command, 'commit': results.git_commit(), 'versions': results.versions()}
        shared = dataclasses.asdict(self.config)
        data = self.data() if data is None else data
        results.write_json(self.out / f'{name}.json', {'numbers': numbers, 'data': data, 'settings': shared, **facts})
        print(f'written: {self.out / name}.md and .json')

    def data(self) -> dict[str, Any]:
        """Which images these are: name, counts and, for files, their SHA-256; never a path."""
        federation = load_federation(self.config)
        kept = federation.validation
        return {
            'name': federation.name,
            'train': [int(n) for n in federation.sizes],
            'test': [int(n) for n in federation.tests.mask.sum(1)],
            'validation': [] if kept is None else [int(n) for n in kept.mask.sum(1)],
            'shape': list(federation.x.shape[1:]),
            'sha256': {path.name: sha256(path) for path in files(self.config.scenario)},
        }


@functools.cache  # several tables are written in one program
def sha256(path: pathlib.Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files(scenario: str) -> list[pathlib.Path]:
    """The files a scenario reads: those it names, or all in the folder it names."""
    named = re.search(r'(?:npz|idx|office_caltech):(.*)', scenario)
    return [
        file
        for path in (named_paths(named[1]) if named else [])
        for file in (sorted(path.iterdir()) if path.is_dir() else [path])
    ]


def cell(value: Cell) -> str:
    """``mean (std)``; a std that is not known is left out."""
    mean, std = value
    return f'{mean:.2f}' if np.isnan(std) else f'{mean:.2f} ({std:.2f})'


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table with aligned columns."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return '| ' + ' | '.join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + ' |'

    return [line(head), line(['-' * w for w in widths]), *map(line, rows)]


def main(
    show: Callable[[Study, str], None],
    name: str,
    choices: Sequence[str],
    here: pathlib.Path,
    arrange: Callable[[Study, str], Study] = lambda study, choice: study,
) -> None:
    """An absl program that shows one of ``choices``, chosen by the flag ``name``, with all flags of a run.

    The flag files in the folder ``here`` are its presets. ``arrange`` fits the study to the choice before its data is
    read.
    """
    presets = tuple(sorted(path.stem for path in here.glob('*.flags')))
    settings.define_flags(flags.FLAGS)
    flags.DEFINE_enum('preset', 'smoke', presets, 'settings to start from; other flags overrule them')
    flags.DEFINE_enum(name, None, choices, f'which {name} to show')
    words, hyper = sys.argv[1:], {}

    def parser(argv: Sequence[str]) -> Sequence[str]:
        chosen = [w.partition('=')[2] for w in argv[1:] if w.startswith('--preset=')] or ['smoke']
        if chosen[-1] not in presets:
            fail(f'--preset={chosen[-1]} is not one of {", ".join(presets)}')
        with one_line():
            hyper.update(settings.parse([f'--config={here / chosen[-1]}.flags', *argv[1:]], flags.FLAGS))
        if getattr(flags.FLAGS, name) is None:
            fail(f'--{name} is needed; choose one of {", ".join(choices)}')
        return argv[:1]

    def program(argv: Sequence[str]) -> None:
        values = flags.FLAGS
        with guarded(values):
            config = checked(settings.config_of(values, hyper))
            out = pathlib.Path(values.out or f'runs/{here.name}-{values.preset}')
            use_host_devices(config.devices)
            use_compilation_cache()
            study = arrange(Study(config, out, values.quiet), getattr(values, name))
            study.data()  # a mistake in the data shows before the first run
            out.mkdir(parents=True, exist_ok=True)
            show(study, getattr(values, name))

    app.run(program, argv=[sys.argv[0], *words], flags_parser=parser)
