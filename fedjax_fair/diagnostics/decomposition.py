"""Where the loss after a round comes from: local training, the clients' differences, or aggregation.

Reference: Zeng et al., Tackling Data Heterogeneity in Federated Learning via Loss Decomposition, MICCAI 2024, Eq. 2.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core import tree
from fedjax_fair.core.hooks import Reported
from fedjax_fair.core.method import Context, Method
from fedjax_fair.core.types import Algorithm, Array, Cohort, FedState, PyTree, Run, Variables
from fedjax_fair.ops.products import precise
from fedjax_fair.registry import register

LOCAL_MODELS = 'keep_local_models'


class Decomposition(NamedTuple):
    """Signed terms whose sum is the loss of the global model; the paper plots the last two as absolute values."""

    local: Array
    shift: Array
    aggregation: Array

    @property
    def total(self) -> Array:
        return self.local + self.shift + self.aggregation

    @property
    def shift_loss(self) -> Array:
        return jnp.abs(self.shift)

    @property
    def aggregation_loss(self) -> Array:
        return jnp.abs(self.aggregation)


@precise
def decompose(losses: Array, global_losses: Array, shares: Array) -> Decomposition:
    """From ``losses[j, i]`` of model ``i`` on client ``j``'s data, ``global_losses[j]`` and shares that sum to 1.

    ``local = sum_i p_i A_ii`` is what local training reached, ``shift = p'Ap - local`` what its models lose on the
    others' data, ``aggregation = sum_j p_j b_j - p'Ap`` what the global model loses beside them (or gains).

    >>> [float(term) for term in decompose(jnp.array([[1.0, 3.0], [2.0, 0.0]]), jnp.ones(2), jnp.array([0.5, 0.5]))]
    [0.5, 1.0, -0.5]
    """
    local = jnp.sum(shares * jnp.diagonal(losses))
    spread = shares @ losses @ shares
    return Decomposition(local, spread - local, shares @ global_losses - spread)


@register.diagnostic
def keep_local_models() -> list[Method]:
    """Keeps every client's last trained model as a row, for :func:`loss_decomposition`; training is not changed."""
    return [
        Method(
            LOCAL_MODELS,
            init=_init,
            report=_report,
        )
    ]


def _init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
    return None, variables


def _report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
    return after, {}


def loss_decomposition(algorithm: Algorithm, state: FedState, cohort: Cohort, chunk: int | None = 1) -> Decomposition:
    """The terms after a round of this cohort, by an algorithm built with :func:`keep_local_models` among its methods.

    All ``m`` local models and the new global one are scored on all ``m`` training sets, plain losses in evaluation
    mode: ``m^2 + m`` passes as one program, clients spread as in training and ``chunk`` models at a time on each.
    """
    if LOCAL_MODELS not in state.clients:
        raise ValueError('loss_decomposition needs keep_local_models() among the methods of the algorithm')
    models = tree.take_rows(state.clients[LOCAL_MODELS], cohort.ids)

    def on_own_data(ctx: Context, models: PyTree) -> tuple[Array, Array]:
        return jax.lax.map(ctx.loss, models, batch_size=chunk), ctx.loss(ctx.variables)

    measured = algorithm.measure(state, cohort, on_own_data, models)
    losses, global_losses = tree.take_rows(measured, cohort.ids)
    n = jnp.where(cohort.mask, jnp.sum(cohort.ex_mask.astype(losses.dtype), 1), 0)
    shares = n / jnp.maximum(jnp.sum(n), 1)
    present = shares > 0
    losses = jnp.where(present[:, None] & present[None, :], losses, 0)
    return decompose(losses, jnp.where(present, global_losses, 0), shares)
