"""What amplitude normalisation costs beside a local step.

``python -m benchmarks.engine.amplitude``. Rounds of one client without it, with the whole spectrum and with the mean
alone, in turn in one process; all else is equal. After its first round the amplitude is settled and given to images, no
longer measured; one kind goes on measuring it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.engine.session import in_turn, page, program
from benchmarks.tables import table
from fedjax_fair.core import Local, build
from fedjax_fair.data.federation import Examples, cohort_of
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.models import make_model

# The demo's network and batch, a wider network, and the study's on tissue.
POINTS: list[dict[str, Any]] = [
    {'model': 'lenet', 'side': 32, 'batch': 16, 'steps': 40, 'options': {}},
    {'model': 'cnn', 'side': 32, 'batch': 16, 'steps': 20, 'options': {}},
    {'model': 'cnn', 'side': 64, 'batch': 16, 'steps': 10, 'options': {'widths': (16, 32, 32), 'norm': 'stateless'}},
]
NORMALISATIONS: dict[str, tuple[str, dict[str, str]]] = {
    'plain': ('fedavg', {}),
    'whole spectrum': ('amp_norm', {}),
    'whole spectrum, measured in every round': ('amp_norm', {'amp_norm.communicate': 'every_round'}),
    'mean alone': ('amp_norm', {'amp_norm.band': 'dc', 'amp_norm.seed': 'frozen_first_batch'}),
}
TURNS, CLASSES = 9, 2


def measure(point: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of a step, by kind: the fastest of some rounds."""
    rng, count = np.random.default_rng(0), point['batch'] * point['steps']
    x = rng.integers(0, 256, (count, point['side'], point['side'], 3), np.uint8)
    y = rng.integers(0, CLASSES, count, np.int32)
    sizes = np.full(1, count, np.int32)
    data = Examples(*map(jnp.asarray, (x, y, np.arange(count, dtype=np.int32)[None], sizes)))
    seconds = in_turn({kind: _round(point, kind, data, sizes, x[0]) for kind in NORMALISATIONS}, TURNS)
    return {kind: min(found) / point['steps'] for kind, found in seconds.items()}


def _round(point: Mapping[str, Any], kind: str, data: Examples, sizes: np.ndarray, example: Any) -> Callable[[], None]:
    """One round of one client, again and again from where it was."""
    recipe, hyper = NORMALISATIONS[kind]
    algorithm = build(
        make_model(point['model'], CLASSES, **point['options']),
        classification(CLASSES),
        make_methods(recipe, hyper),
        sizes=sizes,
        example=example,
        local=Local(batch_size=point['batch'], lr=0.01),
        client_map='vmap',
    )
    held = {'state': algorithm.init(jax.random.key(0))}
    step = jax.jit(lambda s, d: algorithm.round(s, cohort_of(d, jnp.arange(1)), jax.random.key(1))[0], donate_argnums=0)

    def go() -> None:
        held['state'] = jax.block_until_ready(step(held['state'], data))

    return go


def measure_all() -> dict[str, Any]:
    """Every point."""
    return {'points': [{**point, 'seconds': measure(point)} for point in POINTS]}


def as_markdown(found: Mapping[str, Any]) -> str:
    """One line per network."""
    about = f'One client, a step of gradient descent; the fastest of {TURNS} rounds in turn'
    columns = ('network', 'images', 'batch', *(f'{kind}, ms' for kind in NORMALISATIONS), *list(NORMALISATIONS)[1:])
    return page('Amplitude normalisation', about, found, table(columns, [_row(p) for p in found['points']]))


def _row(point: Mapping[str, Any]) -> list[str]:
    times = point['seconds']
    extra = [f'{times[kind] / times["plain"] - 1:+.1%}' for kind in list(NORMALISATIONS)[1:]]
    cells = [point['model'], f'{point["side"]}x{point["side"]}', str(point['batch'])]
    return [*cells, *(f'{1000 * times[kind]:.2f}' for kind in NORMALISATIONS), *extra]


if __name__ == '__main__':
    program('amplitude', __doc__, measure_all, as_markdown)
