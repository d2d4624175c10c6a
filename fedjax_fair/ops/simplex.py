"""The probability simplex."""

from __future__ import annotations

import jax.numpy as jnp

from fedjax_fair.core.types import Array


def project_simplex(v: Array, mask: Array | None = None) -> Array:
    """The nearest point to ``v[C]`` with non-negative entries that sum to 1, and 0 where masked.

    ``max(v - t, 0)`` with ``t`` such that it sums to 1, found by sorting. A point of the simplex stays where it is.

    Reference: Duchi et al., Efficient Projections onto the l1-Ball for Learning in High Dimensions, ICML 2008.

    >>> project_simplex(jnp.array([0.5, 1.5, -1.0])).tolist()
    [0.0, 1.0, 0.0]
    """
    mask = jnp.ones(v.shape, bool) if mask is None else mask
    ordered = jnp.sort(jnp.where(mask, v, -jnp.inf), descending=True)
    real = ordered > -jnp.inf
    count = jnp.arange(1, len(v) + 1, dtype=v.dtype)
    excess = (jnp.cumsum(jnp.where(real, ordered, 0)) - 1) / count
    used = jnp.sum((real & (ordered > excess)).astype(jnp.int32))
    return jnp.where(mask, jnp.maximum(v - excess[jnp.maximum(used - 1, 0)], 0), 0)
