"""FedISM: flat minima for every client, by sharpness-aware local training and by weights that follow sharpness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from fedjax_fair.core.spec import masked_mean
from fedjax_fair.core.types import Array, Losses, Method, PyTree
from fedjax_fair.methods.options import one_of
from fedjax_fair.methods.weights import remember_nothing
from fedjax_fair.ops import adjusted_logits, gsam_gradient, sharpness, sharpness_weights
from fedjax_fair.ops.sharpness import ValueAndGrad


def _radius(schedule: str, owner: str):
    """``(rho, facts) -> rho_t``; ``facts`` has the round and the run."""
    one_of(owner, schedule=(schedule, ('constant', 'sqrt')))

    def radius(rho, facts):
        if schedule == 'constant':
            return rho
        return rho * jnp.sqrt((facts.round + 1).astype(jnp.zeros(0).dtype) / facts.run.rounds)

    return radius


def _adjusted(ctx, tau) -> Losses:
    """The task's losses of logits that are moved by the client's own class frequencies."""

    def losses(logits: Array, y: Array, mask: Array | None) -> Array:
        return ctx.spec.task.losses(adjusted_logits(logits, ctx.label_counts, tau), y, mask)

    return losses


def logit_adjust(tau: float = 1.0) -> list[Method]:
    """Logit adjustment: in training, rare classes of a client must win by a margin.

    ``losses(logits + tau log(n_c / n))`` with the client's own class counts; never at evaluation and never in a loss
    that weighs clients. ``tau = 0`` is plain training. A class the client lacks gets ``-inf`` and no gradient.

    Reference: Menon et al., Long-tail Learning via Logit Adjustment, ICLR 2021; wnn2000/FFL4MIA uses it everywhere.
    """

    def loss(inner):
        def with_prior(ctx, variables, batch):
            value, aux = inner(ctx, variables, batch)
            losses = _adjusted(ctx, tau)(aux.logits, batch.y, batch.mask)
            change = masked_mean(losses, batch.mask) - masked_mean(aux.losses, batch.mask)
            return value + change, aux._replace(losses=losses)

        return with_prior

    return [Method('logit_adjust', loss=loss)]


def at_the_worst_point(gradient: Callable[[Any, ValueAndGrad, PyTree], tuple[Any, PyTree]]) -> Callable:
    """The ``grad`` hook of training by ``gradient(ctx, value_and_grad_fn, params)``, such as SAM's or GSAM's."""

    def grad(inner):
        def of_the_worst_point(ctx, variables, batch):
            def at(params):
                return inner(ctx, {**variables, 'params': params}, batch)

            return gradient(ctx, at, variables['params'])

        return of_the_worst_point

    return grad


def salt(rho: float = 0.05, alpha: float = 0.1, schedule: str = 'constant') -> list[Method]:
    """SALT: clients follow the gradient of the worst point within ``rho`` (GSAM; two passes per step).

    See :func:`~fedjax_fair.ops.gsam_gradient`: ``alpha = 0`` is SAM, ``rho = 0`` plain training. ``schedule='sqrt'``
    lets the radius grow as ``rho ((t + 1) / T)^0.5``, as FedISM+ does. Batch statistics are those of the clean pass.

    Reference: Wu et al., From Optimization to Generalization: Fair Federated Learning against Quality Shift via
    Inter-Client Sharpness Matching, IJCAI 2024. The paper's equation is SAM, its code GSAM with ``alpha = 0.1``.
    """
    radius = _radius(schedule, 'salt')

    def gradient(ctx, at, params):
        return gsam_gradient(at, params, radius(rho, ctx), alpha)

    return [Method('salt', grad=at_the_worst_point(gradient))]


def client_sharpness(ctx, variables, rho=0.05, losses: Losses | None = None, augment: bool = False) -> Array:
    """:func:`~fedjax_fair.ops.sharpness` of a client's mean loss over its whole training set, in evaluation mode.

    ``losses`` replaces the task's; with ``augment`` loss, gradient and risen loss each see the data augmented anew.
    """
    first, risen = (ctx.augmented(0), ctx.augmented(1)) if augment else (ctx, ctx)
    known = first.loss_and_gradient(variables, losses)
    if augment:  # the loss is a draw of its own
        known = ctx.augmented(2).loss(variables, losses), known[1]

    def loss(params):
        return risen.loss({**variables, 'params': params}, losses)

    return sharpness(loss, variables['params'], rho, known)


def saga(
    q: float = 2.0,
    beta: float = 0.5,
    rho: float = 0.05,
    schedule: str = 'constant',
    at: str = 'global',
    logit_adjusted: bool = False,
    augment: bool = False,
) -> list[Method]:
    """SAGA: clients whose loss is sharper count more, so that all become equally flat.

    ``w_k = beta w~_k + (1 - beta) w_k(before)``, ``w~_k ~ S_k^q`` from :func:`~fedjax_fair.ops.sharpness_weights`, and
    ``S_k`` the rise of the client's training loss after one ascent step of length ``rho`` from the incoming model, over
    its whole training set in evaluation mode. ``q = 0`` counts everybody the same; ``beta = 1`` forgets. The number of
    examples does not enter. A client that takes part for the first time has no past: ``w_k = w~_k``; shares are of the
    cohort.

    ``at='local'`` measures at the trained model instead. ``logit_adjusted`` measures the adjusted loss. ``augment``
    lets loss, gradient and risen loss each see the data augmented anew, as the authors do: noisier, and ``S_k`` may be
    negative. ``schedule`` is that of :func:`salt`.

    Reference: see :func:`salt`.
    """
    radius = _radius(schedule, 'saga')
    one_of('saga', at=(at, ('global', 'local')))

    def measured(ctx, variables):
        losses = _adjusted(ctx, 1.0) if logit_adjusted else None
        return {'sharpness': client_sharpness(ctx, variables, radius(rho, ctx), losses, augment)}

    def blended(view):
        new = sharpness_weights(view.reports['sharpness'], q, view.mask)
        return jnp.where(view.rows < 0, new, beta * new + (1 - beta) * view.rows)

    return [
        Method(
            'saga',
            init=remember_nothing,
            probe=(lambda ctx: measured(ctx, ctx.variables)) if at == 'global' else None,
            report=(lambda ctx, scratch, before, after: (ctx.row, measured(ctx, after))) if at == 'local' else None,
            needs_all=at == 'local',
            score=lambda view, updates: jnp.log(blended(view)),
            commit=lambda view, updates, weights, update: (None, blended(view)),
        )
    ]


def fedism(
    rho: float = 0.05,
    alpha: float = 0.1,
    q: float = 2.0,
    beta: float = 0.5,
    tau: float = 1.0,
    schedule: str = 'constant',
) -> list[Method]:
    """FedISM: logit adjustment, sharpness-aware local training and sharpness-driven weights.

    :func:`logit_adjust` (``tau``), :func:`salt` (``rho``, ``alpha``) and :func:`saga` (``q``, ``beta``, ``rho``);
    ``tau = rho = q = 0`` and ``beta = 1`` are the uniform mean of plainly trained models.
    """
    return [*logit_adjust(tau), *salt(rho, alpha, schedule), *saga(q, beta, rho, schedule)]


def fedism_plus(
    rho: float = 0.05, alpha: float = 0.1, q: float = 2.0, beta: float = 0.5, tau: float = 1.0
) -> list[Method]:
    """FedISM+: FedISM whose radius grows over the rounds, ``rho ((t + 1) / T)^0.5``."""
    return fedism(rho, alpha, q, beta, tau, schedule='sqrt')
