"""How time and memory grow: with clients, with the model, and memory with the cohort.

``python -m benchmarks.engine.growth``. Every point is a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.engine.session import RESULTS, page, write
from benchmarks.peers.report import machine, table

POINTS: dict[str, list[dict[str, Any]]] = {
    'clients': [{'clients': n, 'width': 64} for n in (10, 30, 100, 300, 1000, 3000, 10000)],
    'model': [{'clients': 10, 'width': n} for n in (32, 64, 128, 256, 512, 1024, 2048)],
    'memory, accumulated': [{'clients': n, 'width': 512} for n in (10, 50, 100, 200, 400)],
    'memory, stacked': [{'clients': n, 'width': 512, 'stacked': True} for n in (10, 50, 100, 200, 400)],
}
EXAMPLES, BATCH, ROUNDS = 20, 10, 5  # per client; measured rounds


def measure(clients: int, width: int, stacked: bool = False) -> dict[str, float]:
    """Seconds per round (the fastest), parameters and peak memory with all clients taking part, two steps each.

    ``stacked`` adds a method that must see all updates at once, as those with pairwise rules do.
    """
    import jax
    import jax.numpy as jnp

    from fedjax_fair.core import Local, Method, build
    from fedjax_fair.data.federation import Examples, cohort_of
    from fedjax_fair.metrics import classification
    from fedjax_fair.models import make_model
    from fedjax_fair.training.setup import use_host_devices

    use_host_devices(None)
    rng = np.random.default_rng(0)
    total = clients * EXAMPLES
    x, y = rng.integers(0, 256, (total, 28, 28, 1), np.uint8), rng.integers(0, 10, total, np.int32)
    where = np.arange(total, dtype=np.int32).reshape(clients, EXAMPLES)
    sizes = np.full(clients, EXAMPLES, np.int32)
    data = Examples(*map(jnp.asarray, (x, y, where, sizes)))
    methods = [Method('watch', needs_all=True, score=lambda view, updates: jnp.log(view.n))] if stacked else []
    algorithm = build(
        make_model('mlp', 10, widths=(width, width)), classification(10), methods, sizes=sizes, example=x[0],
        local=Local(batch_size=BATCH, lr=0.01),
    )  # fmt: skip
    state = jax.jit(algorithm.init)(jax.random.key(0))
    everyone = jnp.arange(clients, dtype=jnp.int32)
    step = jax.jit(lambda s, d, key: algorithm.round(s, cohort_of(d, everyone), key)[0], donate_argnums=0)
    seconds = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        state = jax.block_until_ready(step(state, data, jax.random.key(1)))
        seconds.append(time.perf_counter() - start)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(state.variables['params']))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {'seconds': min(seconds[1:]), 'parameters': parameters, 'peak_mib': peak}


def draw(found: Mapping[str, Any], path: pathlib.Path) -> None:
    """Three panels: time against clients, time against parameters, memory against the cohort."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout='constrained')
    FigureCanvasAgg(figure)
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
    figure.savefig(path, dpi=120, facecolor='white')


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--point', help='measure one point, given as JSON, and print it')
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS)
    args = parser.parse_args()
    if args.point:
        return print(json.dumps(measure(**json.loads(args.point))))
    found: dict[str, Any] = {'machine': machine(), 'series': {}}
    for name, points in POINTS.items():
        for point in points:
            words = [sys.executable, '-m', 'benchmarks.engine.growth', '--point', json.dumps(point)]
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
            found['series'].setdefault(name, []).append({**point, **json.loads(done.stdout)})
            print(name, found['series'][name][-1], file=sys.stderr)
    write(args.out, 'growth', found, as_markdown(found))
    draw(found, args.out / 'growth.png')


if __name__ == '__main__':
    main()
