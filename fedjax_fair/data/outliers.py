"""Outliers: training examples that are spoiled by ``spoil(key, x) -> x``, for one example ``x`` in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array, Outliers
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of

Spoil = Callable[[Array, Array], Array]
SHARE = 0.3  # of a client's examples


def random_pixels(share: float = 0.3) -> Spoil:
    """A pixel, with all its channels, becomes uniform values with probability ``share``; 0 changes nothing."""
    if not 0 <= share <= 1:
        raise UserError(f'`outlier_strength`={share} is a share of pixels and must be between 0 and 1')

    def spoil(key: Array, x: Array) -> Array:
        where, what = jax.random.split(key)
        hit = jax.random.bernoulli(where, share, (*x.shape[:2], *(1,) * (x.ndim - 2)))
        return jnp.where(jnp.broadcast_to(hit, x.shape), jax.random.uniform(what, x.shape, x.dtype), x)

    return spoil


def gaussian(std: float = 1.0) -> Spoil:
    """Noise of this deviation on every value, not cut off; 0 changes nothing."""
    return lambda key, x: x + std * jax.random.normal(key, x.shape, x.dtype)


# What spoils an example, and how much by default.
OUTLIERS: dict[str, tuple[Callable[[float], Spoil], float]] = {
    'pixels': (random_pixels, 0.3),
    'gaussian': (gaussian, 1.0),
}


def make_outliers(
    name: str,
    share: float | None = None,
    strength: float | None = None,
    persistent: bool = True,
    cumulative: bool = False,
) -> Outliers:
    """Outliers of :data:`OUTLIERS` by name; ``strength`` is a share of pixels or a standard deviation.

    ``persistent`` and ``cumulative`` are those of :class:`~fedjax_fair.core.types.Outliers`. Defaults are those of
    FedTilt (arXiv 2503.13537): 30 % of the examples, 30 % of their pixels or deviation 1.
    """
    if name not in OUTLIERS:
        raise UserError(f'`outliers`={name} {not_one_of(name, OUTLIERS)}')
    share = SHARE if share is None else share
    if not 0 <= share <= 1:
        raise UserError(f'`outlier_share`={share} must be between 0 and 1')
    if cumulative and not persistent:
        raise UserError('`outliers_once`=True and `outliers_cumulative`=True contradict each other; choose one of them')
    make, usual = OUTLIERS[name]
    return Outliers(make(usual if strength is None else strength), share, persistent, cumulative)
