"""FedNova: directions are averaged per unit of local progress."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import Method, View
from fedjax_fair.core.types import Array, PyTree
from fedjax_fair.methods.weighting import TINY, log_of
from fedjax_fair.registry import register

STEPS = 'of how many steps an update is made'


def step_mass(steps: Array, momentum: Any) -> Array:
    """How far ``steps`` of SGD with momentum go, in units of one gradient: FedNova's ``||a||_1``.

    ``(tau - rho (1 - rho^tau) / (1 - rho)) / (1 - rho)``; without momentum simply ``tau``.
    """
    rest = 1 - momentum
    return (steps - momentum * (1 - momentum**steps) / rest) / rest


@register.recipe
def fednova() -> list[Method]:
    """FedNova: average the clients' directions per unit of local progress, then step by the mean progress.

    ``W+ = W + (sum_k p_k a_k) sum_k p_k (w_k - W) / a_k`` with ``p_k = n_k / sum n`` and ``a_k`` from
    :func:`step_mass`. Equal numbers of local steps give FedAvg exactly. With normalised weights ``v_k ~ p_k / a_k`` the
    step is ``sum v a^2 / (sum v a)^2`` times their mean, which also holds when other scores join. Batch statistics are
    not directions: they are averaged by ``p_k``.

    Reference: Wang et al., Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization,
    NeurIPS 2020. For optimisers other than SGD ``a_k`` is the number of steps. So it is for momentum that clients
    keep from round to round: it does not start from zero, and in the long run every step is worth the same. Training in
    phases (FedPAC) has no one number of steps, so that pair is refused.
    """

    def mass(view: View) -> Array:
        return jnp.maximum(step_mass(view.steps, view.run.momentum), 1)

    def score(view: View, updates: PyTree) -> Array:
        return jnp.log(view.n) - jnp.log(mass(view))

    def scale(view: View, weights: Array) -> Array:
        reach = jnp.sum(weights * mass(view))
        return jnp.sum(weights * mass(view) ** 2) / jnp.maximum(reach**2, TINY)

    return [
        Method(
            'fednova',
            claims=(STEPS,),
            idle=_idle,
            score=score,
            scale=scale,
            statistics=log_of(lambda view: view.n),
        )
    ]


def _idle(setting: Setting) -> Effect | None:
    return setting.by_examples('all clients make the same number of local steps') if setting.equal_steps else None
