"""A study of a paper: runs kept by setting and recipe, tables and figures that find them, a program that shows them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

from fedjax_fair import results
from fedjax_fair.cli import program
from fedjax_fair.data import SOURCES, Federation
from fedjax_fair.data.paths import named_paths
from fedjax_fair.errors import UserError
from fedjax_fair.escaping import as_markdown
from fedjax_fair.methods import RECIPES, make_methods
from fedjax_fair.options import Option, not_one_of
from fedjax_fair.publishing import publish
from fedjax_fair.training import Config, checked, load_federation, run, use_compilation_cache, use_host_devices
from fedjax_fair.training.network import check_weights
from fedjax_fair.training.writer_lock import writing
from fedjax_fair.viz import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES_AT_ONCE = 1024  # examples that are read at once
Cell = tuple[float, float]  # mean and standard deviation
Evidence = Mapping[str, Mapping[str, Any]]  # entries of experiments.evidence by a name


@dataclasses.dataclass(frozen=True)
class Study:
    """The settings all runs share and where they are kept.

    ``config.hyper`` is what the user asks of methods; it applies to every recipe that has the part.
    """

    config: Config
    out: pathlib.Path
    quiet: bool = False

    def changed(self, **changes: Any) -> Study:
        """The study with other settings."""
        return dataclasses.replace(self, config=self.config.changed(**changes))

    def settings(self, recipe: str, hyper: Mapping[str, Any] | None = None, **changes: Any) -> Config:
        """Those of one recipe: the hyper-parameters a table asks for, overruled by the user's for any of its parts.

        Options of augmentations and of the sampler apply to every recipe.
        """
        parts = [*recipe.split('+'), *self.config.tools]
        asked = {name: value for name, value in self.config.hyper.items() if name.partition('.')[0] in parts}
        return self.config.changed(recipe=recipe, hyper={**(hyper or {}), **asked}, **changes)

    def run(self, recipe: str, points: Sequence[Mapping[str, float]] = ({},), **changes: Any) -> list[pathlib.Path]:
        """Folders of a recipe's run, one for every point; a finished run is read, a stopped one goes on."""
        config = self.settings(recipe, **changes)
        for name in set(points[0]) & set(config.hyper):
            raise UserError(f'`{name}`={config.hyper[name]}: {name} is swept here over all of its values')
        said = {**changes, **config.hyper}
        name = ','.join(f'{key}={value}' for key, value in said.items() if key != 'hyper') or 'base'
        kind = '' if points[0] == {} else ' over ' + ','.join(points[0])
        folder = self.out / 'runs' / name / (recipe + kind)
        run(config, folder, points=points, resume=True, quiet=self.quiet)
        return [folder / results.point_name(point) if point else folder for point in points]

    def table(
        self,
        name: str,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        note: str,
        numbers: Any,
        data: Any = None,
        evidence: Evidence = MappingProxyType({}),
    ) -> None:
        """Print a table with a note under it and keep both, with the numbers and all that is needed to repeat them.

        ``data`` says which images these were where columns differ; else they are those of the study. ``evidence`` are
        entries of :mod:`experiments.evidence` by a name; their differences are a table of their own.
        """
        self.write(name, [*markdown(head, rows), '', note, *differences(evidence)], numbers, data, evidence)

    def write(
        self,
        name: str,
        lines: Sequence[str],
        numbers: Any,
        data: Any = None,
        evidence: Evidence = MappingProxyType({}),
    ) -> None:
        """Print lines and keep them, as :meth:`table` does."""
        text = '\n'.join(lines) + '\n'
        print(text)
        publish(self.out / f'{name}.md', text)
        facts = {'command': command(), 'commit': results.git_commit(), 'versions': results.versions()}
        record = {
            'numbers': numbers,
            'evidence': dict(evidence),
            'data': self.data() if data is None else data,
            'settings': portable(dataclasses.asdict(self.config)),
            **facts,
        }
        results.write_json(self.out / f'{name}.json', record)
        print(f'written: {self.out / name}.md and .json')

    def picture(self, figure: Figure, name: str) -> None:
        """Keep a figure."""
        print(f'written: {save(figure, self.out / f"{name}.png")}')

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

    def ours(self) -> str:
        """What our runs are, for the note under a table; a sentence that is not yet at its end."""
        data, config = self.data(), self.config
        shape, seeds = 'x'.join(map(str, data['shape'])), ', '.join(map(str, config.seeds))
        return (
            f'Ours: {data["name"]}, {len(data["train"])} clients with {sum(data["train"])} training examples of '
            f'{shape}, {config.model}, {config.local_epochs} local epochs, {config.rounds} rounds, seeds {seeds}'
        )


