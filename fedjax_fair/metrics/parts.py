"""Pieces that tasks share."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array


def cross_entropy(logits: Array, y: Array) -> Array:
    """``log sum_k exp(logits_k) - logits_y`` for integer labels of any shape, as optax has it.

    The label's logit is selected, not gathered: the gradient of a gather is a scatter, several operations a step.

    >>> round(float(cross_entropy(jnp.array([0.0, 0.0]), jnp.array(1))), 4)
    0.6931
    """
    own = jax.nn.one_hot(y, logits.shape[-1], dtype=bool)
    return jax.nn.logsumexp(logits, axis=-1) - jnp.where(own, logits, 0).sum(-1)


def most_likely(logits: Array) -> Array:
    """The class of the largest logit."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


def masked_average(values: Array, mask: Array) -> Array:
    """Mean of the real examples' values; NaN for an empty test set."""
    return jnp.where(mask, values, 0).sum() / mask.sum().astype(values.dtype)


def count_classes(num_classes: int) -> Callable[[Array, Array], Array]:
    """``(y, mask) -> [K]``: how often every class occurs among integer labels of any shape."""

    def count(y: Array, mask: Array) -> Array:
        held = jnp.zeros(num_classes)
        return held.at[y].add(jnp.broadcast_to(mask, y.shape).astype(held.dtype), mode='drop')

    return count
