"""FedISM: flat minima for every client, by sharpness-aware local training and by weights that follow sharpness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax.numpy as jnp

from fedjax_fair.core.hooks import LossFn, Reported
from fedjax_fair.core.idle import Effect, Setting, zero_strength
from fedjax_fair.core.masking import masked_mean
from fedjax_fair.core.method import Aux, Context, Method, Stage, View
from fedjax_fair.core.types import Array, Batch, Losses, PyTree, Variables, default_float
from fedjax_fair.methods.weighting import keep_rows, log_of, no_weight_yet
from fedjax_fair.methods.wrappers import taken_by
from fedjax_fair.ops import adjusted_logits, gsam_gradient, sharpness, sharpness_weights
from fedjax_fair.options import NonNegative, Share, search
from fedjax_fair.registry import register

Schedule = Literal['constant', 'sqrt']
Radius = Annotated[NonNegative, search(0.005, 0.5, log=True)]
Surrogate = Annotated[NonNegative, search(0.01, 1, log=True)]  # how much GSAM minimises the gap to the worst point
Power = Annotated[NonNegative, search(0.1, 10, log=True)]
Blend = Annotated[Share, search(0.1, 1)]  # of this round's weights with those before
Adjustment = Annotated[NonNegative, search(0, 2)]
POINT = 'at which point the gradient is taken'  # what SAM and its kin decide, so that a recipe has one of them


def _growing(rho: Any, ctx: Context) -> Array:
    """``rho ((t + 1) / T)^0.5``."""
    return rho * jnp.sqrt((ctx.round + 1).astype(default_float()) / ctx.run.rounds)


RADII: dict[Schedule, Callable[[Any, Context], Any]] = {'constant': lambda rho, ctx: rho, 'sqrt': _growing}


def _adjusted(ctx: Context, tau: Any) -> Losses:
    """The task's losses of logits that are moved by the client's own class frequencies."""

    def losses(logits: Array, y: Array, mask: Array | None) -> Array:
        return ctx.spec.task.losses(adjusted_logits(logits, ctx.label_counts, tau), y, mask)

    return losses


@register.recipe
def logit_adjust(tau: Adjustment = 1.0) -> list[Method]:
    """Logit adjustment: in training, rare classes of a client must win by a margin.

    ``losses(logits + tau log(n_c / n))`` with the client's own class counts; never at evaluation and never in a loss
    that weighs clients. ``tau = 0`` is plain training. A class the client lacks gets ``-inf`` and no gradient.

    Reference: Menon et al., Long-tail Learning via Logit Adjustment, ICLR 2021; wnn2000/FFL4MIA uses it everywhere.
    """

    def loss(inner: LossFn) -> LossFn:
        def with_prior(ctx: Context, variables: Variables, batch: Batch) -> tuple[Array, Aux]:
            _, aux = inner(ctx, variables, batch)
            losses = _adjusted(ctx, tau)(aux.logits, batch.y, batch.mask)
            return masked_mean(losses, batch.mask), aux._replace(losses=losses)

        return with_prior

    return [Method('logit_adjust', stage=Stage.EXAMPLE, idle=zero_strength(tau, 'tau'), loss=loss)]


@register.recipe
def salt(rho: Radius = 0.05, alpha: Surrogate = 0.1, schedule: Schedule = 'constant') -> list[Method]:
    """SALT: clients follow the gradient of the worst point within ``rho`` (GSAM; two passes per step).

    See :func:`~fedjax_fair.ops.gsam_gradient`: ``alpha = 0`` is SAM, ``rho = 0`` plain training. ``schedule='sqrt'``
    lets the radius grow as ``rho ((t + 1) / T)^0.5``, as FedISM+ does. Batch statistics are those of the clean pass.

    Reference: Wu et al., From Optimization to Generalization: Fair Federated Learning against Quality Shift via
    Inter-Client Sharpness Matching, IJCAI 2024. The paper's equation is SAM, its code GSAM with ``alpha = 0.1``.
    """

    def gradient(ctx: Context, at: Any, params: PyTree) -> tuple:
        return gsam_gradient(at, params, RADII[schedule](rho, ctx), alpha)

    idle = zero_strength(rho, 'rho')
    return [Method('salt', stage=Stage.POINT, claims=(POINT,), idle=idle, grad=taken_by(gradient))]


def client_sharpness(
    ctx: Context,
    variables: Variables,
    rho: Any = 0.05,
    losses: Losses | None = None,
    augment: bool = False,
) -> Array:
    """:func:`~fedjax_fair.ops.sharpness` of a client's mean loss over its whole training set, in evaluation mode.

    ``losses`` replaces the task's; with ``augment`` loss, gradient and risen loss each see the data augmented anew.
    """
    first, risen = (ctx.augmented(0), ctx.augmented(1)) if augment else (ctx, ctx)
    known = first.loss_and_gradient(variables, losses)
    if augment:  # the loss is a draw of its own
        known = ctx.augmented(2).loss(variables, losses), known[1]

    def loss(params: PyTree) -> Array:
        return risen.loss({**variables, 'params': params}, losses)

    return sharpness(loss, variables['params'], rho, known)


@register.recipe
def saga(
    q: Power = 2.0,
    beta: Blend = 0.5,
    rho: Radius = 0.05,
    schedule: Schedule = 'constant',
    at: Literal['global', 'local'] = 'global',
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

    def measured(ctx: Context, variables: Variables) -> dict[str, Array]:
        losses = _adjusted(ctx, 1.0) if logit_adjusted else None
        return {'sharpness': client_sharpness(ctx, variables, RADII[schedule](rho, ctx), losses, augment)}

    def probe(ctx: Context) -> Reported:
        return measured(ctx, ctx.variables)

    def report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
        return ctx.row, measured(ctx, after)

    def blended(view: View) -> Array:
        new = sharpness_weights(view.reports['sharpness'], q, view.mask)
        return jnp.where(view.rows < 0, new, beta * new + (1 - beta) * view.rows)

    def idle(setting: Setting) -> Effect | None:
        remembers_alike = beta == 1 or setting.everybody  # cohorts of unequal size leave unequal weights behind
        return setting.votes('q is 0') if q == 0 and remembers_alike else None

    measuring: dict[str, dict[str, Any]] = {'global': {'probe': probe}, 'local': {'report': report, 'needs_all': True}}
    return [
        Method(
            'saga',
            idle=idle,
            init=no_weight_yet,
            **measuring[at],
            score=log_of(blended),
            commit=keep_rows(blended),
        )
    ]


@register.recipe
def fedism(
    rho: Radius = 0.05,
    alpha: Surrogate = 0.1,
    q: Power = 2.0,
    beta: Blend = 0.5,
    tau: Adjustment = 1.0,
    schedule: Schedule = 'constant',
) -> list[Method]:
    """FedISM: logit adjustment, sharpness-aware local training and sharpness-driven weights.

    :func:`logit_adjust` (``tau``), :func:`salt` (``rho``, ``alpha``) and :func:`saga` (``q``, ``beta``, ``rho``);
    ``tau = rho = q = 0`` and ``beta = 1`` are the uniform mean of plainly trained models.
    """
    return [*logit_adjust(tau), *salt(rho, alpha, schedule), *saga(q, beta, rho, schedule)]


@register.recipe
def fedism_plus(
    rho: Radius = 0.05, alpha: Surrogate = 0.1, q: Power = 2.0, beta: Blend = 0.5, tau: Adjustment = 1.0
) -> list[Method]:
    """FedISM+: FedISM whose radius grows over the rounds, ``rho ((t + 1) / T)^0.5``."""
    return fedism(rho, alpha, q, beta, tau, schedule='sqrt')
