"""Principal gradients: the axes along which client updates vary most, and the update they agree on.

Reference: Zeng et al., Tackling Data Heterogeneity in Federated Learning via Loss Decomposition, MICCAI 2024, Eqs. 4
to 7, after Wang et al., PGrad: Learning Principal Gradients for Domain Generalization, ICLR 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core.tree import keep_rows, weighted_sum
from fedjax_fair.core.types import Array, PyTree
from fedjax_fair.ops.gram import gram as gram_of
from fedjax_fair.ops.products import precise
from fedjax_fair.options import chosen

BELOW_ONE = 1e-4  # so that 0.8 * 5 is 4 in every arithmetic


class Axes(NamedTuple):
    """``values[C]`` in descending order, ``vectors[C, C]`` in columns, ``kept[C]``: the axes that are followed."""

    values: Array
    vectors: Array
    kept: Array


def _noise(clients: Array) -> Array:
    """Rounding error of a zero eigenvalue, relative to the largest one, or of an eigenvector, for this many clients."""
    return 8 * jnp.finfo(clients.dtype).eps * jnp.maximum(clients, 1)


def principal_axes(gram: Array, keep: Array | float = 0.8, mask: Array | None = None) -> Axes:
    """Eigenvalues and eigenvectors of ``gram[C, C]``, of which the first ``max(1, floor(keep m))`` are kept.

    ``m`` counts the clients of the mask. Axes that rounding alone gives a length are never kept.
    """
    clients = gram.shape[0]
    mask = jnp.ones(clients, bool) if mask is None else mask
    values, vectors = jnp.linalg.eigh(jnp.where(mask[:, None] & mask[None, :], gram, 0))
    values, vectors = jnp.maximum(values[::-1], 0), vectors[:, ::-1]
    present = jnp.sum(mask.astype(gram.dtype))
    most = jnp.maximum(jnp.floor(keep * present + BELOW_ONE), 1)
    kept = (jnp.arange(clients, dtype=gram.dtype) < most) & (values > _noise(present) * values[0])
    return Axes(values, vectors, kept)


def _stretched_on_each_axis(voice: Array, axes: Axes, share: Array) -> Array:
    return (voice @ jnp.sign(axes.vectors)) * share / jnp.sqrt(jnp.where(axes.kept, axes.values, 1))


def _stretched_at_the_end(voice: Array, axes: Axes, share: Array) -> Array:
    used = jnp.where(axes.kept, axes.values, 0)
    stretch = jnp.sqrt(jnp.sum((axes.vectors * share[None, :]) ** 2 * used[None, :], 1))
    return (jnp.where(stretch > 0, voice / jnp.where(stretch > 0, stretch, 1), 0) @ axes.vectors) * share


NORMALIZERS: dict[str, Callable[[Array, Array], Array]] = {  # of the eigenvalues kept, and of all squared norms
    'l2_top': lambda kept, squares: jnp.sqrt(jnp.sum(kept**2)),
    'sum_top': lambda kept, squares: jnp.sum(kept),
    'sum_all': lambda kept, squares: jnp.sum(squares),
}
LENGTHS = {'axis': _stretched_on_each_axis, 'sum': _stretched_at_the_end}


@precise
def principal_coefficients(
    gram: Array,
    weights: Array,
    *,
    keep: Array | float = 0.8,
    normalizer: str = 'l2_top',
    length: str = 'axis',
    mask: Array | None = None,
) -> Array:
    """Coefficients ``c[C]`` of the principal aggregate ``sum_j c_j g_j`` of updates with this Gram matrix.

    With ``lambda_l``, ``e_l`` the kept eigenvalues and eigenvectors and ``v_l = sum_j e_lj g_j``, every update is
    projected onto every ``v_l``, the projection is stretched to ``||g_i||`` and weighed by ``lambda_l / Z``, and the
    revised updates are averaged with ``weights``:
    ``c = sum_l sqrt(lambda_l) / Z (sum_i w_i ||g_i|| sign(e_li)) e_l``, on each axis a vote of the clients' signs.

    ``Z`` is the norm of the kept eigenvalues (``'l2_top'``: revised updates are as long as they were), their sum
    (``'sum_top'``) or the sum of all (``'sum_all'``). ``length='sum'`` stretches the weighted sum of projections
    instead of each one; ``Z`` then cancels. One update, or equal ones, come back as they are. ``c`` does not depend on
    the scale of the updates. A client that sent zeros has no vote, nor has one on an axis it is orthogonal to; if all
    sent zeros, ``c`` is 0.

    >>> apart = jnp.array([[4.0, -1.0], [-1.0, 1.0]])  # <g_i, g_j>
    >>> [round(float(c), 3) for c in principal_coefficients(apart, jnp.array([0.5, 0.5]))]
    [0.231, -0.07]
    """
    total_of, pull_of = chosen('normalizer', normalizer, NORMALIZERS), chosen('length', length, LENGTHS)
    mask = jnp.ones(gram.shape[0], bool) if mask is None else mask
    square = jnp.where(mask, jnp.diagonal(gram), 0)
    largest = jnp.max(square)
    scale = jnp.where(largest > 0, largest, 1)
    values, vectors, kept = principal_axes(gram / scale, keep, mask)
    vectors = jnp.where(jnp.abs(vectors) > _noise(jnp.sum(mask.astype(gram.dtype))), vectors, 0)
    square = square / scale
    used = jnp.where(kept, values, 0)
    total = total_of(used, square)
    share = used / jnp.where(total > 0, total, 1)
    voice = weights.astype(gram.dtype) * jnp.sqrt(square)
    pull = pull_of(voice, Axes(values, vectors, kept), share)
    return jnp.where(mask, vectors @ pull, 0)  # rounding lets an axis touch an absent client


@precise
def principal_directions(updates: PyTree, keep: Array | float = 0.8, mask: Array | None = None) -> tuple[Array, PyTree]:
    """``(lambda[C], v[C, ...])``: the kept eigenvalues and principal gradients of stacked updates, largest first.

    ``||v_l||^2 = lambda_l``; each points to the side of the mean update. Axes that are not kept are zero. This copies
    the updates once: it is for looking at, :func:`principal_coefficients` is for aggregation.
    """
    updates = updates if mask is None else keep_rows(mask, updates)
    values, vectors, kept = principal_axes(gram_of(updates), keep, mask)
    side = jnp.where(jnp.sum(vectors, 0) < 0, -1, 1).astype(vectors.dtype)  # <v_l, mean> = lambda_l mean(e_l)
    turned = jnp.where(kept[None, :], vectors * side[None, :], 0)
    return jnp.where(kept, values, 0), jax.vmap(weighted_sum, (1, None))(turned, updates)
