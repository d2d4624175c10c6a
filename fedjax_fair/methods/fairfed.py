"""FairFed: weights follow the accuracies of the clients."""

from __future__ import annotations

from typing import Annotated

import jax.numpy as jnp

from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import Context, Method, View
from fedjax_fair.core.types import Array
from fedjax_fair.methods.weighting import keep_rows, log_of, no_weight_yet
from fedjax_fair.options import NonNegative, search
from fedjax_fair.registry import register


@register.recipe
def fairfed(beta: Annotated[NonNegative, search(0.05, 5, log=True)] = 1.0, fixed: bool = False) -> list[Method]:
    """FairFed: weights move away from clients whose accuracy is far from the federation's.

    ``w_k <- max(w_k - beta (d_k - mean d), 0)``, normalised, from ``w_k = n_k / n``. ``d_k = a_k (1 - n_k / n)`` as
    wnn2000/FFL4MIA computes it, where the sum over clients of the global accuracy is missing: the less accurate gain.
    ``fixed`` is the rule that was meant, ``d_k = |a_k - sum_j n_j a_j / n|``, by which every outlier loses. ``a_k`` is
    the balanced accuracy of the incoming model on the client's training set; ``beta = 0`` is FedAvg. A client that
    takes part for the first time weighs ``n_k / n``, of its cohort.

    Reference: Ezzeldin et al., FairFed: Enabling Group Fairness in Federated Learning, AAAI 2023.
    """

    def moved(view: View) -> Array:
        share, accuracy = view.shares(), view.reports['balanced_accuracy']
        away = jnp.abs(accuracy - jnp.sum(share * accuracy)) if fixed else accuracy * (1 - share)
        new = jnp.maximum(view.rows - beta * (away - view.mean(away)), 0)
        return view.shares(jnp.where(view.rows < 0, share, new))

    def idle(setting: Setting) -> Effect | None:
        return setting.by_examples('beta is 0') if beta == 0 and setting.everybody else None

    return [
        Method(
            'fairfed',
            idle=idle,
            init=no_weight_yet,
            probe=_probe,
            score=log_of(moved),
            commit=keep_rows(moved),
        )
    ]


def _probe(ctx: Context) -> Reported:
    return {'balanced_accuracy': ctx.balanced_accuracy(ctx.variables)}
