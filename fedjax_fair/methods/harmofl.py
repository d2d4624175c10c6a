"""HarmoFL: images of one amplitude spectrum for all clients, and local training within a radius."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp

from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.idle import zero_strength
from fedjax_fair.core.method import Context, Method, Stage, View
from fedjax_fair.core.types import Array, PyTree, Run, Variables
from fedjax_fair.errors import UserError
from fedjax_fair.methods.fedavg import uniform
from fedjax_fair.methods.fedism import POINT, Radius
from fedjax_fair.methods.wrappers import taken_by
from fedjax_fair.ops import amplitude_normalize, mean_amplitude, sam_gradient
from fedjax_fair.ops.spectral import checked_band
from fedjax_fair.options import Share, search
from fedjax_fair.registry import register

Seed = Literal['first_batch', 'zero', 'frozen_first_batch']
SEEDS: dict[Seed, tuple[bool, bool]] = {  # whether the amplitude moves, and whether it starts at zero
    'first_batch': (True, False),
    'zero': (True, True),
    'frozen_first_batch': (False, False),
}
SETTLED: dict[str, Callable[[PyTree], Any]] = {  # whether the amplitude is what it will be
    'first_round': lambda server: server['known'],
    'every_round': lambda server: False,
}
Weight = Annotated[Share, search(0.01, 1, log=True)]  # of the new batch in a running mean


@register.recipe
def amp_norm(
    band: str = 'full',
    decay: Weight = 0.1,
    seed: Seed = 'first_batch',
    communicate: Literal['first_round', 'every_round'] = 'first_round',
) -> list[Method]:
    """Amplitude normalisation: all images get the amplitude spectrum that the clients have on average.

    While a client trains, ``A <- (1 - decay) A + decay mean_b |fft2(x_b)|`` once per batch, and the batch is given the
    new ``A`` in the ``band`` (``'full'``, ``'dc'``, or a number written out; see
    :func:`~fedjax_fair.ops.amplitude_normalize`) before it is trained on. The server takes the plain mean of the
    clients' ``A``; after the ``first_round`` it stays as it is, in ``every_round`` clients go on from it. Evaluation
    uses the server's, and images as they are before there is one: a model that has not been trained. Who is absent in
    the first round has no part in it. Examples that only pad a batch never enter.

    ``seed`` says what there is before the first batch: its own mean (``'first_batch'``), nothing (``'zero'``, the
    literal equation: ``A`` starts smaller by the factor ``decay``), or its mean, which then never moves
    (``'frozen_first_batch'``, as the published code does by an accident). ``decay = 1`` follows the last batch alone.

    Reference: Jiang et al., HarmoFL: Harmonizing Local and Global Drifts in Federated Learning on Heterogeneous Medical
    Images, AAAI 2022, Eqs. 2 to 4.
    """
    width, settled = checked_band(band, 'amp_norm.band'), SETTLED[communicate]

    def transform(ctx: Context, scratch: PyTree, x: Array) -> tuple[Array, PyTree]:
        if ctx.train:  # nothing is measured any more once the amplitude is settled
            moved = _moved_amplitude
            scratch = jax.lax.cond(
                settled(ctx.server), lambda: scratch, lambda: moved(scratch, x, ctx.mask, decay, seed)
            )
        normalised = amplitude_normalize(x, scratch['amplitude'], band=width)
        return jnp.where(scratch['known'], normalised, x), scratch

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        mean = view.mean(view.reports['amplitude'])
        return {
            'amplitude': jnp.where(settled(view.server), view.server['amplitude'], mean),
            'known': jnp.array(True),
        }, None

    return [
        Method(
            'amp_norm',
            stage=Stage.INPUT,
            init=_no_amplitude_yet,
            start=_start,
            transform=transform,
            report=_report,
            commit=commit,
            broadcasts=True,
        )
    ]


def _no_amplitude_yet(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
    shape = run.example.shape
    if len(shape) != 3:
        raise UserError(f'amp_norm needs images of height, width and channels, not inputs of shape {shape}')
    return {'amplitude': jnp.zeros(shape), 'known': jnp.array(False)}, None


def _start(ctx: Context) -> PyTree:
    return ctx.server


def _report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
    return None, {'amplitude': scratch['amplitude']}


def _moved_amplitude(scratch: PyTree, x: Array, mask: Array | None, decay: Any, seed: Seed) -> PyTree:
    """The running amplitude after one more batch."""
    now = mean_amplitude(x, mask).astype(scratch['amplitude'].dtype)
    later = scratch['amplitude']
    moves, from_zero = SEEDS[seed]
    if moves:
        later = (1 - decay) * later + decay * now
    first = later if from_zero else now
    return {'amplitude': jnp.where(scratch['known'], later, first), 'known': jnp.array(True)}


@register.recipe
def perturb(alpha: Radius = 0.05) -> list[Method]:
    """Weight perturbation: clients follow the gradient at ``w + alpha g / ||g||`` (SAM; two passes per step).

    See :func:`~fedjax_fair.ops.sam_gradient`; ``alpha = 0`` is plain training. Weight decay takes no part in the
    perturbation. Batch statistics are those of the clean pass.

    Reference: see :func:`amp_norm`, Eq. 6.
    """
    sam = taken_by(lambda ctx, at, params: sam_gradient(at, params, alpha))
    return [Method('perturb', stage=Stage.POINT, claims=(POINT,), idle=zero_strength(alpha, 'alpha'), grad=sam)]


@register.recipe
def harmofl(alpha: Radius = 0.05, decay: Weight = 0.1, band: str = 'full', keep_optimizer: bool = True) -> list[Method]:
    """HarmoFL as the paper has it: amplitude normalisation and weight perturbation, one client one vote.

    :func:`amp_norm` (``decay``, ``band``) and :func:`perturb` (``alpha``). Optimisers of clients live on from round to
    round, as in the published code, unless ``keep_optimizer=False``; this overrides the setting ``keep_optimizer``.
    ``amp_norm+uniform`` and ``perturb+uniform`` are its two halves.
    """
    checked_band(band, 'harmofl.band')
    return _harmofl(amp_norm(band, decay), alpha, keep_optimizer)


@register.recipe
def harmofl_release(alpha: Radius = 0.05, keep_optimizer: bool = True) -> list[Method]:
    """HarmoFL as its published code has it: of the amplitude only the zero frequency, that of the first batch.

    All that amplitude normalisation does then is to give every channel the mean that channels have on average. The
    published networks normalise by the statistics of the batch at hand, at test too: ``norm=stateless``.
    """
    return _harmofl(amp_norm('dc', seed='frozen_first_batch'), alpha, keep_optimizer)


def _harmofl(harmonized: list[Method], alpha: Any, keep_optimizer: bool) -> list[Method]:
    local = {'keep_optimizer': keep_optimizer}
    votes = [m._replace(idle=None) for m in uniform()]  # is what HarmoFL asks for, whatever it changes
    return [*harmonized, *(m._replace(local=local) for m in perturb(alpha)), *votes]
