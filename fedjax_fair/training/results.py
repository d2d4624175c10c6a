"""What a run writes: config.json, metrics.jsonl, summary.json."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import pathlib
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_fair.metrics import last_k, over_seeds, summarise
from fedjax_fair.training.config import Config

PACKAGES = ('fedjax-fair', 'jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy', 'scikit-learn')


def versions() -> dict[str, str]:
    """Versions of Python and the packages that decide the numbers."""
    found = {'python': platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = 'not installed'
    return found


def git_commit() -> str | None:
    """Commit of the package's checkout, marked when files differ from it; None outside a checkout."""
    here = pathlib.Path(__file__).resolve().parent

    def git(*words: str) -> str:
        done = subprocess.run(['git', '-C', str(here), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git('rev-parse', 'HEAD') + ('-dirty' if git('status', '--porcelain', '-uno') else '')
    except (OSError, subprocess.CalledProcessError):
        return None


def write_json(path: pathlib.Path, value: Any) -> None:
    """Write JSON so that a reader never sees half a file."""
    temporary = path.with_suffix(path.suffix + '.tmp')
    temporary.write_text(json.dumps(value, indent=2) + '\n')
    temporary.replace(path)


def write_config(path: pathlib.Path, config: Config, model: str, notes: Sequence[str]) -> None:
    """Everything needed to repeat the run: settings, versions, commit, machine."""
    write_json(
        path / 'config.json',
        dataclasses.asdict(config)
        | {
            'model': model,
            'versions': versions(),
            'commit': git_commit(),
            'command': ' '.join(pathlib.Path(w).name if i == 0 else w for i, w in enumerate(sys.argv)),
            'platform': jax.default_backend(),
            'device_count': jax.local_device_count(),
            'notes': list(notes),
        },
    )


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
        old = self._path.read_text().splitlines() if self._path.exists() else []
        self.lines = [line for line in map(json.loads, old) if line['round'] <= upto]
        self._path.write_text(''.join(json.dumps(line) + '\n' for line in self.lines))

    def append(self, lines: Sequence[dict[str, Any]]) -> None:
        """Add the lines of one evaluation."""
        self.lines.extend(lines)
        with self._path.open('a') as file:
            file.writelines(json.dumps(line) + '\n' for line in lines)

    def of(self, seed: int, kind: str) -> list[dict[str, Any]]:
        """All summaries of one seed and kind of model, in order."""
        return [line[kind] for line in self.lines if line['seed'] == seed and kind in line]


def evaluation_line(
    round: int, seed: int, loss: float, found: Mapping[str, Mapping[str, np.ndarray]], federation
) -> dict:
    """One line of metrics.jsonl from the metrics of every kind of model."""
    line: dict[str, Any] = {'round': round, 'seed': seed, 'train_loss': loss if np.isfinite(loss) else None}
    for kind, values in found.items():
        own = kind != 'global'
        line[kind] = summarise(values, federation.tests.test_of, federation.groups, federation.group_of, per_client=own)
    return line


def write_summary(path: pathlib.Path, config: Config, model: str, federation, history: History, tallies: dict) -> dict:
    """summary.json: accuracies averaged over the last k evaluations, then mean and std over seeds."""

    def over(kind: str) -> dict | None:
        found = [history.of(seed, kind) for seed in config.seeds]
        if not all(found):
            return None
        k = config.last_k if kind != 'adapted' else 1
        return over_seeds([last_k(one, k) for one in found])

    group_of = None if federation.group_of is None else [int(g) for g in federation.group_of]
    summary = {
        'recipe': config.recipe,
        'scenario': federation.name,
        'model': model,
        'rounds': config.rounds,
        'seeds': list(config.seeds),
        'hyper': config.hyper,
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
    local = {name: value for name, value in point.items() if '.' not in name}
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
