"""Losses of methods, over a batch."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_fair.core.masking import masked_mean
from fedjax_fair.core.tree import per_row
from fedjax_fair.core.types import Array, PyTree, default_float
from fedjax_fair.ops.entropy import cross_entropy
from fedjax_fair.options import chosen


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


def _mean_of(each: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    def penalty(logits: Array, mask: Array) -> Array:
        return masked_mean(each(jnp.sum(logits**2, axis=-1)).reshape(len(mask), -1).mean(1), mask)

    return penalty


def _of_probabilities(logits: Array, mask: Array) -> Array:
    return jnp.log1p(jnp.sum(per_row(mask, logits).astype(logits.dtype) * jax.nn.softmax(logits) ** 2))


MARGINS = {
    'logits': _mean_of(jnp.log1p),
    'softmax_batch': _of_probabilities,
    'squared': _mean_of(lambda square: square),
}


def margin_penalty(logits: Array, kind: str = 'logits', mask: Array | None = None) -> Array:
    """How far the logits ``[B, ..., K]`` of a batch lie from 0.

    ``'logits'``: the mean of ``log(1 + ||f||^2)`` over examples (and pixels). ``'squared'``: the mean of ``||f||^2``.
    ``'softmax_batch'``: ``log(1 + ||S||^2)`` with ``S`` the probabilities of the whole batch; it draws predictions
    towards uniform ones, is bounded, and grows with the size of the batch.
    """
    penalty = chosen('kind', kind, MARGINS)
    mask = jnp.ones(logits.shape[0], bool) if mask is None else mask
    return penalty(jnp.where(per_row(mask, logits), logits, 0), mask)


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


def _of_squares(mu: Array | float, squares: Array) -> Array:
    return mu / 2 * jnp.sum(squares)


def _of_norms(mu: Array | float, squares: Array) -> Array:
    away = squares > 0  # a root has no slope at 0
    return mu * jnp.sum(jnp.where(away, jnp.sqrt(jnp.where(away, squares, 1)), 0))


PULLS = {'squared': _of_squares, 'norms': _of_norms}


def proximal_term(params: PyTree, centre: PyTree, mu: Array | float, kind: str = 'squared') -> Array:
    """``(mu / 2) ||params - centre||^2``, or ``mu sum_tensors ||params - centre||`` (``'norms'``), flat at the centre.

    >>> apart = {'a': jnp.array([3.0, 4.0]), 'b': jnp.array([0.0])}, {'a': jnp.zeros(2), 'b': jnp.zeros(1)}
    >>> float(proximal_term(*apart, 2.0)), float(proximal_term(*apart, 2.0, 'norms'))
    (25.0, 10.0)
    """
    pull = chosen('kind', kind, PULLS)
    return pull(mu, jnp.stack(jax.tree.leaves(jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), params, centre))))
