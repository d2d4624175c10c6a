"""The loss around a model on clean and corrupted images, of training and of testing."""

from __future__ import annotations

import os
from typing import NamedTuple

import jax
import numpy as np

from experiments.landscape import AXIS, surface
from fedjax_fair.training import finished

SETS = ('training clean', 'training corrupted', 'testing clean', 'testing corrupted')
MOST = 512  # examples of a set


class Landscape(NamedTuple):
    """``losses[set][y, x]`` over ``axis`` times ``axis``."""

    axis: np.ndarray
    losses: dict[str, np.ndarray]


def landscape(folder: str | os.PathLike, seed: int = 0) -> Landscape:
    """Losses around the last global model of a run's first seed, on images of both kinds."""
    experiment, states = finished(folder)
    first = jax.tree.map(lambda leaf: leaf[0], states)
    sets = zip(SETS, _sets(experiment.federation), strict=True)
    return Landscape(AXIS, {name: surface(experiment, first, *some, seed=seed) for name, some in sets})


def _sets(federation) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training images of clean and of corrupted clients, then both test sets; at most so many of each."""
    rng, sets = np.random.default_rng(0), []
    for quality in range(2):
        clients = np.flatnonzero(federation.group_of == quality)
        rows = np.concatenate([federation.index[c, : federation.sizes[c]] for c in clients])
        sets.append((federation.x[rows], federation.y[rows]))
    tests = federation.tests
    sets += [(tests.x[q][tests.mask[q]], tests.y[q][tests.mask[q]]) for q in range(2)]
    chosen = [rng.permutation(len(y))[:MOST] for _, y in sets]
    return [(x[c], y[c]) for (x, y), c in zip(sets, chosen, strict=True)]
