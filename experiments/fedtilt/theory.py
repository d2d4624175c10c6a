"""The theorems of FedTilt in numbers, on a convex problem of three parameters: a client of the first toy.

The paper assumes losses whose curvature lies between two positive numbers. Logistic regression has none from below, so
``beta / 2 |v|^2`` is added to every loss. Then ``R(tau, lam; v)`` is ``beta``-strongly convex for positive tilts, and
its curvature is at most ``beta + r^2 / 4 + (tau + lam) r^2`` with ``r`` the largest norm of an input: a tilt adds
itself times a covariance of gradients, from which the common ``beta v`` drops out. So the constants of Lemma 6 are
known.

Reference: Zhang et al., arXiv 2503.13537, section III-E and appendix E.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Array
from fedjax_fair.data import make_scenario
from fedjax_fair.ops import two_level_tilted_loss

BETA, MU = 0.1, 1.0
NEWTON = 50  # steps to a minimiser
ROUNDS = 20_000


class Problem(NamedTuple):
    """``L(v, w) = R(tau, lam; v) + mu / 2 |v - w|^2`` with its bounds of curvature in ``v``."""

    objective: Callable[[Array, Array], Array]
    low: Array
    high: Array

    def best(self, w: Array) -> Array:
        """The ``v`` that minimises it, by damped Newton steps."""

        def step(_, v: Array) -> Array:
            grad, hessian = jax.grad(self.objective)(v, w), jax.hessian(self.objective)(v, w)
            move = jnp.linalg.solve(hessian, grad)
            sizes = 0.5 ** jnp.arange(30.0)
            tried = jax.vmap(lambda size: self.objective(v - size * move, w))(sizes)
            return v - sizes[jnp.argmin(tried)] * move

        return jax.lax.fori_loop(0, NEWTON, step, jnp.zeros_like(w))

    def descent(self, v: Array, ws: Array) -> Array:
        """``[T + 1, D]``: gradient steps of length ``1 / high``, step t on ``L(., ws[t])``."""

        def step(v: Array, w: Array) -> tuple[Array, Array]:
            new = v - jax.grad(self.objective)(v, w) / self.high
            return new, new

        return jnp.concatenate([v[None], jax.lax.scan(step, v, ws)[1]])


class Path(NamedTuple):
    """``v^t`` and ``w^t`` over rounds, and ``v*``."""

    vs: Array
    ws: Array
    best: Array


def problem(tau: Array | float, lam: Array | float, beta: float = BETA, mu: float = MU) -> Problem:
    """The first client of the first toy."""
    data = make_scenario('gaussian_toy_1')
    rows = data.index[0, : data.sizes[0]]
    x = jnp.asarray(np.concatenate([data.x[rows], np.ones((len(rows), 1))], 1), float)
    y = jnp.asarray(data.y[rows])

    def objective(v: Array, w: Array) -> Array:
        losses = jax.nn.softplus(jnp.where(y == 1, -1.0, 1.0) * (x @ v)) + beta / 2 * v @ v
        tilted = two_level_tilted_loss(losses, y, num_classes=2, tau=tau, lam=lam)
        return tilted + mu / 2 * (v - w) @ (v - w)

    largest = jnp.max(jnp.sum(x**2, 1))
    return Problem(objective, jnp.asarray(beta + mu), beta + mu + largest / 4 + (tau + lam) * largest)


def curvature(found: Problem, points: int = 200, reach: float = 3.0) -> tuple[Array, Array]:
    """Smallest and largest curvature of ``L`` at random points (Lemmas 4 and 5)."""
    vs = reach * jax.random.normal(jax.random.key(0), (points, 3), float)
    own = jax.vmap(lambda v: jnp.linalg.eigvalsh(jax.hessian(found.objective)(v, jnp.zeros(3))))(vs)
    return own.min(), own.max()


def descent_ratio(found: Problem, rounds: int = 300) -> Array:
    """Largest ratio of ``L(v^t) - L(v*)`` to ``(1 - low / high)^t`` of what it was (Theorem 2, again as 4)."""
    w = jnp.ones(3)
    path = found.descent(jnp.zeros(3), jnp.broadcast_to(w, (rounds, 3)))
    gap = jax.vmap(found.objective, (0, None))(path, w) - found.objective(found.best(w), w)
    bound = gap[0] * (1 - found.low / found.high) ** jnp.arange(rounds + 1.0)
    return jnp.max(gap / bound)


def moving(found: Problem, rounds: int = ROUNDS) -> Path:
    """A way on which ``|w^t - w*|^2 = 1 / t``, with ``w^t`` on the side of ``w*`` that is away from ``v*``."""
    target = jnp.ones(3)
    best = found.best(target)
    away = (target - best) / jnp.linalg.norm(target - best)
    ws = target[None] + away[None] / jnp.sqrt(jnp.arange(1.0, rounds + 1))[:, None]
    return Path(found.descent(jnp.zeros(3), ws)[1:], ws, best)


def rate_ratios(path: Path) -> Array:
    """``|v^t - v*|^2 / g(t)`` for ``g(t) = 1 / t``; Theorem 1 says that it is bounded."""
    return _square(path.vs - path.best[None]) * jnp.arange(1.0, len(path.vs) + 1)


def printed_ratios(found: Problem, path: Path) -> Array:
    """``L(v^t, w^t) - L(v*, w*)`` by the bound of Theorem 3 (again as 5) as printed, for ``g(t) = 1 / t``.

    D and E are those of its proof, with the largest value over all rounds; ``C1 = mu`` and ``C2 = C3 = 0`` would do for
    ``L(v, .)``, but here C are the B, which only makes the bound larger.
    """
    (vs, ws, best), target, start = path, jnp.ones(3), jnp.zeros(3)
    time = jnp.arange(1.0, len(vs) + 1)

    def tilted(v: Array) -> Array:
        return found.objective(v, v)

    d = tilted(start) - tilted(best) + MU / 2 * (_square(start - target) + _square(ws).max() - _square(best))
    e = MU / 2 * jnp.maximum(0, _square(best - ws[0]) - _square(best - target))
    left = jax.vmap(found.objective)(vs, ws) - found.objective(best, target)
    shrink, other = 1 - found.low / found.high, 1 - MU / found.high
    return left / ((jnp.abs(d) + MU / 2 / time) * shrink**time + e * other**time)


def _square(v: Array) -> Array:
    return jnp.sum(v**2, -1)


@jax.jit
def ratios(tau: Array | float, lam: Array | float) -> dict[str, Array]:
    """Every statement by what it says is measured, as a ratio to its bound: no more than 1 where it holds.

    Theorem 1 has no constant to compare with. Its ratio, of the last value to the largest one, is at most 1 by
    construction and says something only where it is far below.
    """
    found = problem(tau, lam)
    (low, high), path = curvature(found), moving(found)
    rates = rate_ratios(path)
    return {
        'Lemma 5: bound / smallest curvature': found.low / low,
        'Lemma 4: largest curvature / bound': high / found.high,
        'Theorems 2 and 4: gap / bound': descent_ratio(found),
        'Theorem 1: |v - v*|^2 / g(t), last / largest': rates[-1] / rates.max(),
        'Theorems 3 and 5: gap / bound as printed': printed_ratios(found, path).max(),
    }
