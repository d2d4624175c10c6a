"""Inner products of client updates."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array, PyTree


def gram(updates: PyTree, mask: Array | None = None) -> Array:
    """``G[i, j] = <u_i, u_j>`` of stacked updates (leaves ``[C, ...]``), zero in masked rows and columns: ``[C, C]``.

    Summed leaf by leaf at the highest precision: updates are never flattened into one matrix. Where parameters are
    spread over devices by their first axis each sums its own and only ``[C, C]`` travels.

    >>> gram({'a': jnp.array([[1.0, 0.0], [1.0, 2.0]]), 'b': jnp.array([1.0, 3.0])}).tolist()
    [[2.0, 4.0], [4.0, 14.0]]
    """

    def of_leaf(leaf: Array) -> Array:
        rows = leaf.reshape(leaf.shape[0], -1)  # several contracted axes at once would make XLA copy them all
        return jax.lax.dot_general(rows, rows, (((1,), (1,)), ((), ())), precision=jax.lax.Precision.HIGHEST)

    total = jax.tree.reduce(jnp.add, jax.tree.map(of_leaf, updates))
    return total if mask is None else jnp.where(mask[:, None] & mask[None, :], total, 0)
