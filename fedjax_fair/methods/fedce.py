"""FedCE: weights follow what each client contributes."""

from __future__ import annotations

import operator
from typing import Literal

import jax
import jax.numpy as jnp

from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.method import Context, Method, View
from fedjax_fair.core.types import Array, PyTree, Run, Variables
from fedjax_fair.methods.weighting import keep_on_server, log_of
from fedjax_fair.methods.wrappers import keep_trained
from fedjax_fair.ops import gram
from fedjax_fair.registry import register

COMBINED = {'times': operator.mul, 'plus': operator.add}


@register.recipe
def fedce(combine: Literal['times', 'plus'] = 'times') -> list[Method]:
    """FedCE: clients count by how much they add: by direction, and by what the model lacks without them.

    With ``c`` the weights so far: ``e_k = 1 - mean_t A_k((W - c_k w_k) / (1 - c_k))``, the error of the model less the
    client's last one, and ``r_k = 1 - mean_t cos(D_k, sum_j c_j D_j - c_k D_k)`` over the updates ``D``. Both are
    normalised; ``new = r e`` (``combine='times'``) or ``r + e`` (``'plus'``), normalised; ``c`` is the mean of ``new``
    over rounds, from ``1 / K``. ``A`` is balanced accuracy on the client's training set; in its first round a client's
    error is 1. Means are over the rounds a client took part in, shares over the cohort. Where FedHEAL masks updates,
    ``D`` are the masked ones.

    Reference: Jiang et al., Fair Federated Medical Image Segmentation via Client Contribution Estimation, CVPR 2023,
    which measures Dice on a validation set; training set and balanced accuracy are wnn2000/FFL4MIA's.
    """

    def contribution(view: View) -> dict[str, Array]:
        """The entries of this cohort after the round."""
        own = view.gather(view.server)
        rounds = own['rounds'] + 1
        accuracy = jnp.where(own['rounds'] > 0, view.reports['balanced_accuracy'], 0)
        sums = {'accuracy': own['accuracy'] + accuracy, 'cosine': own['cosine'] + view.reports['cosine']}
        error, apart = (view.shares(1 - sums[name] / rounds) for name in ('accuracy', 'cosine'))
        new = own['new'] + view.shares(COMBINED[combine](apart, error))
        return {**sums, 'new': new, 'rounds': rounds, 'c': new / rounds}

    return [
        Method(
            'fedce',
            init=_init,
            probe=_probe,
            report=keep_trained,
            revise=_revise,
            score=log_of(lambda view: contribution(view)['c']),
            commit=keep_on_server(lambda view: view.scatter(view.server, contribution(view))),
        )
    ]


def _init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
    zero = jnp.zeros(run.num_clients)
    sums = {name: zero for name in ('new', 'accuracy', 'cosine', 'rounds')}
    return {'c': zero + 1 / run.num_clients, **sums}, variables


def _probe(ctx: Context) -> Reported:
    """The balanced accuracy of the model without this client's last one."""
    c = ctx.server['c'][ctx.id]
    without = jax.tree.map(lambda w, own: (w - c * own) / jnp.maximum(1 - c, 1e-6), ctx.variables, ctx.row)
    return {'balanced_accuracy': ctx.balanced_accuracy(without)}


def _revise(view: View, updates: PyTree) -> tuple[PyTree, Reported]:
    """Each update's cosine to the weighted sum of the others."""
    c = jnp.where(view.mask, view.gather(view.server['c']), 0)
    overlap = gram(updates, view.mask)
    rest = c @ overlap - c * jnp.diagonal(overlap)  # <D_k, sum_j c_j D_j - c_k D_k>
    square = c @ overlap @ c - 2 * c * (c @ overlap) + c**2 * jnp.diagonal(overlap)
    cosine = rest / jnp.maximum(jnp.sqrt(jnp.diagonal(overlap) * jnp.maximum(square, 0)), 1e-12)
    return updates, {'cosine': cosine}
