"""How time and memory grow: with clients, with the model, and memory with the cohort.

``python -m benchmarks.engine.growth``. Every point is a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.engine.points import Point, alone, results_folder, rounds_of
from benchmarks.engine.session import page, write
from benchmarks.tables import machine, table
from fedjax_fair.core import Method
from fedjax_fair.metrics import classification
from fedjax_fair.models import make_model
from fedjax_fair.training.devices import use_host_devices
from fedjax_fair.viz import new_figure, save

POINTS: dict[str, list[Point]] = {
    'clients': [{'clients': n, 'width': 64} for n in (10, 30, 100, 300, 1000, 3000, 10000)],
    'model': [{'clients': 10, 'width': n} for n in (32, 64, 128, 256, 512, 1024, 2048)],
    'memory, accumulated': [{'clients': n, 'width': 512} for n in (10, 50, 100, 200, 400)],
    'memory, stacked': [{'clients': n, 'width': 512, 'stacked': True} for n in (10, 50, 100, 200, 400)],
}
EXAMPLES, BATCH, ROUNDS = 20, 10, 5  # per client; measured rounds


def measure(clients: int, width: int, stacked: bool = False) -> Point:
    """Rounds with all clients taking part, two steps each.

    ``stacked`` adds a method that must see all updates at once, as those with pairwise rules do.
    """
    use_host_devices(None)
    rng = np.random.default_rng(0)
    total = clients * EXAMPLES
    x, y = rng.integers(0, 256, (total, 28, 28, 1), np.uint8), rng.integers(0, 10, total, np.int32)
    methods = [Method('watch', needs_all=True, score=lambda view, updates: jnp.log(view.n))] if stacked else []
    network = make_model('mlp', 10, widths=(width, width))
    return rounds_of(network, classification(10), x, y, clients, BATCH, ROUNDS, methods)


def draw(found: Mapping[str, Any], path: pathlib.Path) -> None:
    """Three panels: time against clients, time against parameters, memory against the cohort."""
    figure = new_figure(11, 3.4)
    left, middle, right = figure.subplots(1, 3)

    def line(axes, series: str, x: str, y: str, label: str | None = None) -> None:
        points: Sequence[Mapping[str, float]] = found['series'][series]
        axes.plot([p[x] for p in points], [p[y] for p in points], 'o-', label=label)

    line(left, 'clients', 'clients', 'seconds')
    left.set(xscale='log', yscale='log', xlabel='clients, all taking part', ylabel='seconds per round')
    line(middle, 'model', 'parameters', 'seconds')
    middle.set(xscale='log', yscale='log', xlabel='parameters, 10 clients', ylabel='seconds per round')
    for series in ('memory, accumulated', 'memory, stacked'):
        line(right, series, 'clients', 'peak_mib', series.partition(', ')[2] + ' updates')
    right.set(xlabel='clients in the cohort', ylabel='peak MiB', ylim=(0, None))
    right.legend(frameon=False)
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
        axes.spines[['top', 'right']].set_visible(False)
    save(figure, path)


def as_markdown(found: Mapping[str, Any]) -> str:
    """All points as a table, below the figure."""
    about = (
        f'Every client trains two steps of {BATCH} examples on an MLP; the fastest of {ROUNDS} rounds, one process per '
        'point'
    )
    columns = ('series', 'clients', 'parameters', 's/round', 'ms per client', 'peak MiB')
    rows = [_row(name, point) for name, points in found['series'].items() for point in points]
    return page('Growth', about, found, ['![growth](growth.png)\n'], table(columns, rows))


def _row(name: str, p: Mapping[str, float]) -> list[str]:
    each = f'{1e3 * p["seconds"] / p["clients"]:.3f}'
    return [name, f'{p["clients"]:,}', f'{p["parameters"]:,}', f'{p["seconds"]:.4f}', each, f'{p["peak_mib"]:,.0f}']


def main() -> None:
    """Measure and write ``results/growth.json``, ``.md`` and ``.png``."""
    out = results_folder(__doc__, measure)
    series = {name: [alone('benchmarks.engine.growth', point) for point in points] for name, points in POINTS.items()}
    found = {'machine': machine(), 'series': series}
    write(out, 'growth', found, as_markdown(found))
    draw(found, out / 'growth.png')


if __name__ == '__main__':
    main()
