"""Cross-entropy of integer labels."""

from __future__ import annotations

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
