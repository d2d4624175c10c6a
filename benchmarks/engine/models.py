"""What one local step of every network costs: time, memory and compilation.

``python -m benchmarks.engine.models``. Every network is measured in a process of its own, so that its peak memory is
its own: one client, one step of gradient descent per round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.engine.points import Point, alone, results_folder, rounds_of
from benchmarks.engine.session import page, write
from benchmarks.tables import machine, table
from fedjax_fair.metrics import make_task
from fedjax_fair.models import make_model

POINTS: list[Point] = [
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


def measure(model: str, side: int, options: Mapping[str, Any] | None = None, task: str = 'classification') -> Point:
    """One step of one client on random images."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (BATCH, side, side, 3), np.uint8)
    y = rng.integers(0, CLASSES, (BATCH, side, side) if task == 'segmentation' else BATCH, np.int32)
    network = make_model(model, CLASSES, **(options or {}))
    return rounds_of(network, make_task(task, CLASSES), x, y, 1, BATCH, ROUNDS)


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
    out = results_folder(__doc__, measure)
    found = {'machine': machine(), 'points': [alone('benchmarks.engine.models', point) for point in POINTS]}
    write(out, 'models', found, as_markdown(found))


if __name__ == '__main__':
    main()
