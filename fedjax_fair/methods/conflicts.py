"""Updates in conflict: FedFV, and FedGH as published and as FedLD's authors run it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.tree import select, weighted_sum
from fedjax_fair.core.types import Array, Method, PyTree
from fedjax_fair.methods.options import one_of
from fedjax_fair.methods.weights import plain_mean, probe_loss
from fedjax_fair.ops import (
    gram,
    harmonized_coefficients,
    hierarchical_coefficients,
    leave_out,
    project_conflicts,
)
from fedjax_fair.ops.conflicts import RULES

MEMORY = 0.99  # what FedGH's history keeps


def fedfv(alpha: float = 0.1, tau: int = 1) -> list[Method]:
    """FedFV: every update loses its component against updates it conflicts with; the worst off keep theirs.

    Clients are taken in the order of their loss of the incoming model, ties by their number. The ``alpha`` of them that
    lose most keep their update; every other one is projected in turn off each update it conflicts with. The mean of the
    results is then projected off the sum of those updates of each of the last ``tau`` rounds, the current one last,
    that it conflicts with, and brought to the length of the plain mean. ``alpha = 1`` leaves clients' updates alone,
    ``alpha = 0`` keeps nobody's. ``tau > 1`` keeps every client's last update on the server. All clients count the
    same; batch statistics are averaged plainly.

    Reference: Wang et al., Federated Learning with Fair Averaging, IJCAI 2021, as in the authors' WwZzz/easyFL.

    >>> [method.name for method in fedfv(tau=2)]
    ['fedfv']
    """
    if tau < 1:
        raise ValueError(f'fedfv.tau={tau} must be at least 1')

    def init(variables, run):
        def table(leaf):
            return jnp.zeros((run.num_clients, *leaf.shape), leaf.dtype)

        past = jax.tree.map(table, variables['params'])
        return None if tau == 1 else {'past': past, 'when': jnp.full(run.num_clients, -1, jnp.int32)}, None

    def last_updates(view, updates):
        """Each client's last update, the round it is of, its loss and its number; of the cohort alone if tau is 1."""
        when, loss = jnp.where(view.mask, view.round, -1), view.reports['loss']
        if tau == 1:
            return updates, when, loss, view.ids
        places = jnp.where(view.mask, view.ids, view.run.num_clients)

        def put(table, rows):
            return table.at[places].set(rows, mode='drop')

        known = jax.tree.map(put, view.server, {'past': updates, 'when': when})
        numbers = jnp.arange(view.run.num_clients)
        return known['past'], known['when'], put(jnp.zeros(len(numbers), loss.dtype), loss), numbers

    def reduce(view, updates, weights):
        stack, when, loss, numbers = last_updates(view, updates)
        overlap = gram(stack)
        present = when == view.round
        order = jnp.lexsort((numbers, jnp.where(present, loss, jnp.inf)))
        first_kept = jnp.ceil((view.count - 1) * (1 - jnp.asarray(alpha, view.n.dtype)) - 1e-4)
        keep = (jnp.argsort(order).astype(view.n.dtype) >= first_kept) & (jnp.asarray(alpha) > 0)
        mean = present.astype(overlap.dtype) / jnp.maximum(view.count, 1).astype(overlap.dtype)
        found = mean @ project_conflicts(overlap, order, present, keep)
        for ago in range(tau - 1, -1, -1):
            corrected = leave_out(found, overlap, when == view.round - ago)
            found = jnp.where(view.round + 1 >= tau, corrected, found)
        lengths = [jnp.sqrt(jnp.maximum(c @ overlap @ c, 0)) for c in (mean, found)]
        scaled = found * (lengths[0] / jnp.maximum(lengths[1], 1e-30))
        return weighted_sum(scaled, stack)

    def commit(view, updates, weights, update):
        past, when, *_ = last_updates(view, updates)
        return {'past': past, 'when': when}, None

    return [
        Method(
            'fedfv',
            init=init,
            probe=probe_loss,
            reduce=reduce,
            commit=commit if tau > 1 else None,
            ignores_weights=True,
            statistics=plain_mean,
        )
    ]


def _by_id(view, updates: PyTree) -> tuple[Array, Array]:
    """Clients in the order of their numbers, and the Gram matrix in that order: the slot decides nothing."""
    order = jnp.argsort(view.ids, stable=True)
    return order, gram(updates, view.mask)[order][:, order]


def fedgh(rule: str = 'seq') -> list[Method]:
    """FedGH: of every pair of updates that conflict each loses its part along the other; then the weighted mean.

    See :func:`~fedjax_fair.ops.harmonized_coefficients`; pairs are taken in the order of client numbers. Without
    conflicts this is FedAvg.

    Reference: Zhang et al., Tackling the Non-IID Issue in Heterogeneous Federated Learning by Gradient Harmonization,
    arXiv 2309.06692.
    """
    one_of('fedgh', rule=(rule, RULES))

    def reduce(view, updates, weights):
        order, overlap = _by_id(view, updates)
        found = weights[order] @ harmonized_coefficients(overlap, rule).astype(weights.dtype)
        return weighted_sum(jnp.zeros_like(weights).at[order].set(found), updates)

    return [Method('fedgh', reduce=reduce)]


def fedgh_pcgrad() -> list[Method]:
    """FedGH of FedLD's authors: each tensor's updates are reconciled pair by pair and level by level, then averaged.

    See :func:`~fedjax_fair.ops.hierarchical_coefficients`; pairs are chosen by a history of the tensor's aggregates,
    ``h <- 0.99 h + 0.01 update``. What has no history yet is averaged. All clients count the same.

    Reference: Zeng-Shuang/FedLD, whose algorithm is that of CityU-AIM-Group/FedDM rather than of the paper it names.
    """

    def reduce(view, updates, weights):
        def of_leaf(leaf, history):
            order, overlap = _by_id(view, leaf)
            along = jnp.tensordot(leaf, history, axes=history.ndim, precision='highest')[order]
            found = hierarchical_coefficients(overlap, along, view.mask[order])
            mean = view.mask.astype(leaf.dtype) / jnp.maximum(view.count, 1).astype(leaf.dtype)
            settled = jnp.zeros_like(found).at[order].set(found)
            return weighted_sum(jnp.where(jnp.any(history != 0), settled, mean), leaf)

        return jax.tree.map(of_leaf, updates, view.server)

    def commit(view, updates, weights, update):
        def remembered(history, new):
            return select(jnp.any(history != 0), MEMORY * history + (1 - MEMORY) * new, new)

        return jax.tree.map(remembered, view.server, update), None

    return [
        Method(
            'fedgh_pcgrad',
            ignores_weights=True,
            statistics=plain_mean,
            init=lambda variables, run: (optax.tree.zeros_like(variables['params']), None),
            reduce=reduce,
            commit=commit,
        )
    ]
