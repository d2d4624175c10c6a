"""FedAvg, and the mean in which clients count the same."""

from __future__ import annotations

from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import Method
from fedjax_fair.methods.weighting import one_vote_each
from fedjax_fair.registry import register


@register.recipe
def fedavg() -> list[Method]:
    """FedAvg: local training, then the mean of the models weighted by examples.

    ``W+ = W + sum_k (n_k / sum n) (w_k - W)``

    Reference: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017.
    """
    return [Method('fedavg')]


@register.recipe
def uniform() -> list[Method]:
    """Equal weight for every client, whatever its size; has no effect beside another score.

    ``W+ = W + mean_k (w_k - W)``. Beside methods with scores of their own it only removes ``log n``, which none of them
    adds.
    """
    return [Method('uniform', idle=_idle, score=one_vote_each)]


def _idle(setting: Setting) -> Effect | None:
    if setting.weighed:
        return Effect('another method weighs the clients')
    return Effect('all clients have the same number of training examples') if setting.equal_sizes else None
