"""FedDyn: every client's objective moves so that its optimum is the federation's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax.numpy as jnp
import optax

from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.method import Aux, Context, Method, View
from fedjax_fair.core.types import Array, Batch, PyTree, Run, Variables, default_float
from fedjax_fair.methods.weighting import keep_on_server, one_vote_each
from fedjax_fair.methods.wrappers import plus
from fedjax_fair.options import NonNegative, search
from fedjax_fair.registry import register


def _by_size(ctx: Context, alpha: Any) -> Array:
    sizes = jnp.asarray(ctx.run.sizes, default_float())
    return alpha * jnp.mean(sizes) / jnp.maximum(jnp.take(sizes, ctx.id, mode='clip'), 1)


STRENGTHS: dict[str, Callable[[Context, Any], Any]] = {'equal': lambda ctx, alpha: alpha, 'sizes': _by_size}


@register.recipe
def feddyn(
    alpha: Annotated[NonNegative, search(0.001, 1, log=True)] = 0.01, scale: Literal['equal', 'sizes'] = 'equal'
) -> list[Method]:
    """FedDyn: local objectives are corrected by what a client and the federation drifted so far.

    With ``H_m`` the sum of client ``m``'s updates so far, it minimises
    ``F_m(w) + alpha <H_m, w> + (alpha / 2) ||w - W||^2``; the server adds the mean of all ``N`` clients' ``H`` to the
    uniform mean of models: ``W+ = mean_S(w_m) + (1/N) sum_m H_m``. In the paper's symbols its ``g_m`` is ``-alpha H_m``
    and its ``h`` ``-(alpha/N) sum_m H_m``. ``alpha -> 0`` is not FedAvg: the server's correction does not depend on it.

    ``scale='sizes'`` divides a client's ``alpha`` by its share of examples times ``N``, as the official code does. What
    WenkeHuang/MarsFL runs under this name is FedAvg: its penalty does not depend on the local model. ``H`` are about
    what clients trained, before any mask or weight, and of trainable parameters; batch statistics are averaged. Factors
    on the step (q-FFL, FedNova) scale the mean of the updates and not ``H``.

    Reference: Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021.

    >>> [method.name for method in feddyn(0.1)]
    ['feddyn']
    """

    def correction(ctx: Context, variables: Variables, batch: Batch, aux: Aux) -> Array:
        params = variables['params']
        away = optax.tree.norm(optax.tree.sub(params, ctx.variables['params']), squared=True)
        return STRENGTHS[scale](ctx, alpha) * (optax.tree.vdot(ctx.row, params) + away / 2)

    return [
        Method(
            'feddyn',
            init=_init,
            loss=plus(correction),
            report=_report,
            score=one_vote_each,
            finish=_finish,
            commit=keep_on_server(_drifted),
        )
    ]


def _init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
    zero = optax.tree.zeros_like(variables['params'])
    return zero, zero


def _report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
    change = optax.tree.sub(after['params'], before['params'])
    return optax.tree.add(ctx.row, change), {'drift': change}


def _finish(view: View, updates: PyTree, weights: Array, update: PyTree) -> PyTree:
    return optax.tree.add(update, _drifted(view))


def _drifted(view: View) -> PyTree:
    """The mean of all clients' ``H`` after this round."""
    share = view.count / view.run.num_clients
    return optax.tree.add(view.server, optax.tree.scale(share, view.mean(view.reports['drift'])))
