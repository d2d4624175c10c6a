"""FedDyn: every client's objective moves so that its optimum is the federation's."""

from __future__ import annotations

import jax.numpy as jnp
import optax

from fedjax_fair.core.types import Method
from fedjax_fair.methods.options import one_of
from fedjax_fair.methods.weights import one_vote_each


def feddyn(alpha: float = 0.01, scale: str = 'equal') -> list[Method]:
    """FedDyn: local objectives are corrected by what a client and the federation drifted so far.

    With ``H_m`` the sum of client ``m``'s updates so far, it minimises
    ``F_m(w) + alpha <H_m, w> + (alpha / 2) ||w - W||^2``; the server adds the mean of all ``N`` clients' ``H`` to the
    uniform mean of models: ``W+ = mean_S(w_m) + (1/N) sum_m H_m``. In the paper's symbols its ``g_m`` is ``-alpha H_m``
    and its ``h`` ``-(alpha/N) sum_m H_m``. ``alpha -> 0`` is not FedAvg: the server's correction does not depend on it.

    ``scale='sizes'`` divides a client's ``alpha`` by its share of examples times ``N``, as the official code does. What
    WenkeHuang/MarsFL runs under this name is FedAvg: its penalty does not depend on the local model. ``H`` are about
    what clients trained, before any mask or weight, and of trainable parameters; batch statistics are averaged.

    Reference: Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021.

    >>> [method.name for method in feddyn(0.1)]
    ['feddyn']
    """
    one_of('feddyn', scale=(scale, ('equal', 'sizes')))

    def init(variables, run):
        zero = optax.tree.zeros_like(variables['params'])
        return zero, zero

    def strength(ctx):
        if scale == 'equal':
            return alpha
        sizes = jnp.asarray(ctx.run.sizes, jnp.zeros(0).dtype)
        return alpha * jnp.mean(sizes) / jnp.maximum(jnp.take(sizes, ctx.id, mode='clip'), 1)

    def loss(inner):
        def corrected(ctx, variables, batch):
            value, aux = inner(ctx, variables, batch)
            params = variables['params']
            away = optax.tree.norm(optax.tree.sub(params, ctx.variables['params']), squared=True)
            return value + strength(ctx) * (optax.tree.vdot(ctx.row, params) + away / 2), aux

        return corrected

    def report(ctx, scratch, before, after):
        change = optax.tree.sub(after['params'], before['params'])
        return optax.tree.add(ctx.row, change), {'drift': change}

    def drifted(view):
        """The mean of all clients' ``H`` after this round."""
        share = view.count / view.run.num_clients
        return optax.tree.add(view.server, optax.tree.scale(share, view.mean(view.reports['drift'])))

    return [
        Method(
            'feddyn',
            init=init,
            loss=loss,
            report=report,
            score=one_vote_each,
            finish=lambda view, updates, weights, update: optax.tree.add(update, drifted(view)),
            commit=lambda view, updates, weights, update: (drifted(view), None),
        )
    ]
