"""Whether fast convolutions train as well as the definition: the same runs with both, over several seeds.

``python -m benchmarks.engine.convolution --rounds=16 --seeds=4``. ``patches`` computes every product of the definition,
``auto`` uses Winograd's algorithms where they are faster. XLA's own convolution (``exact``) is some 30 times slower.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.engine.session import Session, page, program
from benchmarks.tables import table
from fedjax_fair.training.config import Config
from fedjax_fair.training.devices import use_host_devices


def measure(conv: str, rounds: int, seeds: int) -> dict[str, Any]:
    """Mean accuracy over the four domains after every fifth round, for every seed."""
    config = Config(
        model='cnn', conv=conv, rounds=rounds, seeds=tuple(range(seeds)), norm='group', lr=0.05, batch_size=10,
        local_epochs=2, checkpoint_every=0,
    )  # fmt: skip
    session, start, curve = Session(config), time.perf_counter(), []
    for number in range(1, rounds + 1):
        session.round()
        if number % 5 == 0 or number == rounds:
            accuracy = np.asarray(session.evaluate('global')['global']['accuracy'])
            curve.append({'round': number, 'accuracy': accuracy.mean(1).tolist()})
    return {'curve': curve, 'seconds': time.perf_counter() - start}


def measure_all(rounds: int, seeds: int, convs: str) -> dict[str, Any]:
    """Every way to convolve of those joined by commas."""
    use_host_devices(None)
    return {'convolutions': {conv: measure(conv, rounds, seeds) for conv in convs.split(',')}}


def as_markdown(found: Mapping[str, Any]) -> str:
    """Accuracies after the last round and along the way."""
    about = (
        'The network cnn (32-64-128, 3x3, group norm) on digits_domains, '
        f'{found["rounds"]} rounds, {found["seeds"]} seeds; accuracy in % as mean over domains'
    )
    columns = ('convolution', 'round', 'mean over seeds', 'std over seeds', 'every seed')
    rows = [_row(conv, point) for conv, run in found['convolutions'].items() for point in run['curve']]
    return page('Training with fast convolutions', about, found, table(columns, rows))


def _row(conv: str, point: Mapping[str, Any]) -> list[str]:
    values = [100 * a for a in point['accuracy']]
    spread = f'{statistics.mean(values):.2f}', f'{statistics.pstdev(values):.2f}'
    return [conv, str(point['round']), *spread, ', '.join(f'{v:.1f}' for v in values)]


if __name__ == '__main__':
    program('convolution', __doc__, measure_all, as_markdown, rounds=16, seeds=4, convs='auto,patches')
