"""Finished runs as reports and studies read them."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_fair.errors import UserError
from fedjax_fair.escaping import all_visible, visible
from fedjax_fair.options import not_one_of
from fedjax_fair.results import data_seeds
from fedjax_fair.results.evaluations import Line, history
from fedjax_fair.results.facts import read_config
from fedjax_fair.results.files import CONFIG, HISTORY, SUMMARY, Folder, holds_run
from fedjax_fair.results.joining import joined_runs
from fedjax_fair.results.schema import MODEL_KINDS
from fedjax_fair.results.selection import FORMER_LAST_K, reported
from fedjax_fair.results.summaries import summary


@dataclasses.dataclass(frozen=True, eq=False)  # what is computed of a run is cached by the run itself
class Run:
    """One run: ``history`` in order of round and seed, ``label`` tells it from the other runs of a report.

    A run with several data seeds has a folder for each of them, its ``units``. Its numbers are then means over the
    units, its deviations are those of the units' means, and a line of its history is the mean of one unit over its
    seeds, with the data seed in the place of the seed. ``more`` are the folders of further seeds, where
    :func:`~fedjax_fair.results.joined_runs` joined several runs.
    """

    path: pathlib.Path
    config: dict[str, Any]
    history: list[Line]
    summary: dict[str, Any]
    label: str
    units: tuple[pathlib.Path, ...] = ()
    more: tuple[pathlib.Path, ...] = ()

    @property
    def scenario(self) -> str:
        """The data, by the name of its scenario."""
        return self.summary['scenario']

    @property
    def score(self) -> str:
        """The number that fairness is about: accuracy, dice, auc."""
        return self.summary['score']

    @property
    def groups(self) -> list[str]:
        """Names of the groups on which fairness is measured; empty where there are none."""
        return self.summary['groups']

    @property
    def seeds(self) -> list[int]:
        """The seeds that were run, of every data seed."""
        return list(self.summary['seeds']) if len(self.units) > 1 else sorted({line['seed'] for line in self.history})

    @property
    def folders(self) -> list[pathlib.Path]:
        """Where its files are: one folder per data seed, in the order of :attr:`data_seeds`."""
        return list(self.units) or [self.path]

    @property
    def data_seeds(self) -> list[int]:
        """The seeds of the data, one per unit."""
        seeds = self.config.get('data_seed', 0)
        return list(seeds) if isinstance(seeds, list) else [seeds]

    @property
    def repeats(self) -> int:
        """Over how many repetitions deviations are: units where there are several, else seeds."""
        return len({line['seed'] for line in self.history})

    @property
    def headline(self) -> str:
        """The kind of model whose numbers come first: the one that clients would use.

        That is 'deployed' where the recipe has personal parts, else 'global'. Older runs do not say: there it is
        'deployed' where the clients' models score differently.
        """
        return self.summary.get('headline') or ('deployed' if self.differs('deployed') else 'global')

    def result(self, kind: str | None = None) -> dict[str, dict[str, Any]] | None:
        """Mean and deviation over seeds of every statistic of one kind of model; None if it was not evaluated.

        By default of the headline's.
        """
        kind = self.headline if kind is None else kind
        if kind not in MODEL_KINDS:
            raise UserError(f'`kind`={kind!r} {not_one_of(kind, MODEL_KINDS, repr)}')
        return self.summary.get(kind)

    def diverged(self, kind: str | None = None) -> bool:
        """Whether models of one kind, by default of the headline's, diverged at a reported evaluation of some seed.

        Then their test loss is not finite or absurd (:func:`~fedjax_fair.metrics.diverged`), and they have no scores.
        """
        loss = (self.result(kind) or {}).get('loss')
        return loss is not None and loss['mean'] is None

    def of_headline(self, line: Line) -> dict[str, Any]:
        """The numbers of the headline's model in a line of the history."""
        return line.get(self.headline) or line['global']

    def differs(self, kind: str) -> bool:
        """Whether the clients' own models of this kind were evaluated and do not score like the global model."""
        other, name = self.summary.get(kind), f'client_{self.score}'
        if other is None:
            return False
        own, shared = (np.array(result[name]['mean'], np.float64) for result in (other, self.summary['global']))
        return not np.allclose(own, shared, atol=1e-6, equal_nan=True)

    @property
    def rounds_reported(self) -> list[list[int]]:
        """The rounds of every seed of which its numbers are the mean; derived where an older run does not say."""
        if (rounds := self.summary.get('rounds_reported')) is not None:
            return rounds
        if (chosen := self.summary.get('selected_rounds')) is not None:
            return [[number] for number in chosen]
        last_k = self.config.get('last_k', FORMER_LAST_K)
        return [reported([li['round'] for li in self.history if li['seed'] == seed], last_k) for seed in self.seeds]

    @property
    def validation(self) -> dict[str, float | None] | None:
        """Mean and deviation over seeds of the validation score at the reported rounds; None without one."""
        return self.summary.get('validation')


