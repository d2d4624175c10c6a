"""Methods that decide how much each client counts: log-scores, and the step sizes that go with them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.types import Array, Method

TINY = 1e-10
NEVER = -1.0  # the remembered weight of a client that has not taken part yet


def fedavg() -> list[Method]:
    """FedAvg: local training, then the mean of the models weighted by examples.

    ``W+ = W + sum_k (n_k / sum n) (w_k - W)``

    Reference: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017.
    """
    return [Method('fedavg')]


def uniform() -> list[Method]:
    """Every client counts the same, whatever its size; with other scores it changes nothing but dropping ``log n``."""
    return [Method('uniform', score=one_vote_each)]


def one_vote_each(view, updates) -> Array:
    """The log-score under which clients count the same."""
    return jnp.zeros_like(view.n)


def plain_mean(view, weights) -> Array:
    """Weights of batch statistics under which clients count the same."""
    return view.shares(jnp.ones_like(view.n))


def probe_loss(ctx) -> dict[str, Array]:
    """The mean training loss of the incoming model."""
    return {'loss': ctx.loss(ctx.variables)}


def remember_nothing(variables, run):
    """``init`` of a method whose row is the client's last weight."""
    return None, jnp.asarray(NEVER, jnp.zeros(0).dtype)


def qfedavg(q: float = 1.0) -> list[Method]:
    """q-FedAvg with normalised weights: clients with a larger loss count more.

    ``weight_k = F_k^q / sum_j F_j^q`` with ``F_k`` the mean training loss of the incoming model. ``q = 0`` is the
    uniform mean, ``q -> inf`` follows the worst client alone. The number of examples does not enter.

    Reference: Li et al., Fair Resource Allocation in Federated Learning, ICLR 2020, without the Lipschitz term of its
    step size, as wnn2000/FFL4MIA runs it. :func:`qffl` is the published form.
    """

    def score(view, updates):
        return q * jnp.log(view.reports['loss'] + TINY)

    return [Method('qfedavg', probe=probe_loss, score=score)]


def qffl(q: float = 0.1) -> list[Method]:
    """q-FFL's server step with the Lipschitz estimate ``L = 1 / lr``.

    ``D_k = L (W - w_k)``, ``h_k = q F_k^(q-1) ||D_k||^2 + L F_k^q``, ``W+ = W - sum_k F_k^q D_k / sum_k h_k``.
    It is the :func:`qfedavg` mean times ``sum F^q / sum (F^q + q F^(q-1) L ||w_k - W||^2)``, a factor that shrinks as
    ``q`` and the length of local training grow; ``q = 0`` is the uniform mean.

    Reference: Li et al., Fair Resource Allocation in Federated Learning, ICLR 2020. Norms run over trainable
    parameters; batch statistics are averaged plainly.
    """

    def report(ctx, scratch, before, after):
        change = optax.tree.sub(after['params'], before['params'])
        return ctx.row, {'update_sq_norm': optax.tree.norm(change, squared=True)}

    def score(view, updates):
        return q * jnp.log(view.reports['loss'] + TINY)

    def finish(view, updates, weights, update):
        loss = view.reports['loss'] + TINY
        logs = jnp.where(view.mask, q * jnp.log(loss), -jnp.inf)
        powers = jnp.exp(logs - jnp.maximum(jnp.max(logs), jnp.finfo(logs.dtype).min))
        curvature = q * powers / loss * view.reports['update_sq_norm'] / view.run.lr(view.round)
        total = jnp.sum(powers)
        return optax.tree.scale(total / jnp.maximum(total + jnp.sum(curvature), TINY), update)

    return [Method('qffl', probe=probe_loss, report=report, score=score, finish=finish, statistics=plain_mean)]


def step_mass(steps: Array, momentum) -> Array:
    """How far ``steps`` of SGD with momentum go, in units of one gradient: FedNova's ``||a||_1``.

    ``(tau - rho (1 - rho^tau) / (1 - rho)) / (1 - rho)``; without momentum simply ``tau``.
    """
    rest = 1 - momentum
    return (steps - momentum * (1 - momentum**steps) / rest) / rest


def fednova() -> list[Method]:
    """FedNova: average the clients' directions per unit of local progress, then step by the mean progress.

    ``W+ = W + (sum_k p_k a_k) sum_k p_k (w_k - W) / a_k`` with ``p_k = n_k / sum n`` and ``a_k`` from
    :func:`step_mass`. Equal numbers of local steps give FedAvg exactly. With normalised weights ``v_k ~ p_k / a_k`` the
    step is ``sum v a^2 / (sum v a)^2`` times their mean, which also holds when other scores join. Batch statistics are
    no directions: they are averaged by ``p_k ~ v_k a_k``.

    Reference: Wang et al., Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization,
    NeurIPS 2020. For optimisers other than SGD ``a_k`` is the number of steps, and so it is for momentum that clients
    keep from round to round: it does not start from rest, and in the long run a step is worth as much as any other.
    """

    def mass(view):
        return jnp.maximum(step_mass(view.steps, view.run.momentum), 1)

    def score(view, updates):
        return jnp.log(view.n) - jnp.log(mass(view))

    def finish(view, updates, weights, update):
        reach = jnp.sum(weights * mass(view))
        factor = jnp.sum(weights * mass(view) ** 2) / jnp.maximum(reach**2, TINY)
        return jax.tree.map(lambda leaf: factor.astype(leaf.dtype) * leaf, update)

    def statistics(view, weights):
        return view.shares(weights * mass(view))

    return [Method('fednova', score=score, finish=finish, statistics=statistics)]
