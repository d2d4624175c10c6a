"""Finished runs as reports and studies read them."""

from __future__ import annotations

import dataclasses
import pathlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of
from fedjax_fair.results.evaluations import Line, history
from fedjax_fair.results.facts import read_config
from fedjax_fair.results.files import Folder
from fedjax_fair.results.schema import MODEL_KINDS
from fedjax_fair.results.summaries import summary

SCORE_WORDS = {'dice': 'Dice', 'auc': 'AUC'}


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: ``history`` in order of round and seed, ``label`` tells it from the other runs of a report."""

    path: pathlib.Path
    config: dict[str, Any]
    history: list[Line]
    summary: dict[str, Any]
    label: str

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
        """The seeds that were run."""
        return sorted({line['seed'] for line in self.history})

    def result(self, kind: str = 'global') -> dict[str, dict[str, Any]] | None:
        """Mean and deviation over seeds of every statistic of one kind of model; None if it was not evaluated."""
        if kind not in MODEL_KINDS:
            raise UserError(f'`kind`={kind!r} {not_one_of(kind, MODEL_KINDS, repr)}')
        return self.summary.get(kind)


def load(folder: Folder) -> Run:
    """A finished run; a mistake in one of its files raises UserError and names the file and the field."""
    path = pathlib.Path(folder)
    config, summarised = read_config(path), summary(path)
    return Run(path, config, history(path), summarised, summarised['recipe'])


def load_runs(folders: Iterable[Folder]) -> list[Run]:
    """Finished runs with labels: the recipe, then also the model, then also the directory, as far as needed."""
    runs = [load(folder) for folder in folders]
    if not runs:
        raise UserError('run_dirs must name at least one run directory, got none')
    for name in ('model', 'directory'):
        shared = Counter((run.scenario, run.label) for run in runs)
        extra = [run.summary['model'] if name == 'model' else run.path.resolve().name for run in runs]
        runs = [
            dataclasses.replace(run, label=f'{run.label} ({more})') if shared[run.scenario, run.label] > 1 else run
            for run, more in zip(runs, extra, strict=True)
        ]
    return runs


def score_of(runs: Sequence[Run]) -> str:
    """In words, what the numbers of these runs are about."""
    return ' or '.join(dict.fromkeys(SCORE_WORDS.get(run.score, run.score) for run in runs))
