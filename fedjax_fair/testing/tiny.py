"""A federation and a model small enough to compile in a second."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Array, Model, Output, Variables
from fedjax_fair.data.federation import Federation, index_table, stack_tests


def tiny_federation(sizes: Sequence[int] = (12, 7, 9, 5), seed: int = 0, dim: int = 4, classes: int = 3) -> Federation:
    """Gaussian blobs, one centre per class, slightly shifted for every client; each client has a test set."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, dim)) * 2

    def draw(count, shift):
        y = rng.integers(0, classes, count)
        return (centres[y] + shift + rng.normal(size=(count, dim)) * 0.5).astype(np.float32), y.astype(np.int32)

    shifts = rng.normal(size=(len(sizes), dim)) * 0.3
    train = [draw(n, s) for n, s in zip(sizes, shifts, strict=True)]
    ends = np.cumsum([0, *sizes])
    index, counts = index_table([np.arange(a, b) for a, b in itertools.pairwise(ends)])
    names = [f'client {i}' for i in range(len(sizes))]
    tests = stack_tests([draw(20, s) for s in shifts], np.arange(len(sizes)), names)
    x, y = (np.concatenate([t[k] for t in train]) for k in (0, 1))
    return Federation('tiny', x, y, index, counts, tests, classes)


def tiny_mlp(width: int = 6, classes: int = 3, batch_norm: bool = False) -> Model:
    """One hidden tanh layer, optionally with batch statistics, written out so that tests need no network library.

    Images are taken as vectors.
    """

    def dense(key, rows, columns, dtype):
        return {'kernel': jax.random.normal(key, (rows, columns), dtype) * 0.5, 'bias': jnp.zeros(columns, dtype)}

    def init(key: Array, x: Array) -> Variables:
        a, b = jax.random.split(key)
        params = {
            'body': dense(a, x[0].size, width, x.dtype),
            'head': dense(b, width, classes, x.dtype),
        }
        stats = {'body': {'mean': jnp.zeros(width, x.dtype)}} if batch_norm else {}
        return {'params': params, 'batch_stats': stats}

    def apply(variables: Variables, x: Array, mask: Array, train: bool, key: Array) -> Output:
        p, stats = variables['params'], variables['batch_stats']
        h = x.reshape(x.shape[0], -1) @ p['body']['kernel']
        if batch_norm:
            mean = stats['body']['mean']
            if train:
                now = jnp.sum(h * mask[:, None].astype(h.dtype), 0) / jnp.maximum(jnp.sum(mask.astype(h.dtype)), 1)
                stats = {'body': {'mean': 0.9 * mean + 0.1 * jax.lax.stop_gradient(now)}}
                mean = now
            h = h - mean[None]
        features = jnp.tanh(h + p['body']['bias'][None])
        logits = features @ p['head']['kernel'] + p['head']['bias'][None]
        return Output(logits, features, stats)

    return Model(init, apply, 'tiny_mlp')
