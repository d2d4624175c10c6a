"""Two-dimensional convolution with the parameters of ``nn.Conv``, fast on CPU as well.

XLA's CPU backend runs a convolution's backward pass very slowly inside ``lax.scan`` or ``while``, and per-client
kernels under ``vmap`` become grouped convolutions. So on CPU a convolution is written as matmuls in plain JAX: 3x3
kernels of stride 1 by Winograd's algorithms (:mod:`fedjax_fair.models.winograd`), all others as shifted slices
gathered into patches and ONE matmul. Measurements are in docs/speed.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from fedjax_fair.core.platform import on_cpu
from fedjax_fair.core.types import Array, Model
from fedjax_fair.errors import UserError
from fedjax_fair.models import winograd as minimal
from fedjax_fair.models.linear import matmul
from fedjax_fair.models.pooling import larger, max_pool
from fedjax_fair.models.winograd import F2, F4, Algorithm, Pads
from fedjax_fair.options import AUTO, chosen, not_one_of

Padding = str | int | Sequence[int] | Sequence[tuple[int, int]]


def exact(x: Array, kernel: Array, strides: tuple[int, int], pads: Pads) -> Array:
    """XLA's own convolution: the reference on every platform and the fast one on GPU and TPU."""
    return lax.conv_general_dilated(x, kernel, strides, pads, dimension_numbers=('NHWC', 'HWIO', 'NHWC'))


