"""What a run writes: config.json, metrics.jsonl, summary.json."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import json
import pathlib
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_fair.metrics import last_k, over_seeds, summarise
from fedjax_fair.training.config import Config

PACKAGES = ('fedjax-fair', 'jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy', 'scikit-learn')

SELECTIONS = ('last_k', 'best_validation')  # which evaluations are reported

FACTS = ('versions', 'commit', 'command', 'platform', 'device_count', 'notes')  # in config.json beside the settings


def versions() -> dict[str, str]:
    """Versions of Python and the packages that decide the numbers."""
    found = {'python': platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = 'not installed'
    return found


@functools.cache
def git_commit() -> str | None:
    """Commit of the package's checkout, marked when files differ from it; None outside a checkout."""
    here = pathlib.Path(__file__).resolve()

    def git(*words: str) -> str:
        done = subprocess.run(['git', '-C', str(here.parent), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        git('ls-files', '--error-unmatch', here.name)  # installed inside somebody else's checkout: not ours
        return git('rev-parse', 'HEAD') + ('-dirty' if git('status', '--porcelain', '-uno') else '')
    except (OSError, subprocess.CalledProcessError):
        return None


def write_json(path: pathlib.Path, value: Any) -> None:
    """Write JSON so that a reader never sees half a file."""
    temporary = path.with_suffix(path.suffix + '.tmp')
    temporary.write_text(json.dumps(value, indent=2, allow_nan=False) + '\n')
    temporary.replace(path)


def write_config(path: pathlib.Path, config: Config, model: str, notes: Sequence[str]) -> None:
    """Everything needed to repeat the run: settings, versions, commit, machine."""
    facts = {
        'versions': versions(),
        'commit': git_commit(),
        'command': shlex.join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]),
        'platform': jax.default_backend(),
        'device_count': jax.local_device_count(),
        'notes': list(notes),
    }
    write_json(path / 'config.json', dataclasses.asdict(config) | {'model': model} | facts)


def read_config(path: pathlib.Path) -> Config:
    """The settings of a run directory."""
    values = json.loads((path / 'config.json').read_text())
    names = {f.name for f in dataclasses.fields(Config)}
    return Config.from_dict({k: v for k, v in values.items() if k in names})


class History:
    """metrics.jsonl: one line per evaluation and seed, appended as it happens."""

    def __init__(self, path: pathlib.Path, upto: int = 0):
        """Keep the lines of rounds up to ``upto`` and drop what a stopped run wrote after its checkpoint."""
        self._path = path / 'metrics.jsonl'
        old = self._path.read_text().splitlines(keepends=True) if self._path.exists() else []
        whole = [json.loads(line) for line in old if line.endswith('\n')]  # a run that was killed leaves half a line
        self.lines = [line for line in whole if line['round'] <= upto]
        self._path.write_text(_json_lines(self.lines))

    def append(self, lines: Sequence[dict[str, Any]]) -> None:
        """Add the lines of one evaluation."""
        self.lines.extend(lines)
        with self._path.open('a') as file:
            file.write(_json_lines(lines))

    def of(self, seed: int, kind: str) -> list[dict[str, Any]]:
        """All summaries of one seed and kind of model, in order."""
        return [line[kind] for line in self.lines if line['seed'] == seed and kind in line]

    def best(self, seed: int) -> dict[str, Any]:
        """The evaluation of one seed with the best validation score, the first of equals."""
        own = [line for line in self.lines if line['seed'] == seed]
        return max(own, key=lambda line: -np.inf if line['validation'] is None else line['validation'])


def _json_lines(lines: Sequence[dict[str, Any]]) -> str:
    return ''.join(json.dumps(line, allow_nan=False) + '\n' for line in lines)


def evaluation_line(
    round: int,
    seed: int,
    loss: float,
    found: Mapping[str, Mapping[str, np.ndarray]],
    federation,
    score: str,
    validation: Mapping[str, np.ndarray] | None = None,
) -> dict:
    """One line of metrics.jsonl from the metrics of every kind of model; fairness is about the ``score``.

    ``validation`` are the metrics of clients on their validation sets, of which the mean score is kept.
    """
    line: dict[str, Any] = {'round': round, 'seed': seed, 'train_loss': loss if np.isfinite(loss) else None}
    if validation is not None:
        line['validation'] = mean_score(np.asarray(validation[score], np.float64))
    for kind, values in found.items():
        own = kind != 'global'
        line[kind] = summarise(values, federation.tests.test_of, federation.groups, federation.group_of, own, score)
    return line


