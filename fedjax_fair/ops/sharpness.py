"""Sharpness: gradients at the worst point nearby, how much a loss rises there, and weights that follow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core import tree
from fedjax_fair.core.masking import masked_softmax
from fedjax_fair.core.types import Array, PyTree

NORM_FLOOR = 1e-12  # added to every norm that divides
SHARE_FLOOR = 1e-10  # below which a client's sharpness does not count

ValueAndGrad = Callable[[PyTree], tuple[Any, PyTree]]


def ascent(grads: PyTree, rho: Array | float) -> PyTree:
    """``rho g / (||g|| + 1e-12)`` with one norm over all leaves: the steepest step of length ``rho``."""
    return optax.tree.scale(rho / (tree.norm(grads) + NORM_FLOOR), grads)


def sam_gradient(value_and_grad_fn: ValueAndGrad, params: PyTree, rho: Array | float) -> tuple[Any, PyTree]:
    """The gradient at ``params + rho g / ||g||`` and the value at ``params``; ``rho = 0`` is the plain gradient.

    ``value_and_grad_fn(params) -> (value, grads)``; whatever else the value holds (batch statistics, say) is that of
    the first, clean pass.

    Reference: Foret et al., Sharpness-Aware Minimization for Efficiently Improving Generalization, ICLR 2021.

    >>> quadratic = jax.value_and_grad(lambda w: jnp.sum(w**2) / 2)
    >>> value, direction = sam_gradient(quadratic, jnp.array([3.0, 4.0]), rho=0.5)
    >>> float(value), [round(float(d), 3) for d in direction]
    (12.5, [3.3, 4.4])
    """
    value, _, h = _both_gradients(value_and_grad_fn, params, rho)
    return value, h


def gsam_gradient(
    value_and_grad_fn: ValueAndGrad, params: PyTree, rho: Array | float, alpha: Array | float
) -> tuple[Any, PyTree]:
    """SAM's gradient ``h`` less a part of the plain gradient ``g`` that is orthogonal to it, and the clean value.

    ``h - alpha (g - <g, h> / (||h|| + 1e-12)^2 h)``, where the cosine carries a floor of 1e-12 too. ``alpha = 0`` is
    SAM; ``rho = 0`` the plain gradient, for any ``alpha``.

    Reference: Zhuang et al., Surrogate Gap Minimization Improves Sharpness-Aware Training, ICLR 2022, as
    wnn2000/FFL4MIA has it, which subtracts where the paper minimises the surrogate gap by the same formula.
    """
    value, g, h = _both_gradients(value_and_grad_fn, params, rho)
    g_norm, h_norm = tree.norm(g), tree.norm(h)
    cosine = tree.inner(g, h) / (g_norm * h_norm + NORM_FLOOR)
    along = cosine * g_norm / (h_norm + NORM_FLOOR)
    return value, jax.tree.map(lambda g, h: h - alpha * (g - along * h), g, h)


def _both_gradients(value_and_grad_fn: ValueAndGrad, params: PyTree, rho: Array | float) -> tuple[Any, PyTree, PyTree]:
    """The value and the gradient at ``params``, and the gradient after an ascent of length ``rho``."""
    value, g = value_and_grad_fn(params)
    return value, g, value_and_grad_fn(optax.tree.add(params, ascent(g, rho)))[1]


def sharpness(
    loss_fn: Callable[[PyTree], Array],
    params: PyTree,
    rho: Array | float,
    known: tuple[Array, PyTree] | None = None,
) -> Array:
    """``loss(params + rho g / ||g||) - loss(params)``: how much the loss rises within a radius, to first order.

    ``loss_fn`` may itself run in batches; ``known``, the loss and its gradient at ``params``, saves differentiating one
    that sums over batches. Only the gradient's direction matters.

    >>> round(float(sharpness(lambda w: jnp.sum(w**2) / 2, jnp.array([3.0, 4.0]), 0.5)), 3)
    2.625
    """
    value, grads = known or jax.value_and_grad(loss_fn)(params)
    return loss_fn(optax.tree.add(params, ascent(grads, rho))) - value


def sharpness_weights(sharpness: Array, q: Array | float, mask: Array | None = None) -> Array:
    """``w_k ~ (s_k + 1e-10)^q`` with ``s`` the shares of the sharpness, clipped from below at 1e-10: ``[C]``.

    ``q = 0`` counts everybody the same, as does a sharpness that is nowhere positive; ``q -> inf`` follows the sharpest
    client alone. Masked entries get 0 and the others sum to 1. Powers are taken of logarithms: no overflow.

    >>> [round(float(w), 3) for w in sharpness_weights(jnp.array([0.1, 0.3, -1.0]), 2.0)]
    [0.1, 0.9, 0.0]
    """
    mask = jnp.ones(sharpness.shape, bool) if mask is None else mask
    clipped = jnp.where(mask, jnp.maximum(sharpness, SHARE_FLOOR), 0)
    shares = clipped / jnp.maximum(jnp.sum(clipped), jnp.finfo(clipped.dtype).tiny)
    return masked_softmax(q * jnp.log(shares + SHARE_FLOOR), mask)
