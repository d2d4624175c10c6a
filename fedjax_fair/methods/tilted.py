"""FedTilt: losses tilted over examples and classes, a personal model per client, and a tilted consensus of models."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.local import make_optimizer
from fedjax_fair.core.spec import masked_mean
from fedjax_fair.core.tree import select, weighted_sum
from fedjax_fair.core.types import Method
from fedjax_fair.methods.options import one_of
from fedjax_fair.methods.weights import one_vote_each
from fedjax_fair.ops import tilted_consensus, two_level_tilted_loss
from fedjax_fair.ops.tilted import DISTANCES


def tilted_loss(tau: float = 1.0, lam: float = 1.0) -> list[Method]:
    """Losses of a batch tilted within classes (``lam``) and over them (``tau``): positive towards the worst.

    See :func:`~fedjax_fair.ops.two_level_tilted_loss`. ``tau = lam = 0`` is plain training, ``tau = lam`` TERM,
    negative tilts discount outliers. Where an example has no single class (masks, several labels) all are of one class,
    and only ``lam`` tilts.

    Reference: Zhang et al., FedTilt: Towards Multi-Level Fairness-Preserving and Robust Federated Learning,
    arXiv 2503.13537. The paper does not say over what is tilted; here it is the mini-batch.
    """

    def loss(inner):
        def tilted(ctx, variables, batch):
            value, aux = inner(ctx, variables, batch)
            y = batch.y if batch.y.ndim == 1 else jnp.zeros(batch.mask.shape, jnp.int32)
            new = two_level_tilted_loss(
                aux.losses, y, num_classes=ctx.run.num_classes, tau=tau, lam=lam, mask=batch.mask
            )
            return value + new - masked_mean(aux.losses, batch.mask), aux

        return tilted

    return [Method('tilted_loss', loss=loss)]


def term(t: float = 1.0) -> list[Method]:
    """TERM: one tilt over all examples of a batch; ``t = 0`` is FedAvg, ``t -> inf`` trains on the worst example.

    Reference: Li et al., Tilted Empirical Risk Minimization, ICLR 2021, inside the clients.
    """
    return tilted_loss(t, t)


def personal(
    mu: float = 0.1, lr: float = 0.0, implicit: bool = False, upload: str = 'w', start: str = 'own', serve: str = 'w'
) -> list[Method]:
    """A personal model for every client, trained beside the shared one on the same batches and pulled towards it.

    ``v <- v - lr (grad(v) + mu (v - W))`` with ``W`` the shared model as it came in; ``implicit`` takes the pull as a
    proximal step, ``(v - lr grad(v) + lr mu W) / (1 + lr mu)``, stable for every ``mu``. ``mu = 0`` is local training,
    ``mu -> inf`` (implicit) ``v = W``. ``lr = 0`` means the clients' own. ``v`` stays with its client from round to
    round (``start='global'``: begins anew at ``W``) and is what the client deploys. ``upload='v'`` sends it in place of
    the shared model's local copy: from ``W`` that is FedProx. ``serve='v'`` evaluates the mean of the personal models,
    by examples, of all clients seen so far in the place of the global one. Gradients are those of the methods listed
    after this one.

    Reference: Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021. Momentum and the
    like are those of local training and start afresh in every round.
    """
    kinds = ('w', 'v')
    one_of('personal', upload=(upload, kinds), start=(start, ('own', 'global')), serve=(serve, kinds))

    def rate(ctx):
        own = jnp.asarray(ctx.run.lr(ctx.round))
        return jnp.where(jnp.asarray(lr) > 0, lr, own)

    def begin(ctx):
        v = ctx.row if start == 'own' else ctx.variables
        return v, make_optimizer(ctx.spec.local, rate(ctx)).init(v['params'])

    def observe(ctx, scratch, batch, aux, last):
        v, opt = scratch
        (_, seen), grads = ctx.grad(v, batch)
        params, shared = v['params'], ctx.variables['params']
        if not implicit:
            grads = jax.tree.map(lambda g, a, b: g + mu * (a - b), grads, params, shared)
        moves, opt = make_optimizer(ctx.spec.local, rate(ctx)).update(grads, opt, params)
        params = optax.apply_updates(params, moves)
        if implicit:
            pull = rate(ctx) * mu
            params = jax.tree.map(lambda a, b: (a + pull * b) / (1 + pull), params, shared)
        return {**v, 'params': params, 'batch_stats': seen.batch_stats}, opt

    def mean_of_all(view, clients):
        return select(view.mask.any(), weighted_sum(view.shares(), clients), view.variables)

    return [
        Method(
            'personal',
            init=lambda variables, run: (None, variables),
            start=begin,
            observe=observe,
            upload=(lambda ctx, scratch, before, after: scratch[0]) if upload == 'v' else None,
            report=lambda ctx, scratch, before, after: (scratch[0], {}),
            deploy=lambda ctx, variables: ctx.row,
            serve=mean_of_all if serve == 'v' else None,
        )
    ]


def tilted_server(q: float = 0.0, steps: int = 1, step_size: float = 0.5, distance: str = 'sq') -> list[Method]:
    """The server moves towards the models that are far away (``q > 0``) or near (``q < 0``).

    See :func:`~fedjax_fair.ops.tilted_consensus`, started at the model sent out. All clients count the same, whatever
    their size, times what other methods score. ``q = 0``, ``step_size = 1/2`` and one step are the uniform mean.

    Reference: see :func:`tilted_loss`, where neither ``steps`` nor ``step_size`` is given.
    """
    one_of('tilted_server', distance=(distance, DISTANCES))

    def reduce(view, updates, weights):
        zero = jax.tree.map(lambda leaf: jnp.zeros_like(leaf[0]), updates)
        return tilted_consensus(
            updates, zero, q, steps=steps, step_size=step_size, distance=distance, weights=weights, mask=view.mask
        )

    return [Method('tilted_server', score=one_vote_each, reduce=reduce)]


def fedtilt(
    tau: float = 1.0,
    lam: float = 1.0,
    q: float = 0.0,
    mu: float = 0.01,
    steps: int = 1,
    step_size: float = 0.5,
    distance: str = 'sq',
) -> list[Method]:
    """FedTilt: tilted losses for a shared and a personal model, and a tilted consensus of the shared ones.

    :func:`personal` (``mu``), :func:`tilted_loss` (``tau``, ``lam``) and :func:`tilted_server` (``q``, ``steps``,
    ``step_size``, ``distance``). ``tau = lam = q = 0`` is :func:`ditto`, whose shared model is the uniform FedAvg.
    """
    return [*personal(mu), *tilted_loss(tau, lam), *tilted_server(q, steps, step_size, distance)]


def ditto(mu: float = 1.0, implicit: bool = False, aggregate: str = 'no') -> list[Method]:
    """Ditto: the uniform mean of local models, and a :func:`personal` model near it for every client.

    A table of one global model needs one: by default it is the shared one. ``aggregate='served'`` evaluates the mean of
    the personal models, by examples, and trains as ever; ``'fed_back'`` makes that mean the next shared model.
    What clients deploy is their personal model in any case.

    >>> [method.name for method in ditto(aggregate='fed_back')]
    ['personal']
    """
    one_of('ditto', aggregate=(aggregate, ('no', 'served', 'fed_back')))
    if aggregate == 'fed_back':
        return personal(mu, implicit=implicit, upload='v')
    return [*personal(mu, implicit=implicit, serve='v' if aggregate == 'served' else 'w'), *tilted_server()]


def local_only() -> list[Method]:
    """Every client trains its own model on its own data and deploys it; the shared model is there to compare."""
    return personal(0.0)
