"""Losses of methods, over a batch."""

from __future__ import annotations

import jax.numpy as jnp

from fedjax_fair.core.spec import masked_mean
from fedjax_fair.core.types import Array
from fedjax_fair.metrics.parts import cross_entropy


def logit_adjusted_cross_entropy(
    logits: Array, labels: Array, class_counts: Array, tau: Array | float = 1.0, mask: Array | None = None
) -> Array:
    """Mean cross-entropy of ``logits + tau log(n_c / sum n)``: rare classes must win by a margin.

    ``tau = 0`` is plain cross-entropy. A class nobody holds gets ``-inf``: the loss stays finite and its column of the
    gradient is exactly 0.

    Reference: Menon et al., Long-tail Learning via Logit Adjustment, ICLR 2021.

    >>> round(float(logit_adjusted_cross_entropy(jnp.zeros((1, 2)), jnp.array([1]), jnp.array([3, 1]))), 4)
    1.3863
    """
    mask = jnp.ones(labels.shape, bool) if mask is None else mask
    return masked_mean(cross_entropy(adjusted_logits(logits, class_counts, tau), labels), mask)


def adjusted_logits(logits: Array, class_counts: Array, tau: Array | float = 1.0) -> Array:
    """``logits[..., K] + tau log(n_c / sum n)``: ``-inf`` for a class not held, unless ``tau = 0``."""
    counts = class_counts.astype(jnp.zeros(0).dtype).reshape((1,) * (logits.ndim - 1) + (-1,))
    share = jnp.maximum(counts, 1) / jnp.maximum(counts.sum(), 1)
    prior = jnp.where(counts > 0, tau * jnp.log(share), jnp.where(jnp.asarray(tau) > 0, -jnp.inf, 0.0))
    return logits + prior.astype(logits.dtype)
