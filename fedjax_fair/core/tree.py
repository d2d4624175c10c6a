"""What the engine does to pytrees and optax.tree does not already do."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.platform import on_cpu
from fedjax_fair.core.types import Array, PyTree, Variables


def per_row(vector: Array, leaf: Array) -> Array:
    """``vector[C]`` shaped to broadcast against ``leaf[C, ...]``."""
    return vector.reshape(vector.shape + (1,) * (leaf.ndim - vector.ndim))


def flat_rows(leaf: Array) -> Array:
    """``[C, ...]`` as a matrix ``[C, D]``."""
    return leaf.reshape(leaf.shape[0], -1)


def strong(tree: PyTree) -> PyTree:
    """The tree as arrays without JAX's weak types: they would be lost in a checkpoint, and the round traced again."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).astype(jnp.asarray(leaf).dtype), tree)


def select(condition: Array, yes: PyTree, no: PyTree) -> PyTree:
    """``yes`` where the condition (a scalar, or one flag per row) holds, else ``no``, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(per_row(condition, a), a, b), yes, no)


def keep_rows(mask: Array, tree: PyTree) -> PyTree:
    """Zero the rows of ``tree[C, ...]`` whose mask is False, whatever they hold (even NaN)."""
    return select(mask, tree, jax.tree.map(jnp.zeros_like, tree))


def weighted_sum(weights: Array, tree: PyTree) -> PyTree:
    """``sum_c weights[c] * tree[c]``, one contraction per leaf."""
    return jax.tree.map(lambda leaf: jnp.tensordot(weights.astype(leaf.dtype), leaf, axes=1, precision='highest'), tree)


def inner(a: PyTree, b: PyTree) -> Array:
    """``<a, b>`` over all leaves.

    >>> model = {'kernel': jnp.array([[3.0, 0.0], [0.0, 4.0]]), 'bias': jnp.array([1.0, 2.0])}
    >>> float(inner(model, model))
    30.0
    """
    return jax.tree.reduce(jnp.add, jax.tree.map(_inner, a, b))


def _inner(a: Array, b: Array) -> Array:
    """Rows are summed by a product with ones on CPU: XLA would cut the sum into windows, ten times slower in a loop."""
    product = a * b
    by_rows = product.ndim > 1 and on_cpu()
    return jnp.sum(product @ jnp.ones(product.shape[-1], product.dtype) if by_rows else product)


def norm(tree: PyTree) -> Array:
    """The Euclidean length over all leaves."""
    return jnp.sqrt(inner(tree, tree))


def all_finite(tree: PyTree) -> Array:
    """True if every floating-point entry is finite."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in leaves])) if leaves else jnp.array(True)


def take_rows(tree: PyTree, ids: Array) -> PyTree:
    """Rows ``ids`` of a table; an id past the end reads the last row."""
    return jax.tree.map(lambda leaf: jnp.take(leaf, ids, axis=0, mode='clip'), tree)


def put_rows(tree: PyTree, ids: Array, rows: PyTree) -> PyTree:
    """Write rows back; an id past the end writes nothing."""
    return jax.tree.map(lambda leaf, row: leaf.at[ids].set(row, mode='drop'), tree, rows)


def repeat_row(row: PyTree, count: int) -> PyTree:
    """A table of ``count`` equal rows."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(jnp.asarray(leaf), (count, *jnp.shape(leaf))), row)


def num_bytes(tree: PyTree) -> int:
    """Bytes of all leaves; works on shapes alone."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def replaced(tree: dict, some: dict) -> dict:
    """Nested dicts with those leaves exchanged that ``some`` has."""
    return {
        k: v if k not in some else replaced(v, some[k]) if isinstance(v, dict) else some[k] for k, v in tree.items()
    }


def paths(tree: PyTree) -> PyTree:
    """The tree with every leaf replaced by its path, such as ``'Dense_0/kernel'``."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: jax.tree_util.keystr(path, simple=True, separator='/'), tree
    )


def norm_paths(variables: Variables) -> set[str]:
    """Paths of all that belongs to batch normalisation: statistics, and the parameters of a module that keeps some.

    >>> norm = {'scale': 1.0}, {'mean': 0.0}
    >>> model = {'params': {'conv': {'kernel': 2.0}, 'norm': norm[0]}, 'batch_stats': {'norm': norm[1]}}
    >>> sorted(norm_paths(model))
    ['batch_stats/norm/mean', 'params/norm/scale']
    """
    statistics = jax.tree.leaves(paths({'batch_stats': variables['batch_stats']}))
    owners = {_module(path) for path in statistics}
    return {*statistics, *(p for p in jax.tree.leaves(paths({'params': variables['params']})) if _module(p) in owners)}


def _module(path: str) -> str:
    """The module a leaf belongs to: its path without the collection and its own name."""
    return path.partition('/')[2].rpartition('/')[0]


def pick(tree: PyTree, chosen: set[str]) -> dict[str, Array]:
    """The leaves at some paths, by path."""
    names, leaves = jax.tree.leaves(paths(tree)), jax.tree.leaves(tree)
    return {name: leaf for name, leaf in zip(names, leaves, strict=True) if name in chosen}


def put(tree: PyTree, leaves: dict[str, Array]) -> PyTree:
    """The tree with the leaves at some paths exchanged."""
    return jax.tree.map(lambda name, leaf: leaves.get(name, leaf), paths(tree), tree)