def portable(value: Any) -> Any:
    """Settings in which no path of this machine is left."""
    if isinstance(value, Mapping):
        return {name: portable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [portable(one) for one in value]
    return without_folders(value) if isinstance(value, str) else value


def without_folders(word: str) -> str:
    """A setting in which a file or folder that is given by an absolute path is left with its name alone.

    What is written of a study holds no place of one machine; ``$DATA/a.npz`` says how to find a file on any.

    >>> without_folders('--scenario=npz:/home/me/a.npz,$DATA/b.npz')
    '--scenario=npz:a.npz,$DATA/b.npz'
    """
    return re.sub(r'(^|[=:,])\s*([/~][^,]*)', lambda found: found[1] + pathlib.PurePath(found[2]).name, word)


def command() -> str:
    """The command that this program was started with, without places of this machine."""
    words = ' '.join(map(without_folders, sys.argv[1:]))
    return f'python -m {getattr(sys.modules["__main__"].__spec__, "name", "?")} {words}'


@functools.cache  # several tables are written in one program
def sha256(path: pathlib.Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digests(scenario: str, federation: Federation) -> dict[str, str]:
    """SHA-256 of the files a scenario names, or that lie in the folder it names.

    Data that are drawn, and sources of many files, in folders of folders, in lists or prepared elsewhere, have one of
    their training examples.
    """
    if files := _files(scenario):
        return {file.name: sha256(file) for file in files}
    digest = hashlib.sha256(str((federation.x.shape, federation.x.dtype)).encode())
    for start in range(0, len(federation.x), EXAMPLES_AT_ONCE):
        digest.update(np.ascontiguousarray(federation.x[start : start + EXAMPLES_AT_ONCE]).data)
    digest.update(np.ascontiguousarray(federation.y).data)
    return {'training examples': digest.hexdigest()}


def _files(scenario: str) -> list[pathlib.Path]:
    """All files that the examples of a scenario come from; none where they are not known by its name."""
    found = re.search(rf'({"|".join(SOURCES)}|office_caltech):(.*)', scenario)
    if found is None or found[1] == 'csv':
        return []
    named = named_paths(found[2])
    files = [file for path in named for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    return files if all(file.is_file() for file in files) else []


def percent(entry: Mapping[str, float]) -> Cell:
    """Mean and deviation over seeds of a number of a summary, in percent."""
    return 100 * entry['mean'], 100 * entry['std']


def cell(value: Cell) -> str:
    """``mean (std)``; a std that is not known is left out."""
    mean, std = value
    return f'{mean:.2f}' if np.isnan(std) else f'{mean:.2f} ({std:.2f})'


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table with aligned columns."""
    head, *rows = ([as_markdown(text) for text in line] for line in (head, *rows))
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return '| ' + ' | '.join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + ' |'

    return [line(head), line(['-' * w for w in widths]), *map(line, rows)]


def differences(evidence: Evidence) -> list[str]:
    """Every difference with a baseline, its 95 % interval and its verdict, as a table with a note."""
    return [line for title, entry in evidence.items() for line in ('', *_differences(title, entry))]


def _differences(title: str, entry: Mapping[str, Any]) -> list[str]:
    """Those of one entry."""
    if not entry:
        return [f'{title}: no differences, since the baseline diverged.']
    measures = entry['measures']
    names = list(dict.fromkeys(name for one in measures.values() for name in one['differences']))
    notes = [f'- {one}' for one in entry['notes']]
    if not names:
        return [f'{title}: no differences with {entry["baseline"]}.', *([''] if notes else []), *notes]
    rows = [[name, *(_difference(one['differences'].get(name)) for one in measures.values())] for name in names]
    seeds = f'{len(entry["seeds"])} seeds; intervals count {entry["counts"]}'
    told = f'{title}: minus {entry["baseline"]}, with 95 % intervals ({seeds}).'
    about = [f'- {key}: {one["about"]}' for key, one in measures.items()]
    return [told, '', *markdown(['', *measures], rows), '', *about, *notes]


def _difference(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ''
    return f'{found["estimate"]:+.2f} [{found["lo"]:.2f}, {found["hi"]:.2f}] {found["verdict"]}'


def known_hyper(given: Mapping[str, str], config: Config = Config()) -> dict[str, Any]:
    """Hyper-parameters for any recipe that has their part, in the order of names and with the types of the defaults.

    Options of the augmentations and the sampler of ``config`` are among them.

    >>> known_hyper({'qffl.q': '0.5', 'fedheal.semantics': 'paper'})
    {'fedheal.semantics': 'paper', 'qffl.q': 0.5}
    """
    found: dict[str, Any] = {}
    for part in sorted({name.partition('.')[0] for name in given}):
        own = {name: given[name] for name in sorted(given) if name.partition('.')[0] == part}
        if part in config.tools:
            found |= checked(config.changed(hyper=own)).hyper
            continue
        if part not in RECIPES:
            name, value = next(iter(own.items()))
            raise UserError(f'`{name}`={value}: {part!r} {not_one_of(part, RECIPES)}')
        make_methods(part, own)
        found |= checked(Config(recipe=part, hyper=own)).hyper
    return found


def show_part(shows: Mapping[str, Callable[[Study], None]], choice: str, study: Study) -> None:
    """Make one table or figure of a study, alone in its folder."""
    with writing(study.out):
        check_weights(study.config)
        study.data()  # a mistake in the data shows before the first run
        shows[choice](study)


def main(
    name: str,
    shows: Mapping[str, Callable[[Study], None]],
    here: pathlib.Path,
    arrange: Callable[[Study, str], Study] = lambda study, choice: study,
) -> None:
    """An absl program that shows one of some tables or figures, chosen by the flag ``name``, with all flags of a run.

    The flag files in the folder ``here`` are its presets. ``arrange`` fits the study to the choice before its data is
    read. Hyper-parameters, ``--part.key=value``, apply to every recipe that has the part, in the place of what a table
    asks for.
    """
    presets = tuple(sorted(path.stem for path in here.glob('*.flags')))
    about = 'settings to start from; other flags overrule them'
    preset = Option('preset', 'smoke', str, about, choices=presets)
    choice = Option(name, None, str, f'which {name} to show', choices=tuple(shows))

    def with_preset(words: list[str]) -> list[str]:
        given = [word.partition('=')[2] for word in words if word.startswith('--preset=')]
        return [f'--config={here / preset.check([preset.default, *given][-1])}.flags', *words]

    def show(config: Config, hyper: Mapping[str, str], values: flags.FlagValues) -> None:
        """Check the settings, read the data, then make the table or figure."""
        chosen = values[name].value
        if chosen is None:
            raise UserError(f'`{name}` is needed; choose one of {", ".join(shows)}')
        config = dataclasses.replace(checked(config), hyper=known_hyper(hyper, config))
        use_host_devices(config.devices, config.deterministic)
        use_compilation_cache()
        out = pathlib.Path(values.out or f'runs/{here.name}-{values.preset}')
        if values.overwrite:
            raise UserError(f'`overwrite`: a study goes on with the runs it finds in `out`={out}; name another `out`')
        show_part(shows, chosen, arrange(Study(config, out, values.quiet), chosen))

    program(show, [preset, choice], with_preset)
