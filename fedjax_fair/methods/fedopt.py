"""Adaptive federated optimisation: the aggregated update is a pseudo-gradient for an optimiser on the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.idle import Effect, Setting
from fedjax_fair.core.method import Method
from fedjax_fair.core.types import Array, PyTree
from fedjax_fair.options import Decay, Positive, Squared, search, search_among
from fedjax_fair.registry import register

ServerRate = Annotated[Positive, search(0.1, 3, log=True)]
Momentum = Annotated[Decay, search_among(0.0, 0.7, 0.9, 0.97)]
AdaptiveRate = Annotated[Positive, search(0.001, 1, log=True)]
Adaptivity = Annotated[Squared, search(1e-5, 0.1, log=True)]


class FedOptState(NamedTuple):
    """First moment and accumulator."""

    mean: PyTree
    second: PyTree


def fedopt(second_moment: Callable[[Array, Array], Array], lr: Any, b1: Any, tau: Any) -> optax.GradientTransformation:
    """``m <- b1 m + (1 - b1) d``; ``v <- second_moment(v, d^2)``; step ``-lr m / (sqrt(v) + tau)``.

    As in the paper there is no bias correction and ``v`` starts at ``tau^2``; optax's own adaptive optimisers correct
    the bias, which is why they are not used here.

    Reference: Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2.
    """

    def init(params: PyTree) -> FedOptState:
        return FedOptState(optax.tree.zeros_like(params), jax.tree.map(lambda p: jnp.full_like(p, tau**2), params))

    def update(grads: PyTree, state: FedOptState, params: PyTree = None) -> tuple[PyTree, FedOptState]:
        mean = jax.tree.map(lambda m, d: b1 * m + (1 - b1) * d, state.mean, grads)
        second = jax.tree.map(lambda v, d: second_moment(v, d * d), state.second, grads)
        moves = jax.tree.map(lambda m, v: -lr * m / (jnp.sqrt(v) + tau), mean, second)
        return moves, FedOptState(mean, second)

    return optax.GradientTransformation(init, update)


@register.recipe('fedavgm', 'server_momentum')
def server_momentum(lr: ServerRate = 1.0, momentum: Momentum = 0.9) -> list[Method]:
    """FedAvgM: ``m <- momentum m + d``, ``W+ = W + lr m``. ``momentum = 0`` and ``lr = 1`` give the plain mean.

    Reference: Hsu et al., Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification,
    2019.
    """
    chain = optax.chain(optax.trace(momentum), optax.scale_by_learning_rate(lr))

    def idle(setting: Setting) -> Effect | None:
        return Effect('momentum is 0 and lr is 1') if momentum == 0 and lr == 1 else None

    return [Method('server_momentum', idle=idle, server_opt=chain)]


@register.recipe('fedadam', 'server_adam')
def server_adam(lr: AdaptiveRate = 0.01, b1: Decay = 0.9, b2: Decay = 0.99, tau: Adaptivity = 1e-3) -> list[Method]:
    """FedAdam: ``v <- b2 v + (1 - b2) d^2``, see :func:`fedopt`. ``tau -> inf`` with ``lr = tau`` is FedAvgM."""
    return [Method('server_adam', server_opt=fedopt(lambda v, sq: b2 * v + (1 - b2) * sq, lr, b1, tau))]


@register.recipe('fedyogi', 'server_yogi')
def server_yogi(lr: AdaptiveRate = 0.01, b1: Decay = 0.9, b2: Decay = 0.99, tau: Adaptivity = 1e-3) -> list[Method]:
    """FedYogi: ``v <- v - (1 - b2) d^2 sign(v - d^2)``, see :func:`fedopt`."""
    return [Method('server_yogi', server_opt=fedopt(lambda v, sq: v - (1 - b2) * sq * jnp.sign(v - sq), lr, b1, tau))]


@register.recipe('fedadagrad', 'server_adagrad')
def server_adagrad(lr: AdaptiveRate = 0.01, b1: Decay = 0.0, tau: Adaptivity = 1e-3) -> list[Method]:
    """FedAdagrad: ``v <- v + d^2``, see :func:`fedopt`."""
    return [Method('server_adagrad', server_opt=fedopt(lambda v, sq: v + sq, lr, b1, tau))]
