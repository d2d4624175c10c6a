"""q-Fair federated learning: clients with a larger loss count more."""

from __future__ import annotations

from typing import Annotated

import jax.numpy as jnp
import optax

from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.method import Context, Method, View
from fedjax_fair.core.types import Array, PyTree, Variables
from fedjax_fair.methods.weighting import TINY, equal_votes_at_zero, one_vote_each, power_of_loss
from fedjax_fair.options import NonNegative, search
from fedjax_fair.registry import register


@register.recipe
def qfedavg(q: Annotated[NonNegative, search(0.1, 10, log=True)] = 1.0) -> list[Method]:
    """q-FedAvg with normalised weights: clients with a larger loss count more.

    ``weight_k = F_k^q / sum_j F_j^q`` with ``F_k`` the mean training loss of the incoming model. ``q = 0`` is the
    uniform mean, ``q -> inf`` follows the worst client alone. The number of examples does not enter.

    Reference: Li et al., Fair Resource Allocation in Federated Learning, ICLR 2020, without the Lipschitz term of its
    step size, as wnn2000/FFL4MIA runs it. :func:`qffl` is the published form.
    """
    return [Method('qfedavg', measures=('loss',), idle=equal_votes_at_zero(q, 'q'), score=power_of_loss(q))]


@register.recipe
def qffl(q: Annotated[NonNegative, search(0.001, 5, log=True)] = 0.1) -> list[Method]:
    """q-FFL's server step with the Lipschitz estimate ``L = 1 / lr``.

    ``D_k = L (W - w_k)``, ``h_k = q F_k^(q-1) ||D_k||^2 + L F_k^q``, ``W+ = W - sum_k F_k^q D_k / sum_k h_k``.
    It is the :func:`qfedavg` mean times ``sum F^q / sum (F^q + q F^(q-1) L ||w_k - W||^2)``, a factor that shrinks as
    ``q`` and the length of local training grow; ``q = 0`` is the uniform mean. A round with a learning rate of 0 moves
    nothing, so its factor is 1.

    Reference: Li et al., Fair Resource Allocation in Federated Learning, ICLR 2020. Norms run over trainable
    parameters; ``F_k^q`` does not weigh batch statistics.
    """

    def report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
        change = optax.tree.sub(after['params'], before['params'])
        return None, {'update_sq_norm': optax.tree.norm(change, squared=True)}

    def scale(view: View, weights: Array) -> Array:
        loss, lr = view.measured['loss'] + TINY, jnp.asarray(view.run.lr(view.round))
        logs = jnp.where(view.mask, q * jnp.log(loss), -jnp.inf)
        powers = jnp.exp(logs - jnp.maximum(jnp.max(logs), jnp.finfo(logs.dtype).min))
        curvature = q * powers / loss * view.reports['update_sq_norm'] / jnp.where(lr > 0, lr, 1)
        total = jnp.sum(powers)
        return total / jnp.maximum(total + jnp.sum(curvature), TINY)

    return [
        Method(
            'qffl',
            measures=('loss',),
            idle=equal_votes_at_zero(q, 'q'),
            report=report,
            score=power_of_loss(q),
            scale=scale,
            statistics=one_vote_each,
        )
    ]
