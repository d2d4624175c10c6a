"""FedGH: updates in conflict are made orthogonal, as published and as FedLD's authors run it."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.method import Method, View
from fedjax_fair.core.tree import select, weighted_sum
from fedjax_fair.core.types import Array, PyTree, Run, Variables
from fedjax_fair.methods.weighting import one_vote_each
from fedjax_fair.ops import gram, harmonized_coefficients, hierarchical_coefficients
from fedjax_fair.registry import register

MEMORY = 0.99  # the part of the history that a round keeps


def _by_id(view: View, updates: PyTree) -> tuple[Array, Array]:
    """Clients in the order of their numbers, and the Gram matrix in that order: the slot decides nothing."""
    order = jnp.argsort(view.ids, stable=True)
    return order, gram(updates, view.mask)[order][:, order]


def _no_history_yet(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
    return optax.tree.zeros_like(variables['params']), None


@register.recipe
def fedgh(rule: Literal['seq', 'frozen'] = 'seq') -> list[Method]:
    """FedGH: of every pair of updates that conflict each loses its part along the other; then the weighted mean.

    See :func:`~fedjax_fair.ops.harmonized_coefficients`; pairs are taken in the order of client numbers. Without
    conflicts this is FedAvg.

    Reference: Zhang et al., Tackling the Non-IID Issue in Heterogeneous Federated Learning by Gradient Harmonization,
    arXiv 2309.06692.
    """

    def reduce(view: View, updates: PyTree, weights: Array) -> PyTree:
        order, overlap = _by_id(view, updates)
        mean = weights[order] @ harmonized_coefficients(overlap, rule).astype(weights.dtype)
        return weighted_sum(jnp.zeros_like(weights).at[order].set(mean), updates)

    return [Method('fedgh', reduce=reduce)]


@register.recipe
def fedgh_pcgrad() -> list[Method]:
    """FedGH of FedLD's authors: each tensor's updates are reconciled pair by pair and level by level, then averaged.

    See :func:`~fedjax_fair.ops.hierarchical_coefficients`; pairs are chosen by a history of the tensor's aggregates,
    ``h <- 0.99 h + 0.01 update``. What has no history yet is averaged. All clients count the same.

    Reference: Zeng-Shuang/FedLD, whose algorithm is that of CityU-AIM-Group/FedDM rather than of the paper it names.
    """

    def reduce(view: View, updates: PyTree, weights: Array) -> PyTree:
        def of_leaf(leaf: Array, history: Array) -> Array:
            order, overlap = _by_id(view, leaf)
            along = jnp.tensordot(leaf, history, axes=history.ndim, precision='highest')[order]
            settled = hierarchical_coefficients(overlap, along, view.mask[order])
            mean = view.mask.astype(leaf.dtype) / jnp.maximum(view.count, 1).astype(leaf.dtype)
            settled = jnp.zeros_like(settled).at[order].set(settled)
            return weighted_sum(jnp.where(jnp.any(history != 0), settled, mean), leaf)

        return jax.tree.map(of_leaf, updates, view.server)

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        def remembered(history: Array, new: Array) -> Array:
            return select(jnp.any(history != 0), MEMORY * history + (1 - MEMORY) * new, new)

        return jax.tree.map(remembered, view.server, update), None

    return [
        Method(
            'fedgh_pcgrad',
            ignores_weights=True,
            statistics=one_vote_each,
            init=_no_history_yet,
            reduce=reduce,
            commit=commit,
        )
    ]
