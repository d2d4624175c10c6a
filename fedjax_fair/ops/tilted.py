"""Tilted means: one number between the smallest, the mean and the largest, and what can be built of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core.masking import masked_softmax
from fedjax_fair.core.tree import weighted_sum
from fedjax_fair.core.types import Array, PyTree
from fedjax_fair.options import Count, above, chosen, with_checked_ranges

SMALL = 0.5  # below which exponents are summed as differences from 1, which do not cancel


def tilted_mean(
    x: Array, t: Array | float, weights: Array | None = None, mask: Array | None = None, axis: int = -1
) -> Array:
    """``(1/t) log sum_i w_i exp(t x_i)`` with weights that sum to 1 (equal ones by default) over the mask.

    ``t = 0`` is the mean, ``t -> inf`` the maximum, ``t -> -inf`` the minimum; ties share. The gradient is the tilted
    softmax ``w_i exp(t x_i) / sum_j w_j exp(t x_j)``: non-negative, summing to 1. A mask that leaves nothing gives 0
    and no gradient. ``t`` may be traced; no value of it overflows.

    >>> x = jnp.array([1.0, 2.0, 4.0])
    >>> [round(float(tilted_mean(x, t)), 3) for t in (-jnp.inf, -1.0, 0.0, 1.0, jnp.inf)]
    [1.0, 1.75, 2.333, 3.071, 4.0]

    Reference: Li et al., Tilted Empirical Risk Minimization, ICLR 2021.
    """
    t = jnp.asarray(t, x.dtype)
    given = jnp.ones_like(x) if weights is None else jnp.broadcast_to(weights, x.shape).astype(x.dtype)
    given = given if mask is None else jnp.where(jnp.broadcast_to(mask, x.shape), given, 0)
    live = given > 0
    share = _normalised(given, axis)
    x = jnp.where(live, x, 0)
    top = jnp.max(x, axis, keepdims=True, where=live, initial=-jnp.inf)
    bottom = jnp.min(x, axis, keepdims=True, where=live, initial=jnp.inf)
    extreme = jax.lax.stop_gradient(jnp.where(t > 0, top, bottom))
    extreme = jnp.where(jnp.isfinite(extreme), extreme, 0)
    # Every branch gets arguments that are harmless when it is not taken: gradients pass through all of them.
    finite = jnp.where(jnp.isfinite(t) & (t != 0), t, 1)
    exponent = jnp.where(live, finite * (x - extreme), 0)  # at most 0
    close = jnp.max(jnp.abs(exponent), axis, keepdims=True) < SMALL
    near = jnp.log1p(jnp.sum(share * jnp.expm1(jnp.where(close, exponent, 0)), axis, keepdims=True))
    total = jnp.sum(share * jnp.exp(exponent), axis, keepdims=True)
    far = jnp.log(jnp.where(close | (total == 0), 1, total))
    tilted = extreme + jnp.where(close, near, far) / finite
    ends = jnp.sum(_normalised(share * (x == extreme).astype(x.dtype), axis) * x, axis, keepdims=True)
    mean = jnp.sum(share * x, axis, keepdims=True)
    return jnp.squeeze(jnp.where(t == 0, mean, jnp.where(jnp.isinf(t), ends, tilted)), axis)


def _normalised(weights: Array, axis: int) -> Array:
    total = jnp.sum(weights, axis, keepdims=True)
    return weights / jnp.where(total > 0, total, 1)


def two_level_tilted_loss(
    losses: Array,
    labels: Array,
    *,
    num_classes: int,
    tau: Array | float,
    lam: Array | float,
    mask: Array | None = None,
) -> Array:
    """Losses tilted by ``lam`` within every class, then by ``tau`` over the classes: a scalar.

    ``R_k`` is the :func:`tilted_mean` of class ``k``'s losses at ``lam``, the result that of all ``R_k`` at ``tau``
    with weights ``n_k / n``. Classes the batch lacks drop out. ``tau = lam`` is one tilt over all examples (TERM),
    ``tau = lam = 0`` the mean.

    >>> losses, labels = jnp.array([1.0, 3.0, 2.0]), jnp.array([0, 0, 1])
    >>> round(float(two_level_tilted_loss(losses, labels, num_classes=2, tau=0.0, lam=jnp.inf)), 3)
    2.667

    Reference: Zhang et al., FedTilt: Towards Multi-Level Fairness-Preserving and Robust Federated Learning,
    arXiv 2503.13537.
    """
    member = labels[None, :] == jnp.arange(num_classes, dtype=labels.dtype)[:, None]
    member = member if mask is None else member & mask[None, :]
    count = jnp.sum(member.astype(losses.dtype), axis=1)
    risks = tilted_mean(jnp.broadcast_to(losses[None, :], member.shape), lam, mask=member)
    return tilted_mean(risks, tau, weights=count)


class Distance(NamedTuple):
    """A distance from its square, and how far each model pulls: ``rates(step_size, pull, far)``, with their sum."""

    of: Callable[[Array], Array]
    rates: Callable[[Array | float, Array, Array], tuple[Array, Array]]


def _root(square: Array) -> Array:
    return jnp.sqrt(jnp.where(square > 0, square, 1)) * (square > 0).astype(square.dtype)


def _rates_of_squares(step_size: Array | float, pull: Array, far: Array) -> tuple[Array, Array]:
    return 2 * step_size * pull, jnp.asarray(2 * step_size, pull.dtype)


def _rates_of_roots(step_size: Array | float, pull: Array, far: Array) -> tuple[Array, Array]:
    rate = step_size * jnp.where(far > 0, pull / jnp.where(far > 0, far, 1), 0)
    return rate, jnp.sum(rate)


DISTANCES = {'sq': Distance(lambda square: square, _rates_of_squares), 'l2': Distance(_root, _rates_of_roots)}


@with_checked_ranges
def tilted_consensus(
    models: PyTree,
    start: PyTree,
    q: Array | float,
    *,
    steps: Count = 1,
    step_size: Annotated[Array | float, above(0)] = 0.5,
    distance: str = 'sq',
    weights: Array | None = None,
    mask: Array | None = None,
) -> PyTree:
    """Gradient steps on the tilted distance to stacked models ``[C, ...]``, from ``start``.

    ``u <- u - step_size grad (1/q) log sum_n w_n exp(q dist(w_n, u))`` with ``dist`` the squared Euclidean distance
    over the whole tree (``'l2'``: not squared). With ``a = softmax(q dist)`` a step is
    ``u + 2 step_size (sum a_n w_n - u)``, a convex combination for step sizes up to 1/2. ``q = 0``,
    ``step_size = 1/2`` and one step are exactly the average; ``q -> inf`` seeks the middle of the smallest ball around
    all models, ``q < 0`` a model near most of them. With ``'l2'``, ``q = 0`` goes to the geometric median, and a model
    at distance 0 does not pull.

    >>> float(tilted_consensus(jnp.array([[0.0], [4.0]]), jnp.array([1.0]), q=0.0)[0])
    2.0

    Reference: see :func:`two_level_tilted_loss`; the paper says Euclidean and proves with squares.
    """
    apart, rates = chosen('distance', distance, DISTANCES)
    leaves = jax.tree.leaves(models)
    mask = jnp.ones(leaves[0].shape[0], bool) if mask is None else mask
    prior = 0.0 if weights is None else jnp.log(weights)

    def square(u: PyTree) -> Array:
        each = jax.tree.map(lambda w, c: jnp.sum((w - c[None]) ** 2, axis=tuple(range(1, w.ndim))), models, u)
        return jnp.where(mask, sum(jax.tree.leaves(each)), 0)

    def step(_, u: PyTree) -> PyTree:
        far = apart(square(u))
        rate, total = rates(step_size, masked_softmax(prior + q * far, mask), far)
        mean = weighted_sum(rate, models)
        return jax.tree.map(lambda m, c: m + (1 - total).astype(c.dtype) * c, mean, u)

    return jax.lax.fori_loop(0, steps, step, start)
