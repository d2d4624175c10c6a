"""Losses of methods, over a batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.masking import masked_mean
from fedjax_fair.core.tree import per_row
from fedjax_fair.core.types import Array, PyTree, default_float
from fedjax_fair.ops.entropy import cross_entropy

MARGINS = ('logits', 'softmax_batch', 'squared')
PULLS = ('squared', 'norms')


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
    counts = class_counts.astype(default_float()).reshape((1,) * (logits.ndim - 1) + (-1,))
    share = jnp.maximum(counts, 1) / jnp.maximum(counts.sum(), 1)
    prior = jnp.where(counts > 0, tau * jnp.log(share), jnp.where(jnp.asarray(tau) > 0, -jnp.inf, 0.0))
    return logits + prior.astype(logits.dtype)


def margin_penalty(logits: Array, kind: str = 'logits', mask: Array | None = None) -> Array:
    """How far the logits ``[B, ..., K]`` of a batch lie from 0.

    ``'logits'``: the mean of ``log(1 + ||f||^2)`` over examples (and pixels). ``'squared'``: the mean of ``||f||^2``.
    ``'softmax_batch'``: ``log(1 + ||S||^2)`` with ``S`` the probabilities of the whole batch; it draws predictions
    towards uniform ones, is bounded, and grows with the size of the batch.
    """
    if kind not in MARGINS:
        raise ValueError(f'kind={kind!r} is not one of {", ".join(map(repr, MARGINS))}')
    mask = jnp.ones(logits.shape[0], bool) if mask is None else mask
    logits = jnp.where(per_row(mask, logits), logits, 0)
    if kind == 'softmax_batch':
        return jnp.log1p(jnp.sum(per_row(mask, logits).astype(logits.dtype) * jax.nn.softmax(logits) ** 2))
    square = jnp.sum(logits**2, axis=-1)
    each = jnp.log1p(square) if kind == 'logits' else square
    return masked_mean(each.reshape(len(mask), -1).mean(1), mask)


def margin_loss(
    logits: Array, labels: Array, lam: Array | float, kind: str = 'logits', mask: Array | None = None
) -> Array:
    """Mean cross-entropy plus ``lam`` times :func:`margin_penalty`; ``lam = 0`` is plain cross-entropy.

    Reference: Zeng et al., Tackling Data Heterogeneity in Federated Learning via Loss Decomposition, MICCAI 2024,
    Eq. 3 (``'logits'``), whose code has ``'softmax_batch'``; ``'squared'`` is spectral decoupling.

    >>> round(float(margin_loss(jnp.array([[1.0, 0.0]]), jnp.array([0]), 0.1)), 4)
    0.3826
    """
    mask = jnp.ones(logits.shape[0], bool) if mask is None else mask
    losses = cross_entropy(logits, labels).reshape(len(mask), -1).mean(1)
    return masked_mean(losses, mask) + lam * margin_penalty(logits, kind, mask)


def proximal_term(params: PyTree, centre: PyTree, mu: Array | float, kind: str = 'squared') -> Array:
    """``(mu / 2) ||params - centre||^2``, or ``mu sum_tensors ||params - centre||`` (``'norms'``), flat at the centre.

    >>> apart = {'a': jnp.array([3.0, 4.0]), 'b': jnp.array([0.0])}, {'a': jnp.zeros(2), 'b': jnp.zeros(1)}
    >>> float(proximal_term(*apart, 2.0)), float(proximal_term(*apart, 2.0, 'norms'))
    (25.0, 10.0)
    """
    if kind not in PULLS:
        raise ValueError(f'kind={kind!r} is not one of {", ".join(map(repr, PULLS))}')
    squares = jnp.stack(jax.tree.leaves(jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), params, centre)))
    if kind == 'squared':
        return mu / 2 * jnp.sum(squares)
    away = squares > 0  # a root has no slope at 0
    return mu * jnp.sum(jnp.where(away, jnp.sqrt(jnp.where(away, squares, 1)), 0))