def load(folder: Folder) -> Run:
    """A finished run; a mistake in one of its files raises UserError and names the file and the field.

    A folder that holds one folder per data seed is one run with several units.
    """
    path = pathlib.Path(folder)
    units = [] if (path / CONFIG).exists() else data_seeds.unit_folders(path)
    if units:
        config, lines, summarised = data_seeds.joined([load(unit) for unit in units])
        return Run(path, config, lines, summarised, summarised['recipe'], tuple(units))
    config, summarised = _shown(read_config(path), path), _shown(summary(path), path)
    label = summarised['recipe'] + (' (tuned)' if summarised.get('tuned') else '')
    return Run(path, config, history(path), summarised, label)


def _shown(record: dict[str, Any], path: pathlib.Path) -> dict[str, Any]:
    """What a file holds, its texts as everybody may print them: somebody else may have written it."""
    try:
        return all_visible(record)
    except RecursionError:
        raise UserError(f'{path}: its files are nested too deeply') from None


class LeftOut(NamedTuple):
    """A run that cannot be reported, and why."""

    path: pathlib.Path
    reason: str

    @property
    def sentence(self) -> str:
        """What users are told."""
        return visible(f'{self.path} is left out: {self.reason}')


def begun_runs(root: Folder) -> list[pathlib.Path]:
    """All folders below one in which a run was started, finished or not."""
    root = pathlib.Path(root)
    done = {path.parent for path in root.rglob(SUMMARY)}
    begun = {path.parent for path in root.rglob(CONFIG)}
    return sorted(done | {path for path in begun if holds_run(path) or (path / HISTORY).exists()})


def load_readable(folders: Iterable[Folder]) -> tuple[list[Run], list[LeftOut]]:
    """The finished runs as :func:`load_runs` gives them, and those that are unfinished or cannot be read."""
    runs, left_out = [], []
    for path in map(pathlib.Path, folders):
        try:
            if not (path / SUMMARY).exists() and not data_seeds.unit_folders(path):
                raise UserError(f'the run is not finished (no {SUMMARY}){_progress(path)}')
            runs.append(load(path))
        except UserError as error:
            left_out.append(LeftOut(path, str(error).removeprefix(f'{path}/')))
    return labelled(joined_runs(runs)), left_out


def _progress(path: pathlib.Path) -> str:
    """How far a run got, as far as its files tell."""
    try:
        return f'; its last evaluation is of round {history(path)[-1]["round"]} of {read_config(path)["rounds"]}'
    except (UserError, KeyError):
        return ''


def load_runs(folders: Iterable[Folder]) -> list[Run]:
    """Finished runs with labels: the recipe, then also the model, then also the directory, as far as needed.

    Those that differ in their seeds alone are one run.
    """
    runs = joined_runs([load(folder) for folder in folders])
    if not runs:
        raise UserError('run_dirs must name at least one run directory, got none')
    return labelled(runs)


def labelled(runs: Sequence[Run]) -> list[Run]:
    """The runs with labels that differ within a scenario, as far as models and directories differ."""
    with_models = _told_apart(runs, lambda alike: [run.summary['model'] for run in alike])
    return _told_apart(with_models, _directories)


def _told_apart(runs: Sequence[Run], names_of: Callable[[list[Run]], list[str]]) -> list[Run]:
    """The runs; labels that are equal within a scenario are extended by names, if these differ."""
    alike: dict[tuple[str, str], list[int]] = {}
    for place, run in enumerate(runs):
        alike.setdefault((run.scenario, run.label), []).append(place)
    found = list(runs)
    for (_, label), places in alike.items():
        names = names_of([runs[place] for place in places])
        for place, name in zip(places, names, strict=True) if len(set(names)) > 1 else ():
            found[place] = dataclasses.replace(runs[place], label=f'{label} ({name})')
    return found


def _directories(runs: Sequence[Run]) -> list[str]:
    """The names of their directories, with as many of those around them as tell all of them apart."""
    paths = [run.path.resolve() for run in runs]
    deep = next(n for n in itertools.count(1) if len({path.parts[-n:] for path in paths}) == len(set(paths)))
    return [visible(pathlib.PurePath(*path.parts[-deep:]).as_posix()) for path in paths]
