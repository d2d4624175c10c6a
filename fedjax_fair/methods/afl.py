"""Agnostic federated learning: the server looks for the weights under which the model is worst."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.method import Method, View
from fedjax_fair.core.training_set import AFTER
from fedjax_fair.core.types import Array, PyTree, Run, Variables, default_float
from fedjax_fair.methods.weighting import equal_votes_at_zero, keep_on_server
from fedjax_fair.ops import project_simplex
from fedjax_fair.options import NonNegative, Share, search
from fedjax_fair.registry import register

MEASURED = {'global': 'loss', 'local': 'local_loss'}


class Kept(NamedTuple):
    """What the server keeps: lambda of all clients, and the sum of the models sent out. A plain tuple in the state."""

    lam: Array
    models: Any


@register.recipe
def afl(
    gamma: Annotated[NonNegative, search(0.001, 1, log=True)] = 0.01,
    average: bool = False,
    floor: Share = 0.0,
    restart: bool = False,
    lagged: bool = False,
    at: Literal['global', 'local'] = 'global',
) -> list[Method]:
    """Agnostic federated learning: weights climb towards the clients that lose most.

    ``lambda <- Proj_simplex(lambda + gamma F)``, ``W+ = sum_k lambda_k w_k``, with ``F_k`` the mean training loss of
    the incoming model and ``lambda`` starting uniform. ``gamma = 0`` is the uniform mean, ``gamma -> inf`` the worst
    client alone (:func:`afl_worst`). ``average`` serves the mean of all models so far instead of the last.

    One lambda for all clients is kept on the server. Those absent climb by nothing, and a cohort shares by its own.

    Reference: Mohri et al., Agnostic Federated Learning, ICML 2019, with local epochs in place of one gradient. easyFL
    aggregates with lambda as it was before the step (``lagged``). WenkeHuang/MarsFL starts it afresh in every round,
    uniform over the cohort (``restart``), from losses of the trained models (``at='local'``; there of a test set, here
    of training data), and gives nobody less than ``floor = 1e-3``.
    """
    measured = MEASURED[at]

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        start = jnp.zeros(run.num_clients) + 1 / run.num_clients
        return tuple(Kept(start, optax.tree.zeros_like(variables) if average else ())), None

    def climbed(view: View) -> Array:
        return _climbed(view, gamma * view.measured[measured], restart)

    def score(view: View, updates: PyTree) -> Array:
        chosen = view.gather(_kept(view).lam if lagged else climbed(view))
        return jnp.log(jnp.maximum(chosen, floor))

    return [
        Method(
            'afl',
            init=init,
            measures=(measured,),
            idle=None if average else equal_votes_at_zero(gamma, 'gamma'),
            needs_all=measured in AFTER and not lagged,
            score=score,
            commit=keep_on_server(lambda view: tuple(Kept(climbed(view), _sum_of_models(view, average)))),
            serve=_mean_of_models if average else None,
        )
    ]


def _kept(view: View) -> Kept:
    return Kept(*view.server)


def _climbed(view: View, steps: Array, restart: bool) -> Array:
    """Lambda of all clients after this round's step; ``restart`` begins uniform over the cohort."""
    before = _kept(view).lam
    here = view.scatter(jnp.zeros(before.shape, bool), jnp.ones_like(view.mask))
    before = jnp.where(here, 1 / jnp.maximum(view.count, 1).astype(before.dtype), 0) if restart else before
    moved = before + view.scatter(jnp.zeros_like(before), steps.astype(before.dtype))
    return project_simplex(moved, here if restart else None)


def _sum_of_models(view: View, average: bool) -> Any:
    """The sum of the models sent out so far. The first one was drawn, not learned, so it does not count."""
    models = _kept(view).models
    if not average:
        return models
    return jax.tree.map(lambda total, sent: total + jnp.where(view.round > 0, sent, 0), models, view.variables)


def _mean_of_models(view: View, clients: PyTree) -> Variables:
    count = jnp.maximum(view.round, 1).astype(default_float())
    models = _kept(view).models
    return jax.tree.map(lambda total, last: (total + last) / count.astype(last.dtype), models, view.variables)


@register.recipe
def afl_worst() -> list[Method]:
    """All weight on the client with the largest loss of the incoming model (on all of them, if several are equal).

    The limit of :func:`~fedjax_fair.methods.qffl.qfedavg` as ``q -> inf``: what wnn2000/FFL4MIA calls Agnostic-FL.
    """

    def score(view: View, updates: PyTree) -> Array:
        loss = jnp.where(view.mask, view.measured['loss'], -jnp.inf)
        return jnp.where(loss >= jnp.max(loss), 0.0, -jnp.inf)

    return [Method('afl_worst', measures=('loss',), score=score)]
