"""Pooling. On CPU the gradient of a max-pool is selects and concatenations, on accelerators XLA's own."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from fedjax_fair.core.platform import on_cpu
from fedjax_fair.core.types import Array


@jax.custom_jvp
def larger(a: Array, b: Array) -> Array:
    """``maximum(a, b)`` whose gradient goes to one of the two, to ``a`` when they are equal.

    The gradient of ``jnp.maximum`` is shared between equal values, which takes divisions and twice the memory traffic.
    """
    return jnp.maximum(a, b)


@larger.defjvp
def _larger_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    return jnp.maximum(*primals), jnp.where(primals[0] >= primals[1], *tangents)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def larger_of_pairs(x: Array, axis: int) -> Array:
    """:func:`larger` of the two entries of an axis, which is dropped; its backward pass is one sweep over memory."""
    return _pairs_forward(x, axis)[0]


def _pairs_forward(x: Array, axis: int) -> tuple[Array, Array]:
    a, b = (lax.index_in_dim(x, i, axis, keepdims=False) for i in (0, 1))
    return jnp.maximum(a, b), a >= b


def _pairs_backward(axis: int, first: Array, slope: Array) -> tuple[Array]:
    first, slope = jnp.expand_dims(first, axis), jnp.expand_dims(slope, axis)
    shape = (*slope.shape[:axis], 2, *slope.shape[axis + 1 :])
    chosen = first == (lax.broadcasted_iota(jnp.int32, shape, axis) == 0)
    return (jnp.where(chosen, jnp.broadcast_to(slope, shape), jnp.zeros((), slope.dtype)),)


larger_of_pairs.defvjp(_pairs_forward, _pairs_backward)


def max_pool(x: Array, size: int = 2) -> Array:
    """Maximum over ``size x size`` windows that do not overlap; a last odd row or column is cut.

    On CPU rows and then columns that share a window are split apart, so that the backward pass is a concatenation. Of
    tied maxima one has the gradient: the first column's, and there the first row's. On accelerators it is XLA's own
    operation, and of tied maxima the first row's has it.
    """
    if not on_cpu():
        window = (1, size, size, 1)
        return lax.reduce_window(x, -jnp.inf, lax.max, window, window, 'VALID')
    batch, rows, cols = x.shape[0], x.shape[1] // size, x.shape[2] // size
    x = x[:, : rows * size, : cols * size].reshape(batch, rows, -1)
    x = functools.reduce(larger, jnp.split(x, size, axis=-1)).reshape(batch, rows, cols, -1)
    return functools.reduce(larger, jnp.split(x, size, axis=-1))


def max_pool_stem(x: Array) -> Array:
    """Maximum over 3x3 windows two apart, padded by one: the pooling after the first layer of an ImageNet network."""
    for axis in (1, 2):
        widths = [(0, 0, 0)] * x.ndim
        widths[axis] = (1, 1, 0)
        size = (x.shape[axis] - 1) // 2 + 1
        padded = lax.pad(x, jnp.full((), -jnp.inf, x.dtype), widths)
        slices = [lax.slice_in_dim(padded, i, i + 2 * size - 1, 2, axis) for i in range(3)]
        x = functools.reduce(larger, slices)
    return x


def average_pool(x: Array) -> Array:
    """Mean over 2x2 windows that do not overlap; a last odd row or column is cut."""
    batch, rows, cols, channels = x.shape[0], x.shape[1] // 2, x.shape[2] // 2, x.shape[3]
    return x[:, : 2 * rows, : 2 * cols].reshape(batch, rows, 2, cols, 2, channels).mean((2, 4))


def global_average_pool(x: Array) -> Array:
    """``[B, H, W, C] -> [B, C]``."""
    return x.mean((1, 2))
