"""FedTilt: losses tilted over examples and classes, a personal model per client, and a tilted consensus of models."""

from __future__ import annotations

from typing import Annotated, Literal

import jax
import jax.numpy as jnp

from fedjax_fair.core.hooks import LossFn
from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import Aux, Context, Method, Stage, View
from fedjax_fair.core.types import Array, Batch, PyTree, Variables
from fedjax_fair.methods.personal import Pull, personal
from fedjax_fair.methods.weighting import one_vote_each
from fedjax_fair.ops import tilted_consensus, two_level_tilted_loss
from fedjax_fair.options import AnyNumber, Count, Squared, search_among
from fedjax_fair.registry import register

Distance = Literal['sq', 'l2']
Tilt = Annotated[AnyNumber, search_among(-1.0, -0.1, 0.0, 0.1, 1.0, 2.0, 5.0, 10.0)]


@register.recipe
def tilted_loss(tau: Tilt = 1.0, lam: Tilt = 1.0) -> list[Method]:
    """Losses of a batch tilted within classes (``lam``) and over them (``tau``): positive towards the worst.

    See :func:`~fedjax_fair.ops.two_level_tilted_loss`. ``tau = lam = 0`` is plain training, ``tau = lam`` TERM,
    negative tilts discount outliers. Where an example has no single class (masks, several labels) all are of one class,
    and only ``lam`` tilts.

    Reference: Zhang et al., FedTilt: Towards Multi-Level Fairness-Preserving and Robust Federated Learning,
    arXiv 2503.13537. The paper does not say over what is tilted; here it is the mini-batch.
    """

    def loss(inner: LossFn) -> LossFn:
        def tilted(ctx: Context, variables: Variables, batch: Batch) -> tuple[Array, Aux]:
            _, aux = inner(ctx, variables, batch)
            y = batch.y if batch.y.ndim == 1 else jnp.zeros(batch.mask.shape, jnp.int32)
            new = two_level_tilted_loss(
                aux.losses, y, num_classes=ctx.run.num_classes, tau=tau, lam=lam, mask=batch.mask
            )
            return new, aux

        return tilted

    def idle(setting: Setting) -> Effect | None:
        if tau == lam == 0:
            return Effect('its tilts are 0')
        return Effect('batches hold one example') if setting.local.batch_size == 1 else None

    return [Method('tilted_loss', stage=Stage.BATCH, idle=idle, loss=loss)]


@register.recipe
def term(t: Tilt = 1.0) -> list[Method]:
    """TERM: one tilt over all examples of a batch; ``t = 0`` is FedAvg, ``t -> inf`` trains on the worst example.

    Reference: Li et al., Tilted Empirical Risk Minimization, ICLR 2021, inside the clients.
    """
    return tilted_loss(t, t)


@register.recipe
def tilted_server(
    q: AnyNumber = 0.0, steps: Count = 1, step_size: Squared = 0.5, distance: Distance = 'sq'
) -> list[Method]:
    """The server moves towards the models that are far away (``q > 0``) or near (``q < 0``).

    See :func:`~fedjax_fair.ops.tilted_consensus`, started at the model sent out. All clients count the same, whatever
    their size, times what other methods score. ``q = 0``, ``step_size = 1/2`` and one step are the uniform mean.

    Reference: see :func:`tilted_loss`, where neither ``steps`` nor ``step_size`` is given.
    """

    def reduce(view: View, updates: PyTree, weights: Array) -> PyTree:
        zero = jax.tree.map(lambda leaf: jnp.zeros_like(leaf[0]), updates)
        return tilted_consensus(
            updates, zero, q, steps=steps, step_size=step_size, distance=distance, weights=weights, mask=view.mask
        )

    def idle(setting: Setting) -> Effect | None:
        one_mean = q == 0 and steps == 1 and step_size == 0.5 and distance == 'sq'
        return setting.votes('q is 0, and one step of 1/2 goes to the mean') if one_mean else None

    return [Method('tilted_server', idle=idle, score=one_vote_each, reduce=reduce)]


@register.recipe
def fedtilt(
    tau: Tilt = 1.0,
    lam: Tilt = 1.0,
    q: AnyNumber = 0.0,
    mu: Pull = 0.01,
    steps: Count = 1,
    step_size: Squared = 0.5,
    distance: Distance = 'sq',
) -> list[Method]:
    """FedTilt: tilted losses for a shared and a personal model, and a tilted consensus of the shared ones.

    :func:`personal` (``mu``), :func:`tilted_loss` (``tau``, ``lam``) and :func:`tilted_server` (``q``, ``steps``,
    ``step_size``, ``distance``). ``tau = lam = q = 0`` is
    :func:`~fedjax_fair.methods.ditto.ditto`, whose shared model is the uniform FedAvg.
    """
    return [*personal(mu), *tilted_loss(tau, lam), *tilted_server(q, steps, step_size, distance)]
