"""3x3 convolution by Winograd's minimal algorithms, in plain JAX: fewer products, the rest are three small matrices.

A 1-D algorithm computes ``m`` outputs from ``n = m + 2`` inputs with ``a`` products: ``y = A^T [(G w) * (B^T x)]``.
Nested over rows and columns it takes ``a^2`` products for ``m^2`` outputs, where the definition takes ``9 m^2``; its
matrices are the Kronecker squares of the 1-D ones. Tiles are gathered so that their ``n^2`` positions come first. Then
every step is a matmul, over all tiles of all images at once:

    forward:   V = B^T x,  U = G w,  y = A^T (V U)             with one product V[t] U[t] per tap t
    backward:  Z = A dy,   dx = B (Z U^T),   dw = G^T (V^T Z)

which is what a CPU does best, in few operations to compile.

References: S. Winograd, Arithmetic Complexity of Computations, SIAM 1980; A. Lavin and S. Gray, Fast Algorithms for
Convolutional Neural Networks, CVPR 2016.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedjax_fair.core.types import Array
from fedjax_fair.models.linear import apart
from fedjax_fair.models.pooling import larger_of_pairs

Pads = tuple[tuple[int, int], tuple[int, int]]
Matrix = Sequence[Sequence[float]]


class Algorithm(NamedTuple):
    """``y = output @ ((kernel @ w) * (input @ x))``: ``len(output)`` outputs, the step from tile to tile."""

    input: Matrix
    kernel: Matrix
    output: Matrix


# Toom-Cook with the points 0, 1, -1, infinity: 16 products for 4 outputs instead of 36.
F2 = Algorithm(
    input=((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1)),
    kernel=((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    output=((1, 1, 1, 0), (0, 1, -1, 1)),
)
# Points 0, 1, -1, 2, -2, infinity: 36 products for 16 outputs instead of 144.
F4 = Algorithm(
    input=(
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
    kernel=(
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
    output=((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
)


# --- tiles -----------------------------------------------------------------------------------------------------------


def _tiles(algorithm: Algorithm, x: Array, pads: Pads) -> tuple[tuple[int, int], tuple[int, int]]:
    """Size of the output, and how many tiles cover it."""
    rows, cols = (n + sum(p) - 2 for n, p in zip(x.shape[1:3], pads, strict=True))
    m = len(algorithm.output)
    return (rows, cols), (-(-rows // m), -(-cols // m))


def _part(images: Array, m: int) -> Array:
    """Images cut into tiles of ``m`` pixels that do not overlap, ``[m * m, B, h, w, C]``: one transposition."""
    batch, rows, cols, channels = images.shape
    pieces = images.reshape(batch, rows // m, m, cols // m, m, channels).transpose(2, 4, 0, 1, 3, 5)
    return pieces.reshape(m * m, *pieces.shape[2:])


def _place(squares: Array) -> Array:
    """The inverse of :func:`_part`."""
    m = round(squares.shape[0] ** 0.5)
    _, batch, rows, cols, channels = squares.shape
    y = squares.reshape(m, m, batch, rows, cols, channels).transpose(2, 3, 0, 4, 1, 5)
    return y.reshape(batch, rows * m, cols * m, channels)


@jax.custom_vjp
def _join(squares: Array) -> Array:
    """:func:`_place` in a call of its own, as is its gradient."""
    return apart(_place, squares)


def _join_backward(shape: tuple[int, ...], images: Array) -> tuple[Array]:
    return (apart(functools.partial(_part, m=round(shape[0] ** 0.5)), images),)


_join.defvjp(lambda squares: (_join(squares), squares.shape), _join_backward)


def _cut(x: Array, step: int, side: int) -> Array:
    """Squares of ``side`` pixels, ``step`` apart, as ``[side * side, B, h, w, C]``.

    Copies of tiles side by side: in two concatenations, where one of ``side * side`` slices takes seconds to compile.
    """
    pieces = _part(x, step)
    pieces = pieces.reshape(step, step, *pieces.shape[1:])
    pieces = _spread(_spread(pieces, 0, 3, side), 1, 4, side)
    return pieces.reshape(side * side, *pieces.shape[2:])


def _spread(pieces: Array, side_axis: int, tile_axis: int, side: int) -> Array:
    """Lengthen every tile to ``side`` positions by the first ones of the tile after it; there is one less then."""
    step, tiles = pieces.shape[side_axis], pieces.shape[tile_axis]
    own = lax.slice_in_dim(pieces, 0, tiles - 1, axis=tile_axis)
    after = lax.slice_in_dim(pieces, 1, tiles, axis=tile_axis)
    return lax.concatenate([own, lax.slice_in_dim(after, 0, side - step, axis=side_axis)], side_axis)


def _lay(squares: Array, step: int) -> Array:
    """The adjoint of :func:`_cut`: ``[side * side, B, h, w, C]`` to images; where squares overlap they add up."""
    side = round(squares.shape[0] ** 0.5)
    pieces = squares.reshape(side, side, *squares.shape[1:])
    pieces = _fold(_fold(pieces, 0, 3, step), 1, 4, step)
    return _join(pieces.reshape(step * step, *pieces.shape[2:]))


def _fold(pieces: Array, side_axis: int, tile_axis: int, step: int) -> Array:
    """The adjoint of :func:`_spread`: what lies beyond ``step`` positions is added to the tile after it."""
    beyond = pieces.shape[side_axis] - step

    def padded(part: Array, tile: tuple[int, int], missing: int) -> Array:
        widths = [(0, 0, 0)] * part.ndim
        widths[side_axis], widths[tile_axis] = (0, missing, 0), (*tile, 0)
        return lax.pad(part, jnp.zeros((), part.dtype), widths)

    own = lax.slice_in_dim(pieces, 0, step, axis=side_axis)
    rest = lax.slice_in_dim(pieces, step, step + beyond, axis=side_axis)
    return padded(own, (0, 1), 0) + padded(rest, (1, 0), step - beyond)


# --- the convolution -------------------------------------------------------------------------------------------------


def _transform(matrix: Matrix, x: Array, transposed: bool = False) -> Array:
    """Apply a 1-D matrix along both sides of the squares in ``x[side * side, ...]``."""
    square = np.kron(matrix, matrix)
    both = jnp.asarray(square.T if transposed else square, x.dtype)
    return (both @ x.reshape(x.shape[0], -1)).reshape(-1, *x.shape[1:])


def _input_taps(algorithm: Algorithm, pads: Pads, x: Array) -> Array:
    _, tiles = _tiles(algorithm, x, pads)
    side, step = len(algorithm.input[0]), len(algorithm.output)
    # One tile more than there are: every tile also needs pixels of the one after it.
    sides = [(p[0], (t + 1) * step - n - p[0], 0) for p, t, n in zip(pads, tiles, x.shape[1:3], strict=True)]
    x = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), *sides, (0, 0, 0)])
    return _transform(algorithm.input, _cut(x, step, side))


def _products(left: Array, right: Array, over: tuple[int, int]) -> Array:
    """One matmul per tap, contracting an axis of each."""
    return lax.dot_general(left, right, (((over[0],), (over[1],)), ((0,), (0,))))


def _rows(taps: Array) -> Array:
    """``[taps, B, h, w, C]`` as ``[taps, B * h * w, C]``."""
    return taps.reshape(taps.shape[0], -1, taps.shape[-1])


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _squares(algorithm: Algorithm, pads: Pads, x: Array, kernel: Array) -> Array:
    """The convolution as tiles ``[m * m, B, h, w, O]``, the last ones reaching beyond the output."""
    return _forward(algorithm, pads, x, kernel)[0]


def _forward(algorithm: Algorithm, pads: Pads, x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    v = _input_taps(algorithm, pads, x)
    u = _transform(algorithm.kernel, kernel.reshape(9, *kernel.shape[2:]))
    products = _products(_rows(v), u, (2, 1))
    return _transform(algorithm.output, products.reshape(*v.shape[:4], -1)), (x, u)


def _backward(algorithm: Algorithm, pads: Pads, saved: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    x, u = saved
    v = _input_taps(algorithm, pads, x)
    z = _rows(_transform(algorithm.output, dy, transposed=True))
    dw = _transform(algorithm.kernel, _products(_rows(v), z, (1, 1)), transposed=True)
    dx = _transform(algorithm.input, _products(z, u, (2, 2)).reshape(v.shape), transposed=True)
    (top, _), (left, _) = pads
    dx = _lay(dx, len(algorithm.output))[:, top : top + x.shape[1], left : left + x.shape[2]]
    return dx, dw.reshape(3, 3, *u.shape[1:])


_squares.defvjp(_forward, _backward)


def winograd(algorithm: Algorithm, pads: Pads, x: Array, kernel: Array) -> Array:
    """Convolve ``x[B, H, W, I]`` with ``kernel[3, 3, I, O]`` at stride 1.

    Rounding errors are those of the definition times a small factor: relative to the largest output about 1e-6 for
    ``F2`` and 1e-5 for ``F4`` in float32. Differentiable in reverse mode, as often as one likes.
    """
    (rows, cols), _ = _tiles(algorithm, x, pads)
    return _join(_squares(algorithm, pads, x, kernel))[:, :rows, :cols]


def winograd_pooled(algorithm: Algorithm, pads: Pads, x: Array, kernel: Array) -> Array:
    """:func:`winograd` and a 2x2 max-pool. Windows lie within tiles, so that only their maxima are put in place."""
    (rows, cols), _ = _tiles(algorithm, x, pads)
    y = _squares(algorithm, pads, x, kernel)
    half, shape = len(algorithm.output) // 2, y.shape[1:]
    y = larger_of_pairs(y.reshape(half, 2, 2 * half, -1), 1)
    y = larger_of_pairs(y.reshape(half, half, 2, -1), 2)
    return _join(y.reshape(half * half, *shape))[:, : rows // 2, : cols // 2]
