"""Read run directories: config.json, metrics.jsonl (one line per evaluation and seed) and summary.json."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

KINDS = {'global': 'metrics', 'deployed': 'deployed', 'adapted': 'adapted'}  # kind of model -> its key in summary.json
_CONFIG = {'recipe': str, 'scenario': str}
_SUMMARY = {'recipe': str, 'scenario': str, 'model': str, 'rounds': int, 'groups': list, 'metrics': dict}
_LINE = {'round': int, 'seed': int, 'global': dict}
_STATISTICS = ('avg', 'std', 'worst', 'client_std', 'client_worst_10pct')


@dataclasses.dataclass(frozen=True)
class RunData:
    """One run: ``history`` in order of round and seed, ``label`` tells it from the other runs of a report."""

    path: pathlib.Path
    config: dict[str, Any]
    history: list[dict[str, Any]]
    summary: dict[str, Any]
    label: str

    @property
    def scenario(self) -> str:
        return self.summary['scenario']

    @property
    def score(self) -> str:
        """The number that fairness is about: accuracy, dice, auc."""
        return _score(self.summary)

    @property
    def groups(self) -> list[str]:
        return self.summary['groups']

    @property
    def seeds(self) -> list[int]:
        return sorted({line['seed'] for line in self.history})

    def result(self, kind: str = 'global') -> dict[str, dict[str, Any]] | None:
        """Mean and deviation over seeds of every statistic of one kind of model; None if it was not evaluated."""
        return self.summary.get(KINDS[kind])


class Curve(NamedTuple):
    """A number over rounds: mean and population standard deviation over seeds, NaN where undefined."""

    rounds: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def load_runs(paths: Iterable[str | pathlib.Path]) -> list[RunData]:
    """Load run directories and label them: by recipe, then also model, then also directory, as far as needed."""
    runs = [load_run(path) for path in paths]
    if not runs:
        raise ValueError('run_dirs must name at least one run directory, got none')
    for name in ('model', 'directory'):
        shared = Counter((run.scenario, run.label) for run in runs)
        extra = [run.summary['model'] if name == 'model' else run.path.resolve().name for run in runs]
        runs = [
            dataclasses.replace(run, label=f'{run.label} ({more})') if shared[run.scenario, run.label] > 1 else run
            for run, more in zip(runs, extra, strict=True)
        ]
    return runs


def load_run(path: str | pathlib.Path) -> RunData:
    """Load and check one run directory; a mistake raises ValueError naming the file and the field."""
    path = pathlib.Path(path)
    config = _checked(_parse(_read(path / 'config.json'), path / 'config.json'), _CONFIG, path / 'config.json')
    summary = _checked(_parse(_read(path / 'summary.json'), path / 'summary.json'), _SUMMARY, path / 'summary.json')
    for key in KINDS.values():
        _check_result(summary.get(key), key, summary, path / 'summary.json')
    return RunData(path, config, _history(path / 'metrics.jsonl'), summary, summary['recipe'])


def curve(run: RunData, pick: Callable[[dict[str, Any]], float | None]) -> Curve:
    """The number ``pick(line)`` of every line of a run's history, over rounds."""
    rounds = sorted({line['round'] for line in run.history})
    values = np.full((len(run.seeds), len(rounds)), np.nan)
    for line in run.history:
        found = pick(line)
        values[run.seeds.index(line['seed']), rounds.index(line['round'])] = math.nan if found is None else found
    defined = ~np.isnan(values)
    count = np.where(defined.any(0), defined.sum(0), np.nan)
    mean = np.where(defined, values, 0).sum(0) / count
    return Curve(np.array(rounds), mean, np.sqrt(np.where(defined, (values - mean) ** 2, 0).sum(0) / count))


def _history(path: pathlib.Path) -> list[dict[str, Any]]:
    """The evaluations of all seeds; of an evaluation written twice (a resumed run) the later one counts."""
    lines: dict[tuple[int, int], dict[str, Any]] = {}
    for number, text in enumerate(_read(path).splitlines(), 1):
        if text.strip():
            place = f'{path} line {number}'
            line = _checked(_parse(text, place), _LINE, place)
            lines[line['round'], line['seed']] = line
    if not lines:
        raise ValueError(f'{path}: holds no evaluation')
    return [lines[key] for key in sorted(lines)]


def _score(summary: dict[str, Any]) -> str:
    return summary.get('score', 'accuracy')


def _check_result(result: Any, key: str, summary: dict[str, Any], path: pathlib.Path) -> None:
    if result is None:
        return
    groups, per_group = summary['groups'], f'group_{_score(summary)}'
    wanted = (*_STATISTICS, f'client_{_score(summary)}', per_group)
    _checked(result, dict.fromkeys(wanted, dict), f'{path}: field {key!r}')
    for name, entry in result.items():
        if not isinstance(entry, dict) or not {'mean', 'std'} <= entry.keys():
            raise ValueError(f'{path}: field {key}.{name} must hold mean and std')
    found = len(result[per_group]['mean'])
    if found != len(groups):
        raise ValueError(f'{path}: field {key}.{per_group} has {found} values for {len(groups)} groups')


def _checked(record: Any, fields: dict[str, Any], place: Any) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise ValueError(f'{place}: must be a JSON object, is {type(record).__name__}')
    for name, kind in fields.items():
        if name not in record:
            raise ValueError(f'{place}: lacks field {name!r}')
        if not isinstance(record[name], kind):
            raise ValueError(f'{place}: field {name!r} must be {kind.__name__}, is {type(record[name]).__name__}')
    return record


def _parse(text: str, place: Any) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _: None)  # NaN and Infinity: undefined
    except json.JSONDecodeError as error:
        raise ValueError(f'{place}: is not valid JSON ({error.msg}, column {error.colno})') from None


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding='utf-8')
    except OSError as error:
        raise ValueError(f'{path}: cannot be read ({error.strerror}); a run directory holds it when finished') from None
