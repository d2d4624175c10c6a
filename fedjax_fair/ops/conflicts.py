"""Conflicting gradients, resolved among coefficients: vectors appear only as their inner products."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array


def project_conflicts(overlap: Array, order: Array, present: Array, keep: Array) -> Array:
    """``A[C, C]``: row ``i`` are the coefficients of vector ``i`` without its conflicts with the others.

    For every ``i`` that is not to ``keep`` its direction, and every other present ``j`` in ``order``: where
    ``<g_j, h_i> < 0``, ``h_i`` loses its component along the original ``g_j``. ``overlap`` are the inner products.

    >>> overlap = jnp.array([[1.0, -1.0], [-1.0, 2.0]])
    >>> everyone = jnp.ones(2, bool)
    >>> project_conflicts(overlap, jnp.arange(2), everyone, ~everyone).tolist()
    [[1.0, 0.5], [1.0, 1.0]]
    """
    count = overlap.shape[0]

    def visit(rows: Array, j: Array) -> tuple[Array, None]:
        dots = rows @ overlap[j]
        hit = (dots < 0) & present & present[j] & ~keep & (jnp.arange(count) != j)
        return rows.at[:, j].add(-jnp.where(hit, dots / jnp.maximum(overlap[j, j], 1e-30), 0)), None

    return jax.lax.scan(visit, jnp.eye(count, dtype=overlap.dtype), order)[0]


def leave_out(coefficients: Array, overlap: Array, group: Array) -> Array:
    """Remove the component along the sum of those of ``group`` that conflict with ``coefficients[C]``, if it conflicts.

    >>> leave_out(jnp.array([1.0, 0.0]), jnp.array([[1.0, -1.0], [-1.0, 2.0]]), jnp.ones(2, bool)).tolist()
    [1.0, 0.5]
    """
    against = (group & (overlap @ coefficients < 0)).astype(overlap.dtype)
    dot = coefficients @ overlap @ against
    length = jnp.maximum(against @ overlap @ against, 1e-30)
    return coefficients - jnp.where(dot < 0, dot / length, 0) * against
