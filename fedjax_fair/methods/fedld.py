"""FedLD: margins kept small in local training, and updates aggregated along their principal axes."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import jax
import jax.numpy as jnp

from fedjax_fair.core.hooks import LossFn
from fedjax_fair.core.idle import zero_strength
from fedjax_fair.core.local import WarmUp
from fedjax_fair.core.method import Aux, Context, Method, Stage, View
from fedjax_fair.core.tree import select, weighted_sum
from fedjax_fair.core.types import Array, Batch, Output, PyTree, Run, Variables
from fedjax_fair.methods.weighting import one_vote_each
from fedjax_fair.methods.wrappers import plus
from fedjax_fair.ops import gram, margin_penalty, principal_coefficients
from fedjax_fair.options import NonNegative, above, search
from fedjax_fair.registry import register

SCORES = {'n': None, 'uniform': one_vote_each}
WARM_UP_STEPS = 5.0  # of the authors' code
Kept = Annotated[float, above(0, at_most=1), search(0.2, 1)]
Penalty = Annotated[NonNegative, search(0.003, 0.3, log=True)]


@register.recipe
def margin(lam: Penalty = 0.03, kind: Literal['logits', 'softmax_batch', 'squared'] = 'logits') -> list[Method]:
    """Margin control: large logits cost, so that shortcuts pay less.

    ``loss + lam penalty`` with the penalty of :func:`~fedjax_fair.ops.margin_penalty`: ``'logits'`` is the paper's,
    ``'softmax_batch'`` its code's, ``'squared'`` spectral decoupling. ``lam = 0`` is plain training; ``lam -> inf``
    keeps logits at 0. Losses that are reported, weighed or evaluated stay plain.

    Reference: Zeng et al., Tackling Data Heterogeneity in Federated Learning via Loss Decomposition, MICCAI 2024, which
    takes 0.01 to 0.1; the penalty is from Puli et al., Don't Blame Dataset Shift, NeurIPS 2023.
    """

    def penalty(ctx: Context, variables: Variables, batch: Batch, aux: Aux) -> Array:
        return lam * margin_penalty(aux.logits, kind, batch.mask)

    return [Method('margin', stage=Stage.PENALTY, idle=zero_strength(lam, 'lam'), loss=plus(penalty))]


@register.recipe
def principal(
    keep: Kept = 0.8,
    granularity: Literal['model', 'leaf'] = 'model',
    normalizer: Literal['l2_top', 'sum_top', 'sum_all'] = 'l2_top',
    length: Literal['axis', 'sum'] = 'axis',
    weights: Literal['n', 'uniform'] = 'n',
    gate: bool = False,
) -> list[Method]:
    """Principal-gradient aggregation: updates are rebuilt from the axes along which most of them lie.

    See :func:`~fedjax_fair.ops.principal_coefficients`: of ``m`` clients' axes the first ``keep m`` are followed, at
    least one. One client, or clients that agree, give FedAvg. ``granularity='leaf'`` treats every tensor on its own
    (a single number is averaged); ``weights='uniform'`` counts clients the same instead of by their examples; other
    methods' scores join either. ``gate`` averages plainly what has never moved before: in the first round everything.

    Reference: see :func:`margin`. The paper treats the whole model and divides by a norm of eigenvalues that it does
    not define: by that of the kept ones (``'l2_top'``) updates keep their length, as it says. Its code is
    :func:`fedld_code`. Batch statistics are averaged: projections could make variances negative.
    """

    def along_axes(view: View, part: PyTree, shares: Array) -> PyTree:
        overlap = gram(part, view.mask)
        c = principal_coefficients(overlap, shares, keep=keep, normalizer=normalizer, length=length, mask=view.mask)
        return weighted_sum(c, part)

    def reduce(view: View, updates: PyTree, shares: Array) -> PyTree:
        def of_leaf(leaf: Array) -> Array:
            return weighted_sum(shares, leaf) if leaf[0].size == 1 else along_axes(view, leaf, shares)

        whole = granularity == 'model'
        new = along_axes(view, updates, shares) if whole else jax.tree.map(of_leaf, updates)
        return _gated(view, new, weighted_sum(shares, updates), whole) if gate else new

    return [
        Method(
            'principal',
            init=_never_moved if gate else None,
            score=SCORES[weights],
            reduce=reduce,
            commit=_note_moves if gate else None,
        )
    ]


def _never_moved(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
    return jax.tree.map(lambda _: jnp.zeros((), bool), variables['params']), None


def _note_moves(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
    return jax.tree.map(lambda before, u: before | jnp.any(u != 0), view.server, update), None


def _gated(view: View, new: PyTree, mean: PyTree, whole: bool) -> PyTree:
    """The mean for tensors that have never moved (for all, if the model is treated as a whole), else the new update."""
    moved = view.server
    if whole:
        moved = jax.tree.map(lambda _: jnp.any(jnp.stack(jax.tree.leaves(view.server))), moved)
    return jax.tree.map(select, moved, new, mean)


def warm_up(steps: float = WARM_UP_STEPS, per_step: bool = True) -> list[Method]:
    """The learning rate grows from 0 over the first ``steps``; see :class:`~fedjax_fair.core.local.WarmUp`."""
    return [Method('warm_up', local={'warm_up': WarmUp(steps, per_step)})]


def frozen_statistics() -> list[Method]:
    """Local training runs the network in evaluation mode: batch statistics are used and never change.

    Zeng-Shuang/FedLD trains like this, for all its methods, because its test before training is not undone.
    """

    def loss(inner: LossFn) -> LossFn:
        def still(ctx: Context, variables: Variables, batch: Batch) -> tuple[Array, Aux]:
            def apply(variables: Variables, x: Array, mask: Array, train: bool, key: Array) -> Output:
                return ctx.spec.model.apply(variables, x, mask, False, key)

            model = ctx.spec.model._replace(apply=apply)
            return inner(dataclasses.replace(ctx, spec=dataclasses.replace(ctx.spec, model=model)), variables, batch)

        return still

    return [Method('frozen_statistics', stage=Stage.NETWORK, loss=loss)]


@register.recipe
def fedld(lam: Penalty = 0.03, keep: Kept = 0.8) -> list[Method]:
    """FedLD as published: :func:`margin` control (``lam``) and :func:`principal` aggregation (``keep``)."""
    return [*margin(lam), *principal(keep)]


@register.recipe
def fedld_code(lam: Penalty = 0.03, keep: Kept = 0.8, warmed_up: bool = False, frozen: bool = False) -> list[Method]:
    """FedLD as its authors' code runs it: margins of probabilities, every tensor on its own, all clients the same.

    The first round is a plain mean and eigenvalues are divided by the sum of all, which shortens the step.
    ``warmed_up`` adds the learning rate's warm-up over five rounds, constant within a round (nothing is learned in the
    first), ``frozen`` training with :func:`frozen_statistics`.

    Reference: Zeng-Shuang/FedLD. What its test set or its partition adds is not here.
    """
    return [
        *margin(lam, 'softmax_batch'),
        *principal(keep, 'leaf', 'sum_all', 'axis', 'uniform', gate=True),
        *(warm_up(per_step=False) if warmed_up else []),
        *(frozen_statistics() if frozen else []),
    ]
