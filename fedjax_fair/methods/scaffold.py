"""SCAFFOLD: control variates against client drift."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.hooks import GradFn, Reported
from fedjax_fair.core.method import Aux, Context, Method, View
from fedjax_fair.core.types import Array, Batch, PyTree, Run, Variables
from fedjax_fair.methods.weighting import one_vote_each
from fedjax_fair.options import Positive, search
from fedjax_fair.registry import register

SHARES: dict[str, Callable[[View], Any]] = {  # of the change of control variates that the server takes
    'participation': lambda view: view.count / view.run.num_clients,
    'mean': lambda view: 1.0,
}


@register.recipe
def scaffold(
    server_lr: Annotated[Positive, search(0.1, 2, log=True)] = 1.0,
    control: Literal['participation', 'mean'] = 'participation',
) -> list[Method]:
    """SCAFFOLD (option II): gradients are corrected by the server's minus the client's control variate.

    ``y <- y - lr (g(y) - c_i + c)`` for ``K`` steps; ``c_i+ = c_i - c + (W - y) / (K lr)``;
    ``W+ = W + server_lr mean_S(y - W)``; ``c+ = c + (|S| / N) mean_S(c_i+ - c_i)``.

    Clients train without momentum, which would make ``K lr`` the wrong length. Where a method trains in phases,
    ``K lr`` is summed over the phases that train a parameter. A parameter that did not train keeps its ``c_i``.
    ``control='mean'`` leaves out the factor ``|S| / N`` as WenkeHuang/MarsFL does; under full participation both are
    the same. The correction concerns the shared model, never a personal one.

    Reference: Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020.
    """

    def scale(view: View, weights: Array) -> Array:
        return jnp.asarray(server_lr)

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        change = view.mean(view.reports['control_change'])
        return optax.tree.add(view.server, optax.tree.scale(SHARES[control](view), change)), None

    return [
        Method(
            'scaffold',
            local={'momentum': 0.0, 'optimizer': 'sgd'},
            init=_init,
            grad=_corrected,
            report=_report,
            score=one_vote_each,
            scale=scale,
            commit=commit,
            broadcasts=True,
        )
    ]


def _init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
    zero = optax.tree.zeros_like(variables['params'])
    return zero, zero


def _corrected(inner: GradFn) -> GradFn:
    def corrected(ctx: Context, variables: Variables, batch: Batch) -> tuple[tuple[Array, Aux], PyTree]:
        value, grads = inner(ctx, variables, batch)
        return value, jax.tree.map(lambda g, c, ci: g + (c - ci), grads, ctx.server, ctx.row)

    return corrected


def _report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
    def change(w: Array, y: Array, c: Array, time: Array) -> Array:
        mean_gradient = (1 / jnp.where(time > 0, time, 1)).astype(w.dtype) * (w - y)
        return jnp.where(time > 0, mean_gradient - c, 0)

    time = ctx.training_time(before['params'])
    moved = jax.tree.map(change, before['params'], after['params'], ctx.server, time)
    return optax.tree.add(ctx.row, moved), {'control_change': moved}
