"""What tasks share: predictions from logits, and means and counts over the real examples of a padded set."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

from fedjax_fair.core.types import Array

ABSURD_LOSS = 1e6  # of a mean cross-entropy: logits as large as that are rounding errors of 32 bits, not odds


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
