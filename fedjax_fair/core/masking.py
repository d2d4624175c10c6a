"""Means and weights over the real entries of padded arrays."""

from __future__ import annotations

import jax.numpy as jnp

from fedjax_fair.core.types import Array


def masked_mean(values: Array, mask: Array) -> Array:
    """Mean over the real examples of a batch; zero for an empty one."""
    total = jnp.sum(jnp.where(mask, values, 0))
    return total / jnp.maximum(jnp.sum(mask.astype(values.dtype)), 1)


def masked_softmax(scores: Array, mask: Array) -> Array:
    """``softmax(scores)`` over the mask; uniform over it when every score is ``-inf``; zero when the mask is empty."""
    scores = jnp.where(mask & ~jnp.isnan(scores), scores, -jnp.inf)
    top = jnp.max(scores)
    odds = jnp.exp(scores - jnp.where(jnp.isfinite(top), top, 0))
    odds = jnp.where(top > -jnp.inf, odds, mask.astype(odds.dtype))
    return odds / jnp.maximum(jnp.sum(odds), jnp.finfo(odds.dtype).tiny)
