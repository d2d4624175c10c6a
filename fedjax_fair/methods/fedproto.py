"""Methods that share class prototypes beside the model: FedProto and FedProc."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core.hooks import Idle, Loss, LossFn, Reported
from fedjax_fair.core.idle import zero_strength
from fedjax_fair.core.masking import masked_mean
from fedjax_fair.core.method import Aux, Context, Method, Stage, View
from fedjax_fair.core.tree import flat_rows
from fedjax_fair.core.types import Array, Batch, PyTree, Run, Variables
from fedjax_fair.errors import UserError
from fedjax_fair.methods.wrappers import plus
from fedjax_fair.ops.prototypes import class_sums, mean_prototypes, prototype_contrast, prototype_distance
from fedjax_fair.options import NonNegative, search
from fedjax_fair.registry import register


class Sums(NamedTuple):
    """What a client adds up in its last local epoch, for every class: features and examples."""

    features: Array
    counts: Array


def _with_prototypes(name: str, stage: Stage, loss: Loss, idle: Idle | None = None) -> list[Method]:
    """A method whose clients send their classes' mean features and receive the means over clients.

    A client's prototype is the mean of the features seen during its last local epoch, every batch before its step; the
    server's the plain mean over this round's clients that hold the class. A class none of them holds has none.
    """

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        shape = (run.num_classes, run.feature_dim)
        return {'prototypes': jnp.zeros(shape), 'known': jnp.zeros(shape[:1], bool)}, None

    def start(ctx: Context) -> Sums:
        return Sums(jnp.zeros((ctx.run.num_classes, ctx.run.feature_dim)), jnp.zeros(ctx.run.num_classes))

    def observe(ctx: Context, scratch: Sums, batch: Batch, aux: Aux, last: Array) -> Sums:
        if batch.y.ndim > 1:
            raise UserError(f'{name} needs one class per example, got labels of shape {batch.y.shape[1:]}')
        new = Sums(*class_sums(flat_rows(aux.features), batch.y, batch.mask & last, ctx.run.num_classes))
        return jax.tree.map(lambda total, more: total + more.astype(total.dtype), scratch, new)

    def report(ctx: Context, scratch: Sums, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
        means = scratch.features / jnp.maximum(scratch.counts, 1)[:, None]
        return None, {'prototypes': means, 'class_counts': scratch.counts}

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        means, known = mean_prototypes(view.reports['prototypes'], view.reports['class_counts'], view.mask)
        return {'prototypes': means.astype(view.server['prototypes'].dtype), 'known': known}, None

    return [
        Method(
            name,
            stage=stage,
            idle=idle,
            init=init,
            start=start,
            loss=loss,
            observe=observe,
            report=report,
            commit=commit,
            broadcasts=True,
        )
    ]


def _mean(ctx: Context, batch: Batch, aux: Aux, losses: Callable[..., Array]) -> Array:
    """Mean over a batch of what ``losses`` says of features and prototypes."""
    prototypes = ctx.server['prototypes'].astype(aux.features.dtype)
    return masked_mean(losses(flat_rows(aux.features), batch.y, prototypes, ctx.server['known']), batch.mask)


@register.recipe
def fedproto(mu: Annotated[NonNegative, search(0.1, 10, log=True)] = 2.0) -> list[Method]:
    """FedProto: features are pulled towards the federation's prototype of their class.

    ``loss + mu mean_b ||z - P_y||^2 / F``; an example whose class has no prototype yet (the first round) adds 0 but
    counts in the mean. ``mu = 0`` is FedAvg. Prototypes as in :func:`fedproc`.

    Reference: Tan et al., FedProto: Federated Prototype Learning across Heterogeneous Clients, AAAI 2022, there without
    averaging models; here, as in WenkeHuang/MarsFL, the model is averaged too. That code averages each prototype over
    its entries by mistake; ours does not.

    >>> [method.name for method in fedproto()]
    ['fedproto']
    """

    def pull(ctx: Context, variables: Variables, batch: Batch, aux: Aux) -> Array:
        return mu * _mean(ctx, batch, aux, prototype_distance)

    idle = zero_strength(mu, 'mu', first_round='the first round has no prototypes')
    return _with_prototypes('fedproto', Stage.TERM, plus(pull), idle)


@register.recipe
def fedproc() -> list[Method]:
    """FedProc: first the contrast of features with prototypes is learned, then more and more the task.

    ``a_t con + (1 - a_t) loss`` with ``a_t = 1 - t / (T - 1)`` over the ``T`` planned rounds, ``con`` the
    cross-entropy of the cosines of an example's features to all prototypes, and ``loss`` the objective of the task with
    whatever other methods make of it (logit adjustment, tilts, margins). A class without prototype adds 0 but counts
    in the mean: in the first round there are none, and only weight decay moves the model. Prototypes are mean features
    of the last local epoch, averaged over the clients that hold the class.

    Reference: Mu et al., FedProc: Prototypical Contrastive Federated Learning on Non-IID Data, FGCS 2023, without
    temperature, as WenkeHuang/MarsFL runs it.

    >>> [method.name for method in fedproc()]
    ['fedproc']
    """

    def loss(inner: LossFn) -> LossFn:
        def contrasted(ctx: Context, variables: Variables, batch: Batch) -> tuple[Array, Aux]:
            value, aux = inner(ctx, variables, batch)
            done = ctx.round.astype(value.dtype) / max(ctx.run.rounds - 1, 1)
            share = jnp.clip(1 - done, 0, 1)
            contrast = _mean(ctx, batch, aux, prototype_contrast)
            return value + share * (contrast - value), aux

        return contrasted

    return _with_prototypes('fedproc', Stage.MIXTURE, loss)
