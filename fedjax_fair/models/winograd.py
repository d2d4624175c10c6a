"""3x3 convolution by Winograd's minimal algorithms, in plain JAX: fewer products, the rest is additions.

A 1-D algorithm computes ``m`` outputs of stride ``s`` from ``n = (m - 1) s + 3`` inputs with ``a`` products:
``y = A^T [(G w) * (B^T x)]``. Nested over rows and columns it takes ``a^2`` products for ``m^2`` outputs, where the
definition takes ``9 m^2``. Each of the ``a^2`` products ("taps") is one matmul over all tiles of all images, which is
what a CPU does best. Both passes are built from two transforms that are each other's adjoint, :func:`_analyse` and
:func:`_synthesise`:

    forward:   V = analyse(B^T, x),  U = analyse(G, w),  y = synthesise(A^T, V U)
    backward:  Z = analyse(A, dy),   dx = synthesise(B, Z U^T),   dw = synthesise(G^T, V^T Z)

Transforms are sums of shifted slices with channels innermost, so that inner loops run over contiguous memory. Barriers
keep XLA from fusing one pass into the next, which would compute it several times.

References: S. Winograd, Arithmetic Complexity of Computations, SIAM 1980; A. Lavin and S. Gray, Fast Algorithms for
Convolutional Neural Networks, CVPR 2016.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedjax_fair.core.types import Array

Pads = tuple[tuple[int, int], tuple[int, int]]
Taps = list[list[Array]]  # [a][a] arrays of [images, rows of tiles, columns of tiles, channels]
Matrix = Sequence[Sequence[float]]


class Algorithm(NamedTuple):
    """``y = output @ ((kernel @ w) * (input @ x))``: ``len(output)`` outputs at this stride."""

    stride: int
    input: Matrix
    kernel: Matrix
    output: Matrix

    @property
    def step(self) -> int:
        """Distance between the first inputs of neighbouring tiles."""
        return self.stride * len(self.output)


# Toom-Cook with the points 0, 1, -1, infinity: 16 products for 4 outputs instead of 36.
F2 = Algorithm(
    1,
    input=((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1)),
    kernel=((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    output=((1, 1, 1, 0), (0, 1, -1, 1)),
)
# Points 0, 1, -1, 2, -2, infinity: 36 products for 16 outputs instead of 144.
F4 = Algorithm(
    1,
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
# Stride 2 in two phases: even inputs meet kernel taps 0 and 2 (a minimal algorithm with 3 products), odd ones tap 1.
# 25 products for 4 outputs instead of 36, and the backward pass multiplies no inserted zeros.
S2 = Algorithm(
    2,
    input=((1, 0, -1, 0, 0), (0, 0, 1, 0, 0), (0, 0, -1, 0, 1), (0, 1, 0, 0, 0), (0, 0, 0, 1, 0)),
    kernel=((1, 0, 0), (1, 0, 1), (0, 0, 1), (0, 1, 0), (0, 1, 0)),
    output=((1, 1, 0, 1, 0), (0, 1, 1, 0, 1)),
)

CACHE = 3 * 2**19  # bytes of one kind of taps that still work out of a core's cache


# --- the two transforms ----------------------------------------------------------------------------------------------


def _combine(matrix: Matrix, pieces: Sequence[Array]) -> list[Array]:
    """``matrix @ pieces`` over arrays, zeros skipped."""

    def term(c: float, piece: Array) -> Array:
        return piece if c == 1 else piece * np.asarray(c, piece.dtype)

    return [
        functools.reduce(operator.add, [term(c, p) for c, p in zip(row, pieces, strict=True) if c]) for row in matrix
    ]


def _phases(x: Array, axis: int, step: int, count: int, size: int) -> list[Array]:
    """``count`` slices of ``size`` entries, ``step`` apart, beginning at 0, 1, 2, ..."""
    return [lax.slice_in_dim(x, i, i + (size - 1) * step + 1, step, axis) for i in range(count)]


def _spread(pieces: Sequence[Array], axis: int, step: int) -> Array:
    """The adjoint of :func:`_phases`: what was read from one place is added up there."""

    def padded(piece: Array, low: int, high: int) -> Array:
        widths = [(0, 0, 0)] * piece.ndim
        widths[axis] = (low, high, 0)
        return lax.pad(piece, jnp.zeros((), piece.dtype), widths)

    if len(pieces) > step:  # neighbouring tiles overlap: the rest of each goes to the next one
        own, rest = pieces[:step], pieces[step:]
        pieces = [padded(p, 0, 1) for p in own]
        pieces = [p + padded(r, 1, 0) for p, r in zip(pieces, rest, strict=False)] + pieces[len(rest) :]
    shape = list(pieces[0].shape)
    shape[axis] *= step
    return jnp.stack(pieces, axis + 1).reshape(shape)


def _analyse(matrix: Matrix, x: Array, step: int, tiles: tuple[int, int]) -> Taps:
    """Apply ``matrix`` along rows and along columns of every tile."""
    count = len(matrix[0])
    rows = lax.optimization_barrier(_combine(matrix, _phases(x, 1, step, count, tiles[0])))
    return lax.optimization_barrier([_combine(matrix, _phases(r, 2, step, count, tiles[1])) for r in rows])


def _synthesise(matrix: Matrix, taps: Taps, step: int) -> Array:
    """The adjoint of :func:`_analyse` with the transposed matrix."""
    rows = lax.optimization_barrier([_spread(_combine(matrix, row), 2, step) for row in taps])
    return lax.optimization_barrier(_spread(_combine(matrix, rows), 1, step))


def _transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


# --- the convolution -------------------------------------------------------------------------------------------------


def _tiles(algorithm: Algorithm, x: Array, pads: Pads) -> tuple[tuple[int, int], tuple[int, int]]:
    """Size of the output, and how many tiles cover it."""
    rows, cols = ((n + sum(p) - 3) // algorithm.stride + 1 for n, p in zip(x.shape[1:3], pads, strict=True))
    m = len(algorithm.output)
    return (rows, cols), (-(-rows // m), -(-cols // m))


def _input_taps(algorithm: Algorithm, x: Array, pads: Pads) -> Taps:
    _, tiles = _tiles(algorithm, x, pads)
    reach = [(t - 1) * algorithm.step + len(algorithm.input[0]) for t in tiles]
    sides = [(p[0], r - n - p[0], 0) for p, r, n in zip(pads, reach, x.shape[1:3], strict=True)]
    x = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), *sides, (0, 0, 0)])
    return _analyse(algorithm.input, x, algorithm.step, tiles)


def _kernel_taps(algorithm: Algorithm, kernel: Array) -> Taps:
    flat = kernel.reshape(1, 3, 3, -1)
    taps = _analyse(algorithm.kernel, flat, 3, (1, 1))
    return [[tap.reshape(kernel.shape[2:]) for tap in row] for row in taps]


def _products(contract: str, left: Taps, right: Taps) -> Taps:
    def flat(tap: Array) -> Array:
        return tap.reshape(-1, tap.shape[-1])

    pairs = [zip(*rows, strict=True) for rows in zip(left, right, strict=True)]
    return lax.optimization_barrier([[jnp.einsum(contract, flat(a), flat(b)) for a, b in row] for row in pairs])


def _forward(algorithm: Algorithm, pads: Pads, x: Array, u: Taps) -> Array:
    (rows, cols), tiles = _tiles(algorithm, x, pads)
    products = _products('pi,io->po', _input_taps(algorithm, x, pads), u)
    products = [[p.reshape(x.shape[0], *tiles, -1) for p in row] for row in products]
    return _synthesise(algorithm.output, products, len(algorithm.output))[:, :rows, :cols]


def _backward(algorithm: Algorithm, pads: Pads, x: Array, u: Taps, dy: Array) -> tuple[Array, Taps]:
    """Gradients of the images and of the kernel's taps."""
    (rows, cols), tiles = _tiles(algorithm, x, pads)
    m = len(algorithm.output)
    dy = jnp.pad(dy, ((0, 0), (0, tiles[0] * m - rows), (0, tiles[1] * m - cols), (0, 0)))
    z = _analyse(_transposed(algorithm.output), dy, m, tiles)
    du = _products('pi,po->io', _input_taps(algorithm, x, pads), z)
    dv = [[p.reshape(x.shape[0], *tiles, -1) for p in row] for row in _products('po,io->pi', z, u)]
    dx = _synthesise(_transposed(algorithm.input), dv, algorithm.step)
    (top, _), (left, _) = pads
    return dx[:, top : top + x.shape[1], left : left + x.shape[2]], du


