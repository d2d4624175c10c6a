"""FedGA: weights follow what aggregation cost each client."""

from __future__ import annotations

from typing import Annotated

import jax.numpy as jnp

from fedjax_fair.core.method import Method, View
from fedjax_fair.core.types import Array, PyTree, Run, Variables, default_float
from fedjax_fair.methods.weighting import NEVER, equal_votes_at_zero, log_of
from fedjax_fair.options import NonNegative, search
from fedjax_fair.registry import register


@register.recipe
def fedga(step: Annotated[NonNegative, search(0.01, 1, log=True)] = 0.05) -> list[Method]:
    """FedGA: clients whose loss rose most by aggregation gain weight.

    ``g_k = F_k(W+) - F_k(w_k)``, centred over clients; ``w_k <- w_k + (step / K) (1 - t / T) g_k / max |g|``, divided
    by the sum and then cut off at 0, from ``w_k = 1 / K``. ``step = 0`` is the uniform mean. ``F_k(W+)`` is the loss of
    the model that comes in the next time the client takes part; one that never did has no gap and weighs ``1 / K``.

    Reference: Zhang et al., Federated Domain Generalization with Generalization Adjustment, CVPR 2023, as
    wnn2000/FFL4MIA runs it; the original has step 0.2, no centring, and cuts before it divides.
    """

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        weight = jnp.asarray(1 / run.num_clients, default_float())
        return None, {'weight': weight, 'local_loss': jnp.full_like(weight, NEVER)}

    def adjusted(view: View) -> Array:
        before, known = view.rows['weight'], view.mask & (view.rows['local_loss'] >= 0)
        gap = view.measured['loss'] - view.rows['local_loss']
        mean = jnp.sum(jnp.where(known, gap, 0)) / jnp.maximum(jnp.sum(known.astype(gap.dtype)), 1)
        gap = jnp.where(known, gap - mean, 0)
        left = 1 - view.round.astype(gap.dtype) / view.run.rounds
        largest = jnp.max(jnp.abs(gap))
        size = step * left / view.run.num_clients / jnp.where(largest > 0, largest, 1)
        new = jnp.where(view.mask, before + size * gap, 0)
        # A cohort keeps its part of the weight of all, so that weights of different rounds compare.
        part = view.count / view.run.num_clients
        return jnp.maximum(new / jnp.where(jnp.any(known), jnp.sum(new) / part, 1), 0)

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        return None, {'weight': adjusted(view), 'local_loss': view.measured['local_loss']}

    return [
        Method(
            'fedga',
            init=init,
            measures=('loss', 'local_loss'),
            idle=equal_votes_at_zero(step, 'step'),
            score=log_of(adjusted),
            commit=commit,
        )
    ]
