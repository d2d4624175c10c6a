"""A personal model for every client, trained beside the shared one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core import tree
from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.local import make_optimizer
from fedjax_fair.core.method import Aux, Context, Method, Stage, View
from fedjax_fair.core.tree import select, weighted_sum
from fedjax_fair.core.types import Array, Batch, PyTree, Variables
from fedjax_fair.methods.at_home import at_home
from fedjax_fair.methods.wrappers import row_of_the_model
from fedjax_fair.options import NonNegative, search
from fedjax_fair.registry import register

OWN_MODEL = 'which model of its own a client has'
STARTS: dict[str, Callable[[Context], Variables]] = {'own': lambda ctx: ctx.row, 'global': lambda ctx: ctx.variables}
Pull = Annotated[NonNegative, search(0.001, 10, log=True)]  # towards the shared model


class Own(NamedTuple):
    """The personal model of a client in training, and the state of its optimiser."""

    model: Variables
    opt: PyTree


@register.recipe
def personal(
    mu: Pull = 0.1,
    lr: NonNegative = 0.0,
    implicit: bool = False,
    upload: Literal['w', 'v'] = 'w',
    start: Literal['own', 'global'] = 'own',
    serve: Literal['w', 'v'] = 'w',
) -> list[Method]:
    """A personal model for every client, trained beside the shared one on the same batches and pulled towards it.

    ``v <- v - lr (grad(v) + mu (v - W))`` with ``W`` the shared model as it came in; ``implicit`` takes the pull as a
    proximal step, ``(v - lr grad(v) + lr mu W) / (1 + lr mu)``, stable for every ``mu``. ``mu = 0`` is local training,
    ``mu -> inf`` (implicit) ``v = W``. ``lr = 0`` means the clients' own. ``v`` stays with its client from round to
    round (``start='global'``: begins anew at ``W``) and is what the client deploys. ``upload='v'`` sends it in place of
    the shared model's local copy: from ``W`` that is FedProx. ``serve='v'`` evaluates the mean of the personal models,
    by examples, of all clients seen so far in the place of the global one.

    Its gradients are those of the methods that shape the task's objective or choose the point of the gradient
    (``logit_adjust``, ``tilted_loss``, ``margin``, ``salt``, ``perturb``, ...). Methods that tie the shared model to
    the federation (``fedprox``, ``scaffold``, ``moon``, ...) leave the personal model alone.

    Reference: Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021. Momentum and the
    like are those of local training and start afresh in every round.
    """

    def begin(ctx: Context) -> Own:
        v = STARTS[start](ctx)
        return Own(v, make_optimizer(ctx.spec.local, _rate(ctx, lr)).init(v['params']))

    def observe(ctx: Context, scratch: Own, batch: Batch, aux: Aux, last: Array) -> Own:
        return _step(ctx, scratch, batch, mu, _rate(ctx, lr), implicit)

    def idle(setting: Setting) -> Effect | None:
        alone = mu == lr == 0 and start == 'own' and upload == serve == 'w'
        return Effect('nothing pulls the personal models, mu is 0', 'local_only') if alone else None

    return [
        Method(
            'personal',
            stage=Stage.UPDATE,
            claims=(OWN_MODEL,),
            idle=idle,
            init=row_of_the_model,
            start=begin,
            observe=observe,
            upload=_upload if upload == 'v' else None,
            report=_report,
            deploy=_deploy,
            serve=_mean_of_all if serve == 'v' else None,
        )
    ]


def _upload(ctx: Context, scratch: Own, before: Variables, after: Variables) -> Variables:
    return scratch.model


def _report(ctx: Context, scratch: Own, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
    return scratch.model, {}


def _deploy(ctx: Context, variables: Variables) -> Variables:
    return ctx.row


def _rate(ctx: Context, lr: Any) -> Array:
    own = jnp.asarray(ctx.run.lr(ctx.round))
    return jnp.where(jnp.asarray(lr) > 0, lr, own)


def _step(ctx: Context, scratch: Own, batch: Batch, mu: Any, rate: Array, implicit: bool) -> Own:
    """One step of the personal model on the batch of the shared one."""
    v, opt = scratch
    (_, seen), grads = ctx.grad(v, batch)
    params, shared = v['params'], ctx.variables['params']
    if not implicit:
        grads = jax.tree.map(lambda g, a, b: g + mu * (a - b), grads, params, shared)
    moves, opt = make_optimizer(ctx.spec.local, rate).update(grads, opt, params)
    params = optax.apply_updates(params, moves)
    if implicit:
        pull = rate * mu
        params = jax.tree.map(lambda a, b: (a + pull * b) / (1 + pull), params, shared)
    return Own({**v, 'params': params, 'batch_stats': seen.batch_stats}, opt)


def _mean_of_all(view: View, clients: PyTree) -> Variables:
    return select(view.mask.any(), weighted_sum(view.shares(), clients), view.variables)


@register.recipe
def local_only() -> list[Method]:
    """Every client trains its own model on its own data and deploys it; nothing is sent.

    What other methods of the recipe do in local training they do to this model. The global model is there to compare:
    the plain mean of the clients' models, which nobody trains.
    """
    return [at_home('local_only', lambda variables: set(jax.tree.leaves(tree.paths(variables))), claims=(OWN_MODEL,))]
