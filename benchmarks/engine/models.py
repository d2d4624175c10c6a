"""What one local step of every network costs: time, memory and compilation.

``python -m benchmarks.engine.models``. Every network is measured in a process of its own, so that its peak memory is
its own: one client, one step of gradient descent per round.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.engine.session import RESULTS, page, write
from benchmarks.peers.report import machine, table

POINTS: list[dict[str, Any]] = [
    {'model': 'mlp', 'side': 28},
    {'model': 'lenet', 'side': 32},
    {'model': 'cnn', 'side': 32},
    {'model': 'resnet10', 'side': 32},
    {'model': 'resnet18', 'side': 32, 'options': {'stem': 'cifar'}},
    {'model': 'resnet18', 'side': 96},
    {'model': 'resnet50', 'side': 96},
    {'model': 'densenet121', 'side': 96, 'options': {'pad': 2, 'norm': 'stateless'}},
    {'model': 'unet', 'side': 64, 'task': 'segmentation'},
]
BATCH, ROUNDS, CLASSES = 8, 4, 2


def measure(model: str, side: int, options: Mapping[str, Any] | None = None, task: str = 'classification') -> dict:
    """Seconds of a step (the fastest) and of compilation, parameters and peak memory."""
    import jax
    import jax.numpy as jnp

    from fedjax_fair.core import Local, build
    from fedjax_fair.data.federation import Examples, cohort_of
    from fedjax_fair.metrics import make_task
    from fedjax_fair.models import make_model

    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (BATCH, side, side, 3), np.uint8)
    y = rng.integers(0, CLASSES, (BATCH, side, side) if task == 'segmentation' else BATCH, np.int32)
    sizes = np.array([BATCH], np.int32)
    data = Examples(*map(jnp.asarray, (x, y, np.arange(BATCH, dtype=np.int32)[None], sizes)))
    algorithm = build(
        make_model(model, CLASSES, **(options or {})), make_task(task, CLASSES), [], sizes=sizes, example=x[0],
        local=Local(batch_size=BATCH, lr=0.01),
    )  # fmt: skip
    state = jax.jit(algorithm.init)(jax.random.key(0))
    one = jnp.zeros(1, jnp.int32)
    step = jax.jit(lambda s, d, key: algorithm.round(s, cohort_of(d, one), key)[0], donate_argnums=0)
    seconds = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        state = jax.block_until_ready(step(state, data, jax.random.key(1)))
        seconds.append(time.perf_counter() - start)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(state.variables['params']))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {'seconds': min(seconds[1:]), 'compile': seconds[0], 'parameters': parameters, 'peak_mib': peak}


def as_markdown(found: Mapping[str, Any]) -> str:
    """One line per network."""
    about = f'One step of {BATCH} images in one client, the fastest of {ROUNDS}; one process per network'
    columns = ('network', 'options', 'images', 'parameters', 's/step', 'first step, compiled', 'peak MiB')
    return page('Networks', about, found, table(columns, [_row(p) for p in found['points']]))


def _row(p: Mapping[str, Any]) -> list[str]:
    options = ', '.join(f'{k}={v}' for k, v in (p.get('options') or {}).items())
    image, times = f'{p["side"]}x{p["side"]}', [f'{p["seconds"]:.3f}', f'{p["compile"]:.1f} s']
    return [p['model'], options, image, f'{p["parameters"]:,}', *times, f'{p["peak_mib"]:,.0f}']


def main() -> None:
    """Measure and write ``results/models.json`` and ``.md``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--point', help='measure one network, given as JSON, and print it')
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS)
    args = parser.parse_args()
    if args.point:
        return print(json.dumps(measure(**json.loads(args.point))))
    found: dict[str, Any] = {'machine': machine(), 'points': []}
    for point in POINTS:
        words = [sys.executable, '-m', 'benchmarks.engine.models', '--point', json.dumps(point)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        found['points'].append({**point, **json.loads(done.stdout)})
        print(found['points'][-1], file=sys.stderr)
    write(args.out, 'models', found, as_markdown(found))


if __name__ == '__main__':
    main()
