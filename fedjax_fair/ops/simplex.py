"""The probability simplex."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array


def project_simplex(v: Array, mask: Array | None = None) -> Array:
    """The nearest point to ``v[C]`` with non-negative entries that sum to 1, and 0 where masked.

    ``max(v - t, 0)`` with ``t`` such that it sums to 1, found by sorting. A point of the simplex stays where it is.

    Reference: Duchi et al., Efficient Projections onto the l1-Ball for Learning in High Dimensions, ICML 2008.

    >>> project_simplex(jnp.array([0.5, 1.5, -1.0])).tolist()
    [0.0, 1.0, 0.0]
    """
    mask = jnp.ones(v.shape, bool) if mask is None else mask
    ordered = jnp.sort(jnp.where(mask, v, -jnp.inf), descending=True)
    real = ordered > -jnp.inf
    count = jnp.arange(1, len(v) + 1, dtype=v.dtype)
    excess = (jnp.cumsum(jnp.where(real, ordered, 0)) - 1) / count
    used = jnp.sum((real & (ordered > excess)).astype(jnp.int32))
    return jnp.where(mask, jnp.maximum(v - excess[jnp.maximum(used - 1, 0)], 0), 0)


def minimize_on_simplex(quadratic: Array, mask: Array | None = None) -> Array:
    """``argmin a^T Q a`` over the probability simplex for a positive semi-definite ``Q[C, C]``; 0 where masked.

    The active-set method, exact up to rounding: minimise over the entries in use, stop at the first that reaches 0 and
    drop it, else take up the entry that would help most. It starts at the smallest diagonal entry.

    >>> minimize_on_simplex(jnp.diag(jnp.array([1.0, 3.0, 3.0]))).round(3).tolist()
    [0.6000000238418579, 0.20000000298023224, 0.20000000298023224]
    """
    size, eps = quadratic.shape[0], jnp.finfo(quadratic.dtype).eps
    mask = jnp.ones(size, bool) if mask is None else mask
    real = mask[:, None] & mask[None, :]
    q = jnp.where(real, quadratic, 0)
    q = q / jnp.maximum(jnp.max(jnp.abs(q)), jnp.finfo(q.dtype).tiny)
    ridge = eps  # so that the entries in use always have one minimum

    def best_on(used: Array) -> Array:
        inside = used[:, None] & used[None, :]
        solved = jnp.linalg.solve(jnp.where(inside, q, 0) + jnp.diag(jnp.where(used, ridge, 1)), used.astype(q.dtype))
        solved = jnp.where(used, solved, 0)
        return solved / jnp.sum(solved)

    def step(state):
        a, used, _, count = state
        goal = best_on(used)
        shrinks = used & (goal < 0)
        reach = jnp.where(shrinks, a / jnp.where(shrinks, a - goal, 1), jnp.inf)
        blocked, leaving = jnp.any(shrinks), jnp.argmin(reach)
        moved = a + jnp.where(blocked, jnp.min(jnp.where(shrinks, reach, 1)), 1) * (goal - a)
        slope = q @ moved + ridge * moved
        gain = jnp.where(mask & ~used, jnp.dot(moved, slope) - slope, -jnp.inf)
        entering = jnp.argmax(gain)
        done = ~blocked & (gain[entering] <= 8 * size * eps * jnp.max(jnp.abs(slope)))
        here = jnp.arange(size)
        used = jnp.where(blocked, used & (here != leaving), jnp.where(done, used, used | (here == entering)))
        return jnp.where(used, jnp.maximum(moved, 0), 0), used, done, count + 1

    first = jnp.argmin(jnp.where(mask, jnp.diagonal(q), jnp.inf))
    start = (jnp.arange(size) == first) & mask
    zero = jnp.zeros((), jnp.int32)
    state = (start.astype(q.dtype), start, ~jnp.any(mask), zero)
    a = jax.lax.while_loop(lambda state: ~state[2] & (state[3] < 10 * size), step, state)[0]
    return a / jnp.where(jnp.sum(a) > 0, jnp.sum(a), 1)