def _groups(algorithm: Algorithm, pads: Pads, x: Array, channels: tuple[int, ...]) -> int:
    """Images are worked on in groups whose taps stay in cache, where that was measured to pay: at stride 1, when there
    are many images and walking over the kernel's taps again for each group costs little."""
    _, tiles = _tiles(algorithm, x, pads)
    images, taps = x.shape[0], len(algorithm.input) ** 2 * x.dtype.itemsize
    total = images * taps * math.prod(tiles) * max(channels)
    if algorithm.stride > 1 or total <= 4 * CACHE or taps * math.prod(channels) > CACHE:
        return 1
    return next((n for n in range(1, images) if images % n == 0 and total <= n * CACHE), images)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def winograd(algorithm: Algorithm, pads: Pads, x: Array, kernel: Array) -> Array:
    """Convolve ``x[B, H, W, I]`` with ``kernel[3, 3, I, O]`` at the stride of the algorithm.

    Rounding errors are those of the definition times a small factor: relative to the largest output about 1e-6 for
    ``F2`` and ``S2`` and 1e-5 for ``F4`` in float32. Differentiable in reverse mode, as often as one likes.
    """
    return _winograd_forward(algorithm, pads, x, kernel)[0]


def _winograd_forward(algorithm: Algorithm, pads: Pads, x: Array, kernel: Array):
    u = _kernel_taps(algorithm, kernel)
    groups = _groups(algorithm, pads, x, kernel.shape[2:])
    if groups == 1:
        return _forward(algorithm, pads, x, u), (x, u)
    y = lax.map(lambda part: _forward(algorithm, pads, part, u), x.reshape(groups, -1, *x.shape[1:]))
    return y.reshape(-1, *y.shape[2:]), (x, u)


def _winograd_backward(algorithm: Algorithm, pads: Pads, saved, dy: Array) -> tuple[Array, Array]:
    x, u = saved
    channels = u[0][0].shape
    groups = _groups(algorithm, pads, x, channels)
    if groups == 1:
        dx, du = _backward(algorithm, pads, x, u, dy)
    else:

        def body(total: Taps, part: tuple[Array, Array]):
            dx, du = _backward(algorithm, pads, part[0], u, part[1])
            return jax.tree.map(jnp.add, total, du), dx

        parts = jax.tree.map(lambda leaf: leaf.reshape(groups, -1, *leaf.shape[1:]), (x, dy))
        du, dx = lax.scan(body, jax.tree.map(jnp.zeros_like, u), parts)
        dx = dx.reshape(x.shape)
    du = [[tap.reshape(1, 1, 1, -1) for tap in row] for row in du]
    return dx, _synthesise(_transposed(algorithm.kernel), du, 3).reshape(3, 3, *channels)


winograd.defvjp(_winograd_forward, _winograd_backward)
