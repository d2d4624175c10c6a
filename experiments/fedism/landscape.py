"""The loss around a model, in the plane of two random directions whose filters are as long as the model's."""

from __future__ import annotations

import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.engine import as_float
from fedjax_fair.core.types import Array, PyTree
from fedjax_fair.training import finished

SETS = ('training clean', 'training corrupted', 'testing clean', 'testing corrupted')
SIDE, REACH, MOST = 21, 1.0, 512  # points of an axis, its end, and examples of a set


class Landscape(NamedTuple):
    """``losses[set][y, x]`` over ``axis`` times ``axis``."""

    axis: np.ndarray
    losses: dict[str, np.ndarray]


def direction(key: Array, params: PyTree) -> PyTree:
    """A random direction in which every filter is as long as the model's; biases and norms do not move.

    ``d_f <- d_f ||w_f|| / ||d_f||``, a filter being all weights of one output.

    Reference: Li et al., Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018.
    """
    leaves, treedef = jax.tree.flatten(params)

    def of_leaf(key: Array, leaf: Array) -> Array:
        if leaf.ndim < 2:
            return jnp.zeros_like(leaf)
        drawn = jax.random.normal(key, leaf.shape, leaf.dtype)
        filters = tuple(range(leaf.ndim - 1))
        length, own = (jnp.sqrt(jnp.sum(w**2, axis=filters, keepdims=True)) for w in (leaf, drawn))
        return drawn * (length / jnp.maximum(own, 1e-12))

    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(treedef, [of_leaf(*pair) for pair in zip(keys, leaves, strict=True)])


def landscape(folder: str | os.PathLike, seed: int = 0) -> Landscape:
    """Losses around the last global model of a run's first seed, on images of both kinds."""
    experiment, states = finished(folder)
    variables = jax.tree.map(lambda leaf: leaf[0], states).variables
    federation, axis = experiment.federation, np.linspace(-REACH, REACH, SIDE, dtype=np.float32)
    one, other = (direction(key, variables['params']) for key in jax.random.split(jax.random.key(seed)))

    @jax.jit
    def losses(x: Array, y: Array) -> Array:
        x = as_float(x)

        def at(place: Array) -> Array:
            moved = jax.tree.map(lambda w, a, b: w + place[0] * a + place[1] * b, variables['params'], one, other)
            mask = jnp.ones(len(y), bool)
            out = experiment.model.apply({**variables, 'params': moved}, x, mask, False, jax.random.key(0))
            return jnp.mean(experiment.task.losses(out.logits, y, mask))

        places = jnp.stack(jnp.meshgrid(axis, axis), -1).reshape(-1, 2)
        return jax.lax.map(at, places).reshape(SIDE, SIDE)

    found = {name: np.asarray(losses(*some)) for name, some in zip(SETS, _sets(federation), strict=True)}
    return Landscape(axis, found)


def _sets(federation) -> list[tuple[Array, Array]]:
    """Training images of clean and of corrupted clients, then both test sets; at most so many of each."""
    rng, sets = np.random.default_rng(0), []
    for quality in range(2):
        clients = np.flatnonzero(federation.group_of == quality)
        rows = np.concatenate([federation.index[c, : federation.sizes[c]] for c in clients])
        sets.append((federation.x[rows], federation.y[rows]))
    tests = federation.tests
    sets += [(tests.x[q][tests.mask[q]], tests.y[q][tests.mask[q]]) for q in range(2)]
    chosen = [rng.permutation(len(y))[:MOST] for _, y in sets]
    return [(jnp.asarray(x[c]), jnp.asarray(y[c])) for (x, y), c in zip(sets, chosen, strict=True)]