def patches(x: Array, kernel: Array, strides: tuple[int, int], pads: Pads) -> Array:
    """Shifted slices side by side on the channel axis, then one matmul; 1x1 is a strided slice and a matmul."""
    kh, kw, _, features = kernel.shape
    x = jnp.pad(x, ((0, 0), *pads, (0, 0)))
    rows, cols = ((n - k) // s + 1 for n, k, s in zip(x.shape[1:3], (kh, kw), strides, strict=True))
    slices = [
        x[:, i : i + (rows - 1) * strides[0] + 1 : strides[0], j : j + (cols - 1) * strides[1] + 1 : strides[1]]
        for i in range(kh)
        for j in range(kw)
    ]
    # Two flat matrices: contracting [B, H, W, taps] directly makes XLA transpose it in the backward pass.
    taps = jnp.concatenate(slices, axis=-1).reshape(-1, kernel[..., 0].size)
    return matmul(taps, kernel.reshape(-1, features)).reshape(x.shape[0], rows, cols, features)


def folded(x: Array, kernel: Array, strides: tuple[int, int], pads: Pads) -> Array:
    """``patches`` on squares of 2x2 pixels folded into channels, which yields 2x2 outputs at a time.

    A kernel of few input channels makes patches of many short rows. Folded there are a quarter as many, four times as
    long, and the matmul is wide enough to be worth its while; the folded kernel is the kernel at its four shifts. Only
    stride 1 folds; other strides are left to ``patches``.
    """
    if strides != (1, 1):
        return patches(x, kernel, strides, pads)
    rows, cols = _output_size(x, kernel, pads)
    y = _squares(x, kernel, pads)
    y = y.transpose(0, 1, 3, 2, 4, 5).reshape(y.shape[0], 2 * y.shape[1], 2 * y.shape[2], y.shape[-1])
    return y[:, :rows, :cols]


def folded_pooled(x: Array, kernel: Array, strides: tuple[int, int], pads: Pads) -> Array:
    """``folded`` and a 2x2 max-pool: each square of outputs is one window, so that nothing has to be unfolded."""
    if strides != (1, 1):
        return max_pool(patches(x, kernel, strides, pads))
    rows, cols = _output_size(x, kernel, pads)
    y = _squares(x, kernel, pads)
    y00, y01, y10, y11 = jnp.split(y.reshape(*y.shape[:3], -1), 4, axis=-1)
    y = larger(larger(y00, y10), larger(y01, y11))  # rows first, as max_pool does
    return y[:, : rows // 2, : cols // 2]


def _output_size(x: Array, kernel: Array, pads: Pads) -> tuple[int, int]:
    """Rows and columns of the output at stride 1."""
    rows, cols = (n + sum(p) - k + 1 for n, p, k in zip(x.shape[1:3], pads, kernel.shape[:2], strict=True))
    return rows, cols


def _squares(x: Array, kernel: Array, pads: Pads) -> Array:
    """``[B, h, w, 2, 2, O]``: the outputs at stride 1 in squares of 2x2, the last ones beyond the edge."""
    batch, height, width, channels = x.shape
    kh, kw, _, features = kernel.shape
    (top, _), (left, _) = pads
    u, v = kh // 2 + 1, kw // 2 + 1  # folded pixels that a kernel at any of its shifts touches
    folded_rows, folded_cols = (-(-n // 2) for n in _output_size(x, kernel, pads))
    tall, wide = folded_rows + u - 1, folded_cols + v - 1
    x = jnp.pad(x, ((0, 0), (top, 2 * tall - height - top), (left, 2 * wide - width - left), (0, 0)))
    x = _swap(x.reshape(batch, tall, 2, wide, 2, channels)).reshape(batch, tall, wide, 4 * channels)
    shifts = [
        jnp.pad(kernel, ((a, 2 * u - kh - a), (b, 2 * v - kw - b), (0, 0), (0, 0))) for a in range(2) for b in range(2)
    ]
    big = jnp.stack(shifts, axis=3).reshape(1, u, 2, v, 2, channels * 4 * features)
    big = _swap(big).reshape(u, v, 4 * channels, 4 * features)
    y = patches(x, big, (1, 1), ((0, 0), (0, 0)))
    return y.reshape(batch, folded_rows, folded_cols, 2, 2, features)


def _swap(x: Array) -> Array:
    """``[B, h, 2, w, 2, C] -> [B, h, w, 2, 2, C]``."""
    return x.transpose(0, 1, 3, 2, 4, 5)


def winograd(x: Array, kernel: Array, strides: tuple[int, int], pads: Pads) -> Array:
    """3x3 kernels of stride 1 by Winograd's algorithms; all others are left to ``patches``.

    Reverse-mode derivatives only.
    """
    algorithm = _algorithm(x, kernel, strides)
    return minimal.winograd(algorithm, pads, x, kernel) if algorithm else patches(x, kernel, strides, pads)


def winograd_pooled(x: Array, kernel: Array, strides: tuple[int, int], pads: Pads) -> Array:
    """``winograd`` and a 2x2 max-pool, taken on the way."""
    algorithm = _algorithm(x, kernel, strides)
    if algorithm is None:
        return max_pool(patches(x, kernel, strides, pads))
    return minimal.winograd_pooled(algorithm, pads, x, kernel)


def _algorithm(x: Array, kernel: Array, strides: tuple[int, int]) -> Algorithm | None:
    """Large tiles save the most products, but a small output does not fill them."""
    if kernel.shape[:2] != (3, 3) or strides != (1, 1):
        return None
    return F4 if min(x.shape[1:3]) >= 8 else F2


Convolution = Callable[[Array, Array, tuple[int, int], Pads], Array]
IMPLEMENTATIONS: dict[str, Convolution] = {
    'exact': exact,
    'patches': patches,
    'folded': folded,
    'winograd': winograd,
}
# Those that pool on the way; all others do it afterwards.
POOLED: dict[str, Convolution] = {'folded': folded_pooled, 'winograd': winograd_pooled}

THIN = 16  # input channels below which transforms cost more than the products they save

CONVS = (AUTO, *IMPLEMENTATIONS)

# While a model is traced, how its convolutions are computed. Nothing else sets it, so that it never outlives a call.
_tracing: ContextVar[str] = ContextVar('convolution', default=AUTO)


def with_conv(model: Model, conv: str) -> Model:
    """``model`` with its convolutions computed by one of ``CONVS``.

    ``'auto'`` lets :func:`choose` decide; ``'exact'`` is XLA's convolution everywhere, the one to compare numbers with.

    >>> from fedjax_fair.models import make_model
    >>> model = with_conv(make_model('cnn', 10), 'exact')
    """
    if conv not in CONVS:
        raise UserError(f'`conv`={conv} {not_one_of(conv, CONVS)}')

    def computed(function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            previous = _tracing.set(conv)
            try:
                return function(*args, **kwargs)
            finally:
                _tracing.reset(previous)

        return call

    return model._replace(init=computed(model.init), apply=computed(model.apply))


def choose(kernel_shape: tuple[int, ...], strides: tuple[int, int], dtype: jnp.dtype = jnp.dtype('float32')) -> str:
    """Name the implementation for a layer's shapes, at trace time: the only place where this is decided."""
    if not on_cpu():
        return 'exact'
    if kernel_shape[2] >= THIN and dtype.itemsize >= 4:  # half precision has no digits to spare for transforms
        return 'winograd'
    return 'folded' if max(kernel_shape[:2]) > 1 and strides == (1, 1) else 'patches'


def conv2d(
    x: Array,
    kernel: Array,
    strides: int | Sequence[int] = (1, 1),
    padding: Padding = 'SAME',
    implementation: str | None = None,
    pool: bool = False,
) -> Array:
    """Convolve ``x[B, H, W, I]`` with ``kernel[kh, kw, I, O]``.

    ``padding`` is ``'SAME'``, ``'VALID'``, one integer for all sides, or one integer or ``(low, high)`` pair per axis.
    ``pool`` takes the maximum over 2x2 windows of the output (see :func:`max_pool`), at less cost than doing it after.
    ``implementation`` names one of ``IMPLEMENTATIONS``; by default the model that is traced (:func:`with_conv`) and
    :func:`choose` decide.
    """
    strides = _pair(strides)
    pads = _pads(padding, x.shape[1:3], kernel.shape[:2], strides)
    name = implementation or _tracing.get()
    name = choose(kernel.shape, strides, x.dtype) if name == AUTO else name
    convolve = chosen('implementation', name, IMPLEMENTATIONS)
    if any(n + sum(p) < k for n, p, k in zip(x.shape[1:3], pads, kernel.shape[:2], strict=True)):
        raise ValueError(f'kernel_size={kernel.shape[:2]} does not fit an input of {x.shape[1:3]} padded by {pads}')
    if pool and name in POOLED:
        return POOLED[name](x, kernel, strides, pads)
    y = convolve(x, kernel, strides, pads)
    return max_pool(y) if pool else y


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    rows, cols = (value, value) if isinstance(value, int) else value
    return rows, cols


def _pads(padding: Padding, size: Sequence[int], window: Sequence[int], strides: tuple[int, int]) -> Pads:
    if isinstance(padding, str):
        if padding not in ('SAME', 'VALID'):
            raise ValueError(f'padding={padding!r} is unknown; choose SAME, VALID, an integer or one per axis')
        padding = lax.padtype_to_pads(size, window, strides, padding)
    rows, cols = (padding, padding) if isinstance(padding, int) else padding
    return _pair(rows), _pair(cols)


class Conv(nn.Module):
    """Convolution layer over ``[B, H, W, C]`` with the parameters of ``nn.Conv``, computed by :func:`conv2d`.

    Parameters are created in ``param_dtype``, by default the dtype of the input. ``pool`` adds a 2x2 max-pool, before
    the bias: a bias moves all values of a window alike, and so there are a quarter as many to add it to.
    """

    features: int
    kernel_size: int | Sequence[int]
    strides: int | Sequence[int] = 1
    padding: Padding = 'SAME'
    use_bias: bool = True
    kernel_init: nn.initializers.Initializer = nn.initializers.lecun_normal()
    bias_init: nn.initializers.Initializer = nn.initializers.zeros_init()
    param_dtype: jnp.dtype | None = None
    pool: bool = False

    @nn.compact
    def __call__(self, x: Array) -> Array:
        dtype = self.param_dtype or x.dtype
        shape = (*_pair(self.kernel_size), x.shape[-1], self.features)
        kernel = self.param('kernel', self.kernel_init, shape, dtype)
        y = conv2d(x, kernel, self.strides, self.padding, pool=self.pool)
        if self.use_bias:
            y += self.param('bias', self.bias_init, (self.features,), dtype).reshape(1, 1, 1, -1)
        return y
