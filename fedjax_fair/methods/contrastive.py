"""MOON: features that stay near the global model's and away from those of the client's own past."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core import tree
from fedjax_fair.core.spec import masked_mean
from fedjax_fair.core.types import Array, Method
from fedjax_fair.methods.options import one_of


def cosine(a: Array, b: Array) -> Array:
    """``<a, b> / (||a|| ||b||)`` of the rows of ``[B, F]``; 0, without a gradient, where one of them is zero.

    >>> cosine(jnp.array([[3.0, 4.0], [0.0, 0.0]]), jnp.array([[4.0, 3.0], [1.0, 0.0]])).round(2).tolist()
    [0.9599999785423279, 0.0]
    """
    square = jnp.sum(a * a, -1) * jnp.sum(b * b, -1)
    real = square > 0
    return jnp.where(real, jnp.sum(a * b, -1) / jnp.sqrt(jnp.where(real, square, 1)), 0)


def moon(mu: float = 1.0, temperature: float = 0.5, frozen: str = 'batch') -> list[Method]:
    """MOON: a contrastive term draws features towards those of the global model, away from the client's last one.

    ``loss + mu mean_b -log(e^(s_g / T) / (e^(s_g / T) + e^(s_p / T)))`` with ``s_g`` and ``s_p`` the cosines of an
    example's features to those by the model that came in and by the client's own at the end of its last round.
    ``mu = 0`` is FedAvg; in a client's first round its past is the global model and the term a constant. Features are
    what the network's head sees; ``--model_options=projection=256`` puts a projection before the head. ``frozen`` says
    how the two models that do not train normalise: by the statistics of the ``'batch'``, none of which are kept, or by
    their running ones (``'eval'``).

    Reference: Li et al., Model-Contrastive Federated Learning, CVPR 2021. Its code leaves the term out of the first
    round; WenkeHuang/MarsFL begins with a drawn model, and lets running statistics of the frozen models drift.
    """
    one_of('moon', frozen=(frozen, ('batch', 'eval')))

    def loss(inner):
        def contrasted(ctx, variables, batch):
            value, aux = inner(ctx, variables, batch)
            past = tree.select(ctx.row['known'], ctx.row['model'], ctx.variables)

            def alike(model):
                features = ctx.apply(model, batch.x, batch.mask, frozen == 'batch').features
                return cosine(_flat(aux.features), jax.lax.stop_gradient(_flat(features)))

            terms = jax.nn.softplus((alike(past) - alike(ctx.variables)) / temperature)
            return value + mu * masked_mean(terms, batch.mask), aux

        return contrasted

    return [
        Method(
            'moon',
            init=lambda variables, run: (None, {'model': variables, 'known': jnp.array(False)}),
            loss=loss,
            report=lambda ctx, scratch, before, after: ({'model': after, 'known': jnp.array(True)}, {}),
        )
    ]


def _flat(features: Array) -> Array:
    return features.reshape(features.shape[0], -1)
