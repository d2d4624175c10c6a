"""MOON: features that stay near the global model's and away from those of the client's own past."""

from __future__ import annotations

from typing import Annotated, Literal

import jax
import jax.numpy as jnp

from fedjax_fair.core import tree
from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.idle import zero_strength
from fedjax_fair.core.masking import masked_mean
from fedjax_fair.core.method import Aux, Context, Method
from fedjax_fair.core.types import Array, Batch, PyTree, Run, Variables
from fedjax_fair.methods.wrappers import plus
from fedjax_fair.options import NonNegative, Positive, search, search_among
from fedjax_fair.registry import register

EPSILON = 1e-8  # the shortest length that a cosine divides by, as in PyTorch


def cosine(a: Array, b: Array) -> Array:
    """``<a, b> / (max(||a||, 1e-8) max(||b||, 1e-8))`` of the rows of ``[B, F]``.

    Shorter rows are not stretched any further, so that the gradient stays bounded where features vanish. A row of zeros
    has cosine 0 and no gradient.

    >>> cosine(jnp.array([[3.0, 4.0], [0.0, 0.0]]), jnp.array([[4.0, 3.0], [1.0, 0.0]])).round(2).tolist()
    [0.9599999785423279, 0.0]
    """
    inner = jnp.sum(a * b, -1)
    lengths = _length(a) * _length(b)
    real = jnp.any(a != 0, -1) & jnp.any(b != 0, -1)
    return jnp.where(real, inner / jnp.where(real, lengths, 1), 0)


def _length(a: Array) -> Array:
    square = jnp.sum(a * a, -1)
    long = square > EPSILON**2
    return jnp.where(long, jnp.sqrt(jnp.where(long, square, 1)), EPSILON)


@register.recipe
def moon(
    mu: Annotated[NonNegative, search(0.1, 10, log=True)] = 1.0,
    temperature: Annotated[Positive, search_among(0.1, 0.5, 1.0)] = 0.5,
    frozen: Literal['batch', 'eval'] = 'batch',
) -> list[Method]:
    """MOON: a contrastive term draws features towards those of the global model, away from the client's last one.

    ``loss + mu mean_b -log(e^(s_g / T) / (e^(s_g / T) + e^(s_p / T)))`` with ``s_g`` and ``s_p`` the cosines of an
    example's features to those by the model that came in and by the client's own at the end of its last round.
    ``mu = 0`` is FedAvg; in a client's first round its past is the global model and the term a constant. Features are
    what the network's head sees; ``model_options=projection=256`` puts a projection before the head. ``frozen`` says
    how the two models that do not train normalise: by the statistics of the ``'batch'``, none of which are kept, or by
    their running ones (``'eval'``).

    Reference: Li et al., Model-Contrastive Federated Learning, CVPR 2021. Its code leaves the term out of the first
    round; WenkeHuang/MarsFL begins with a drawn model, and lets running statistics of the frozen models drift.
    """

    def contrast(ctx: Context, variables: Variables, batch: Batch, aux: Aux) -> Array:
        past = tree.select(ctx.row['known'], ctx.row['model'], ctx.variables)

        def alike(model: Variables) -> Array:
            features = ctx.apply(model, batch.x, batch.mask, frozen == 'batch').features
            return cosine(tree.flat_rows(aux.features), jax.lax.stop_gradient(tree.flat_rows(features)))

        terms = jax.nn.softplus((alike(past) - alike(ctx.variables)) / temperature)
        return mu * masked_mean(terms, batch.mask)

    return [
        Method(
            'moon',
            idle=zero_strength(mu, 'mu', first_round='in the first round clients have no past'),
            init=_init,
            loss=plus(contrast),
            report=_report,
        )
    ]


def _init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
    return None, {'model': variables, 'known': jnp.array(False)}


def _report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
    return {'model': after, 'known': jnp.array(True)}, {}
