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
from fedjax_fair.data import SOURCES, Federation
from fedjax_fair.data.options import named_paths
from fedjax_fair.methods import RECIPES, make_methods, resolve_hyper
from fedjax_fair.training import Config, load_federation, output, results, run, use_host_devices
from fedjax_fair.training.cache import use_compilation_cache
from fedjax_fair.training.config import check
from fedjax_fair.training.setup import checked

CHUNK = 1024  # examples that are read at once
Cell = tuple[float, float]  # mean and standard deviation


@dataclasses.dataclass(frozen=True)
class Study:
    """The settings all runs share and where they are kept.

    ``config.hyper`` is what the user asks of methods; it applies to every recipe that has the part.
    """

    config: Config
    out: pathlib.Path
    quiet: bool = False

    def settings(self, recipe: str, hyper: Mapping[str, Any] | None = None, **changes: Any) -> Config:
        """Those of one recipe: the hyper-parameters a table asks for, overruled by the user's for any of its parts."""
        parts = recipe.split('+')
        asked = {name: value for name, value in self.config.hyper.items() if name.partition('.')[0] in parts}
        return dataclasses.replace(self.config, recipe=recipe, hyper={**(hyper or {}), **asked}, **changes)

    def run(self, recipe: str, points: Sequence[Mapping[str, float]] = ({},), **changes: Any) -> list[pathlib.Path]:
        """Folders of a recipe's run, one for every point; a finished run is read, a stopped one goes on."""
        config = self.settings(recipe, **changes)
        for name in set(points[0]) & set(config.hyper):
            raise ValueError(f'--{name}={config.hyper[name]}: {name} is swept here over all of its values')
        said = {**changes, **config.hyper}
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
        words = ' '.join(map(without_folders, sys.argv[1:]))
        command = f'python -m {getattr(sys.modules["__main__"].__spec__, "name", "?")} {words}'
        facts = {'command': command, 'commit': results.git_commit(), 'versions': results.versions()}
        said = dataclasses.asdict(self.config)
        shared = {key: without_folders(value) if isinstance(value, str) else value for key, value in said.items()}
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
            'sha256': digests(self.config.scenario, federation),
        }


def without_folders(word: str) -> str:
    """A setting in which a file or folder that is given by an absolute path is left with its name alone.

    What is written of a study holds no place of one machine; ``$DATA/a.npz`` says how to find a file on any.

    >>> without_folders('--scenario=npz:/home/me/a.npz,$DATA/b.npz')
    '--scenario=npz:a.npz,$DATA/b.npz'
    """
    return re.sub(r'(^|[=:,])\s*([/~][^,]*)', lambda found: found[1] + pathlib.PurePath(found[2]).name, word)


@functools.cache  # several tables are written in one program
def sha256(path: pathlib.Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digests(scenario: str, federation: Federation) -> dict[str, str]:
    """SHA-256 of the files a scenario names, or that lie in the folder it names.

    Sources of many files, in folders of folders, in lists or prepared elsewhere, have one of their training examples.
    """
    found = re.search(rf'({"|".join(SOURCES)}|office_caltech):(.*)', scenario)
    if found is None:
        return {}
    named = named_paths(found[2])
    files = [file for path in named for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    if found[1] != 'csv' and all(file.is_file() for file in files):
        return {file.name: sha256(file) for file in files}
    digest = hashlib.sha256(str((federation.x.shape, federation.x.dtype)).encode())
    for start in range(0, len(federation.x), CHUNK):
        digest.update(np.ascontiguousarray(federation.x[start : start + CHUNK]).data)
    digest.update(np.ascontiguousarray(federation.y).data)
    return {'training examples': digest.hexdigest()}


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


def known_hyper(given: Mapping[str, str]) -> dict[str, Any]:
    """Hyper-parameters for any recipe that has their part, in the order of names and with the types of the defaults.

    >>> known_hyper({'qffl.q': '0.5', 'fedheal.semantics': 'paper'})
    {'fedheal.semantics': 'paper', 'qffl.q': 0.5}
    """
    found: dict[str, Any] = {}
    for part in sorted({name.partition('.')[0] for name in given}):
        own = {name: given[name] for name in sorted(given) if name.partition('.')[0] == part}
        if part not in RECIPES:
            name, value = next(iter(own.items()))
            raise ValueError(f'--{name}={value}: {part!r} is not one of {", ".join(RECIPES)}')
        make_methods(part, own)
        full = resolve_hyper(part, own)[part]
        found |= {name: full[name.partition('.')[2]] for name in own}
    return found


def main(
    show: Callable[[Study, str], None],
    name: str,
    choices: Sequence[str],
    here: pathlib.Path,
    arrange: Callable[[Study, str], Study] = lambda study, choice: study,
) -> None:
    """An absl program that shows one of ``choices``, chosen by the flag ``name``, with all flags of a run.

    The flag files in the folder ``here`` are its presets. ``arrange`` fits the study to the choice before its data is
    read. Hyper-parameters, ``--part.key=value``, apply to every recipe that has the part, in the place of what a table
    asks for.
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
            config = checked(settings.config_of(values, {}))
            config = check(dataclasses.replace(config, hyper=known_hyper(hyper)))
            out = pathlib.Path(values.out or f'runs/{here.name}-{values.preset}')
            use_host_devices(config.devices)
            use_compilation_cache()
            study = arrange(Study(config, out, values.quiet), getattr(values, name))
            study.data()  # a mistake in the data shows before the first run
            out.mkdir(parents=True, exist_ok=True)
            show(study, getattr(values, name))

    app.run(program, argv=[sys.argv[0], *words], flags_parser=parser)
