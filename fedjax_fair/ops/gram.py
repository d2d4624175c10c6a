"""Inner products of client updates."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array, PyTree

SLAB = 2**20  # entries of all clients that are multiplied at once: what a cache holds


def gram(updates: PyTree, mask: Array | None = None) -> Array:
    """``G[i, j] = <u_i, u_j>`` of stacked updates (leaves ``[C, ...]``), zero in masked rows and columns: ``[C, C]``.

    Summed leaf by leaf, and slab by slab within a leaf, at the highest precision: updates are never flattened into one
    matrix. Slabs are cut across the parameters' first axis. Where clients are spread over devices, one slab at a time
    travels; where parameters are, by their first axis, each device sums its own and only ``[C, C]`` travels.

    >>> gram({'a': jnp.array([[1.0, 0.0], [1.0, 2.0]]), 'b': jnp.array([1.0, 3.0])}).tolist()
    [[2.0, 4.0], [4.0, 14.0]]
    """
    total = jax.tree.reduce(jnp.add, jax.tree.map(_of_leaf, updates))
    return total if mask is None else jnp.where(mask[:, None] & mask[None, :], total, 0)


def _of_leaf(leaf: Array) -> Array:
    clients = leaf.shape[0]
    first = [n for n in leaf.shape[1:] if n > 1][:-1][:1]  # axes of length 1 would make XLA copy the leaf
    stack = leaf.reshape(clients, *first, -1)
    axis, rest = stack.ndim - 1, stack.shape[-1]
    width = _slab_width(rest, SLAB // math.prod((clients, *first)))

    def add(number: Array, total: Array) -> Array:
        slab = jax.lax.dynamic_slice_in_dim(stack, number * width, width, axis)
        return total + _products(slab.reshape(clients, -1))

    whole = rest // width
    if width == rest:
        return _products(stack.reshape(clients, -1))
    total = jax.lax.fori_loop(0, whole, add, jnp.zeros((clients, clients), _wide(leaf)))
    return total + _products(stack[..., whole * width :].reshape(clients, -1)) if whole * width < rest else total


def _products(rows: Array) -> Array:
    contract = (((1,), (1,)), ((), ()))
    return jax.lax.dot_general(
        rows, rows, contract, precision=jax.lax.Precision.HIGHEST, preferred_element_type=_wide(rows)
    )


def _wide(rows: Array) -> jnp.dtype:
    """Sums of half-precision products are kept in single precision."""
    return rows.dtype if rows.dtype.itemsize >= 4 else jnp.dtype(jnp.float32)


def _slab_width(rest: int, most: int) -> int:
    """At most ``most`` of ``rest``: a divisor where a large one exists, so that nothing is left over."""
    most = max(1, min(rest, most))
    divisor = next(d for d in range(most, 0, -1) if rest % d == 0)
    return divisor if 4 * divisor >= most else most
