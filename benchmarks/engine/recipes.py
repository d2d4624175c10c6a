"""What every recipe and an evaluation cost beside a round of FedAvg, and what unequal clients waste.

``python -m benchmarks.engine.recipes --rounds=15``
"""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.engine.session import Session, in_turn, page, program
from benchmarks.peers.job import JOBS, write_data
from benchmarks.peers.worker_ours import config_of
from benchmarks.tables import table
from fedjax_fair.methods import RECIPES
from fedjax_fair.training.config import Config
from fedjax_fair.training.devices import use_host_devices

SKEW_MAPS: dict[str, dict[str, Any]] = {
    'one client at a time on every core': {},
    'chunks of 8': {'client_map': 'chunked', 'chunk': 8},
}


def measure_recipes(config: Config, rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of a round of every recipe, and of an evaluation of FedAvg's global and deployed models, in turn."""
    sessions = {name: Session(dataclasses.replace(config, recipe=name)) for name in _distinct(RECIPES)}
    tasks: dict[str, Callable[[], Any]] = {name: session.round for name, session in sessions.items()}
    tasks['evaluation'] = lambda: sessions['fedavg'].evaluate('global', 'deployed')
    seconds = in_turn(tasks, rounds)
    base = seconds['fedavg']
    return {name: _beside(taken, base) for name, taken in seconds.items()}


def _distinct(recipes: Mapping[str, Any]) -> list[str]:
    """The first name of every factory."""
    factories = list(recipes.values())
    return [name for n, name in enumerate(recipes) if factories[n] not in factories[:n]]


def _beside(taken: Sequence[float], base: Sequence[float]) -> dict[str, float]:
    return {
        'min_seconds': min(taken),
        'median_seconds': statistics.median(taken),
        'times_fedavg_min': min(taken) / min(base),
        'times_fedavg_median': statistics.median(taken) / statistics.median(base),
    }


def measure_skew(folder: pathlib.Path) -> dict[str, float]:
    """Examples paid for per example trained on, for 100 clients of 10 to 1,000 examples."""
    sizes = np.round(np.geomspace(10, 1000, 100)).astype(int)
    rng = np.random.default_rng(0)
    path = folder / 'skew.npz'
    site = np.repeat(np.arange(100), sizes)
    np.savez(path, images=rng.random((len(site), 4, 4, 1), np.float32), labels=rng.integers(0, 3, len(site)), site=site)
    data = {'split_by': 'site'}
    base = Config(scenario=f'npz:{path}', data=data, model='logreg', rounds=2, batch_size=10, checkpoint_every=0)
    paid = {}
    for name, how in SKEW_MAPS.items():
        session = Session(dataclasses.replace(base, **how))
        session.round()
        paid[name] = session.log['examples_paid'] / session.log['examples']
    return paid


def measure(rounds: int) -> dict[str, Any]:
    """All recipes on the job w1, and unequal clients."""
    use_host_devices(None)
    job = dataclasses.replace(JOBS['w1'], tests=40)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = config_of(job, str(write_data(job, folder)))
        return {'recipes': measure_recipes(config, rounds), 'skew': measure_skew(folder)}


def as_markdown(found: Mapping[str, Any]) -> str:
    """The tables."""
    about = f'The job w1 with 40 test examples per client, {found["rounds"]} rounds of each in turn'
    columns = ('recipe', 'min s/round', 'median s/round', 'times fedavg (min)', 'times fedavg (median)')
    skew = [(name, f'{value:.3f}') for name, value in found['skew'].items()]
    return page(
        'Recipes beside FedAvg',
        about,
        found,
        table(columns, [_row(name, value) for name, value in found['recipes'].items()]),
        ['\n## Clients of 10 to 1,000 examples\n'],
        table(('client map', 'examples paid per example trained'), skew),
    )


def _row(name: str, value: Mapping[str, float]) -> list[str]:
    label = 'evaluation of 100 clients, global and deployed' if name == 'evaluation' else name
    seconds = [f'{value[key]:.3f}' for key in ('min_seconds', 'median_seconds')]
    return [label, *seconds, *(f'{value[key]:.2f}' for key in ('times_fedavg_min', 'times_fedavg_median'))]


if __name__ == '__main__':
    program('recipes', __doc__, measure, as_markdown, rounds=15)