def mean_score(scores: np.ndarray) -> float | None:
    """The mean over the clients that have a score; None where nobody has."""
    known = scores[np.isfinite(scores)]
    return float(known.mean()) if known.size else None


def write_summary(
    path: pathlib.Path, config: Config, model: str, federation, history: History, score: str, tallies: dict
) -> dict:
    """summary.json: scores averaged over the last k evaluations (or the best one), then mean and std over seeds."""
    best = [history.best(seed) for seed in config.seeds] if config.select == 'best_validation' else None

    def over(kind: str) -> dict | None:
        found = [history.of(seed, kind) for seed in config.seeds]
        if not all(found):
            return None
        if best is not None and kind != 'adapted':
            found = [[line[kind]] for line in best]
        k = config.last_k if kind != 'adapted' else 1
        return over_seeds([last_k(one, k, score) for one in found])

    group_of = None if federation.group_of is None else [int(g) for g in federation.group_of]
    summary = {
        'recipe': config.recipe,
        'scenario': federation.name,
        'task': federation.task,
        'score': score,
        'model': model,
        'rounds': config.rounds,
        'seeds': list(config.seeds),
        'hyper': config.hyper,
        'selected_rounds': None if best is None else [line['round'] for line in best],
        'clients': federation.num_clients,
        'groups': list(federation.groups),
        'group_of': group_of,
        'metrics': over('global'),
        'deployed': over('deployed'),
        'adapted': over('adapted'),
        **tallies,
    }
    write_json(path / 'summary.json', summary)
    return summary


def read_json(path: pathlib.Path) -> Any:
    """Parse a JSON file."""
    return json.loads(path.read_text())


def with_point(config: Config, point: Mapping[str, float]) -> Config:
    """The settings of one point of a grid, as if it had been run alone."""
    methods = {name: value for name, value in point.items() if '.' in name}
    local: dict[str, Any] = {name: value for name, value in point.items() if '.' not in name}
    return dataclasses.replace(config, hyper={**config.hyper, **methods}, **local)


def costs(tallies: Mapping[str, Any], lanes: slice, rounds: int) -> dict[str, Any]:
    """Time, communication, padding and failures of some lanes, per round and run where that is meant."""
    sums = {name: np.asarray(values)[lanes] for name, values in tallies['sums'].items()}
    share = len(sums['clients']) / len(tallies['sums']['clients'])
    seconds = tallies['seconds'] * share
    return {
        'seconds': seconds,
        'compile_seconds': tallies['compile_seconds'],
        'rounds_per_second': rounds * len(sums['clients']) / max(seconds, 1e-9),
        'bytes_per_round': {way: float(sums[f'bytes_{way}'].mean() / rounds) for way in ('down', 'up')},
        'padding_waste': float(1 - sums['examples'].sum() / max(sums['examples_paid'].sum(), 1)),
        'failures': {
            'dropped': int(sums['dropped'].sum()),
            'non_finite': int(sums['failed'].sum()),
            'empty_rounds': int(sums['empty'].sum()),
        },
    }


def failure_lines(summaries: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, float]]) -> list[str]:
    """One line for every run in which something went wrong, for the end of the terminal's output."""
    lines = []
    for summary, point in zip(summaries, points, strict=True):
        failures = summary['failures']
        found = [
            (failures['dropped'], 'times a client dropped out'),
            (failures['non_finite'], 'times a client failed with a non-finite update, which was left out'),
            (failures['empty_rounds'], 'rounds were empty and left the model unchanged'),
        ]
        told = ', '.join(f'{count} {what}' for count, what in found if count)
        where = ''.join(f'{name}={value:g}, ' for name, value in point.items())
        seeds = f'{len(summary["seeds"])} seeds of ' if len(summary['seeds']) > 1 else ''
        if told:
            lines.append(f'{where}{seeds}{summary["rounds"]} rounds: {told}')
    return lines
