"""FedFV: updates in conflict are turned until they are not."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core.method import Method, View
from fedjax_fair.core.tree import weighted_sum
from fedjax_fair.core.types import Array, PyTree, Run, Variables
from fedjax_fair.methods.weighting import one_vote_each
from fedjax_fair.ops import gram, leave_out, project_conflicts
from fedjax_fair.options import Share, at_least, search
from fedjax_fair.registry import register


@register.recipe
def fedfv(alpha: Annotated[Share, search(0, 1)] = 0.1, tau: Annotated[int, at_least(1)] = 1) -> list[Method]:
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

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        if tau == 1:
            return None, None
        past = jax.tree.map(lambda leaf: jnp.zeros((run.num_clients, *leaf.shape), leaf.dtype), variables['params'])
        return {'past': past, 'when': jnp.full(run.num_clients, -1, jnp.int32)}, None

    def reduce(view: View, updates: PyTree, weights: Array) -> PyTree:
        return _fair_mean(view, _last_updates(view, updates, tau), alpha, tau)

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        last = _last_updates(view, updates, tau)
        return {'past': last.updates, 'when': last.round}, None

    return [
        Method(
            'fedfv',
            init=init,
            measures=('loss',),
            reduce=reduce,
            commit=commit if tau > 1 else None,
            ignores_weights=True,
            statistics=one_vote_each,
        )
    ]


class _Last(NamedTuple):
    """Each client's last update, the round it is of, its loss and its number."""

    updates: PyTree
    round: Array
    loss: Array
    numbers: Array


def _last_updates(view: View, updates: PyTree, tau: int) -> _Last:
    """Of all clients; of the cohort alone where no earlier round counts."""
    when, loss = jnp.where(view.mask, view.round, -1), view.measured['loss']
    if tau == 1:
        return _Last(updates, when, loss, view.ids)
    known = view.scatter(view.server, {'past': updates, 'when': when})
    numbers = jnp.arange(view.run.num_clients)
    return _Last(known['past'], known['when'], view.scatter(jnp.zeros(len(numbers), loss.dtype), loss), numbers)


def _fair_mean(view: View, last: _Last, alpha: Any, tau: int) -> PyTree:
    """The mean of updates without conflicts, as coefficients of the updates."""
    overlap = gram(last.updates)
    present = last.round == view.round
    order = jnp.lexsort((last.numbers, jnp.where(present, last.loss, jnp.inf)))
    first_kept = jnp.ceil((view.count - 1) * (1 - jnp.asarray(alpha, view.n.dtype)) - 1e-4)
    keep = (jnp.argsort(order).astype(view.n.dtype) >= first_kept) & (jnp.asarray(alpha) > 0)
    mean = present.astype(overlap.dtype) / jnp.maximum(view.count, 1).astype(overlap.dtype)
    fair = mean @ project_conflicts(overlap, order, present, keep)
    for ago in range(tau - 1, -1, -1):
        corrected = leave_out(fair, overlap, last.round == view.round - ago)
        fair = jnp.where(view.round + 1 >= tau, corrected, fair)
    lengths = [jnp.sqrt(jnp.maximum(c @ overlap @ c, 0)) for c in (mean, fair)]
    return weighted_sum(fair * (lengths[0] / jnp.maximum(lengths[1], 1e-30)), last.updates)
