"""HarmoFL: images of one amplitude spectrum for all clients, and local training within a radius."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Method
from fedjax_fair.methods.options import one_of
from fedjax_fair.methods.sharpness import at_the_worst_point
from fedjax_fair.methods.weights import uniform
from fedjax_fair.ops import amplitude_normalize, mean_amplitude, sam_gradient
from fedjax_fair.ops.spectral import checked_band

SEEDS = ('first_batch', 'zero', 'frozen_first_batch')
TIMES = ('first_round', 'every_round')


def amp_norm(
    band: str = 'full', decay: float = 0.1, seed: str = 'first_batch', communicate: str = 'first_round'
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
    one_of('amp_norm', seed=(seed, SEEDS), communicate=(communicate, TIMES))
    width = checked_band(band)

    def settled(server):
        return server['known'] if communicate == 'first_round' else False

    def init(variables, run):
        shape = run.example.shape
        if len(shape) != 3:
            raise ValueError(f'amp_norm needs images of height, width and channels, not inputs of shape {shape}')
        return {'amplitude': jnp.zeros(shape), 'known': jnp.array(False)}, None

    def moved(ctx, scratch, x):
        """The running amplitude after one batch more."""
        now = mean_amplitude(x, ctx.mask).astype(scratch['amplitude'].dtype)
        later = scratch['amplitude']
        if seed != 'frozen_first_batch':
            later = (1 - decay) * later + decay * now
        first = later if seed == 'zero' else now
        return {'amplitude': jnp.where(scratch['known'], later, first), 'known': jnp.array(True)}

    def transform(ctx, scratch, x):
        if ctx.train:  # nothing is measured any more once the amplitude is settled
            scratch = jax.lax.cond(settled(ctx.server), lambda: scratch, lambda: moved(ctx, scratch, x))
        normalised = amplitude_normalize(x, scratch['amplitude'], band=width)
        return jnp.where(scratch['known'], normalised, x), scratch

    def commit(view, updates, weights, update):
        mean = view.mean(view.reports['amplitude'])
        return {
            'amplitude': jnp.where(settled(view.server), view.server['amplitude'], mean),
            'known': jnp.array(True),
        }, None

    return [
        Method(
            'amp_norm',
            init=init,
            start=lambda ctx: ctx.server,
            transform=transform,
            report=lambda ctx, scratch, before, after: (None, {'amplitude': scratch['amplitude']}),
            commit=commit,
            broadcasts=True,
        )
    ]


def perturb(alpha: float = 0.05) -> list[Method]:
    """Weight perturbation: clients follow the gradient at ``w + alpha g / ||g||`` (SAM; two passes per step).

    See :func:`~fedjax_fair.ops.sam_gradient`; ``alpha = 0`` is plain training. Weight decay takes no part in the
    perturbation. Batch statistics are those of the clean pass.

    Reference: see :func:`amp_norm`, Eq. 6.
    """
    return [Method('perturb', grad=at_the_worst_point(lambda ctx, at, params: sam_gradient(at, params, alpha)))]


def harmofl(alpha: float = 0.05, decay: float = 0.1, band: str = 'full', keep_optimizer: bool = True) -> list[Method]:
    """HarmoFL as the paper has it: amplitude normalisation and weight perturbation, one client one vote.

    :func:`amp_norm` (``decay``, ``band``) and :func:`perturb` (``alpha``). Optimisers of clients live on from round to
    round, as in the published code, unless ``keep_optimizer`` is false, whatever the setting of that name says.
    ``amp_norm+uniform`` and ``perturb+uniform`` are its two halves.
    """
    return _harmofl(amp_norm(band, decay), alpha, keep_optimizer)


def harmofl_release(alpha: float = 0.05, keep_optimizer: bool = True) -> list[Method]:
    """HarmoFL as its published code has it: of the amplitude only the zero frequency, that of the first batch.

    All that amplitude normalisation does then is to give every channel the mean that channels have on average. The
    published networks normalise by the statistics of the batch at hand, at test too: ``--norm=stateless``.
    """
    return _harmofl(amp_norm('dc', seed='frozen_first_batch'), alpha, keep_optimizer)


def _harmofl(harmonized: list[Method], alpha, keep_optimizer: bool) -> list[Method]:
    local = {'keep_optimizer': keep_optimizer}
    return [*harmonized, *(m._replace(local=local) for m in perturb(alpha)), *uniform()]
