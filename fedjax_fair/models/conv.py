"""Two-dimensional convolution with the parameters of ``nn.Conv``, fast on CPU as well.

XLA's CPU backend runs a convolution's backward pass very slowly inside ``lax.scan`` or ``while``, and per-client
kernels under ``vmap`` become grouped convolutions. So on CPU a convolution is written as shifted slices gathered into
patches and ONE matmul, which is plain JAX: it differentiates in both modes, vmaps and scans.

Time of a training step of a 32-64-128 CNN (32x32x3, batch 32) inside ``lax.scan`` on CPU, relative to ``patches``:
1 patches, 1.2 native forward with a hand-written backward pass, 1.5 patches contracted without flattening to
``[positions, taps]``, 4.5 sum of shifted matmuls, 30 native convolution. Four clients vmapped: 1.4 per client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from fedjax_fair.core.types import Array

Pads = tuple[tuple[int, int], tuple[int, int]]
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
    return (taps @ kernel.reshape(-1, features)).reshape(x.shape[0], rows, cols, features)


IMPLEMENTATIONS: dict[str, Callable[[Array, Array, tuple[int, int], Pads], Array]] = {
    'exact': exact,
    'patches': patches,
}

_setting = 'auto'


def use_conv(setting: str) -> str:
    """Set how every convolution is computed from now on: ``'auto'`` or a name of ``IMPLEMENTATIONS``.

    ``'auto'`` lets :func:`choose` decide; ``'exact'`` is XLA's convolution everywhere, the one to compare numbers
    with. Returns the previous setting. A change drops compiled programs, which hold the convolutions of their trace.

    >>> previous = use_conv('exact')
    >>> use_conv(previous)
    'exact'
    """
    global _setting
    if setting not in ('auto', *IMPLEMENTATIONS):
        raise ValueError(f'conv={setting!r} is unknown; choose one of auto, {", ".join(IMPLEMENTATIONS)}')
    previous, _setting = _setting, setting
    if setting != previous:
        jax.clear_caches()
    return previous


def choose(x_shape: tuple[int, ...], kernel_shape: tuple[int, ...], strides: tuple[int, int]) -> str:
    """Name the implementation for a layer's shapes, at trace time: the only place where this is decided."""
    del x_shape, kernel_shape, strides  # patches won for every layer shape measured on CPU
    return 'patches' if jax.default_backend() == 'cpu' else 'exact'


def conv2d(
    x: Array,
    kernel: Array,
    strides: int | Sequence[int] = (1, 1),
    padding: Padding = 'SAME',
    implementation: str | None = None,
) -> Array:
    """Convolve ``x[B, H, W, I]`` with ``kernel[kh, kw, I, O]``.

    ``padding`` is ``'SAME'``, ``'VALID'``, one integer for all sides, or one integer or ``(low, high)`` pair per axis.
    ``implementation`` names one of ``IMPLEMENTATIONS``; by default :func:`use_conv` and :func:`choose` decide.
    """
    strides = _pair(strides)
    pads = _pads(padding, x.shape[1:3], kernel.shape[:2], strides)
    name = implementation or (choose(x.shape, kernel.shape, strides) if _setting == 'auto' else _setting)
    if name not in IMPLEMENTATIONS:
        raise ValueError(f'implementation={name!r} is unknown; choose one of {", ".join(IMPLEMENTATIONS)}')
    if any(n + sum(p) < k for n, p, k in zip(x.shape[1:3], pads, kernel.shape[:2], strict=True)):
        raise ValueError(f'kernel_size={kernel.shape[:2]} does not fit an input of {x.shape[1:3]} padded by {pads}')
    return IMPLEMENTATIONS[name](x, kernel, strides, pads)


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

    Parameters are created in ``param_dtype``, by default the dtype of the input.
    """

    features: int
    kernel_size: int | Sequence[int]
    strides: int | Sequence[int] = 1
    padding: Padding = 'SAME'
    use_bias: bool = True
    kernel_init: nn.initializers.Initializer = nn.initializers.lecun_normal()
    bias_init: nn.initializers.Initializer = nn.initializers.zeros_init()
    param_dtype: jnp.dtype | None = None

    @nn.compact
    def __call__(self, x: Array) -> Array:
        dtype = self.param_dtype or x.dtype
        shape = (*_pair(self.kernel_size), x.shape[-1], self.features)
        y = conv2d(x, self.param('kernel', self.kernel_init, shape, dtype), self.strides, self.padding)
        if self.use_bias:
            y += self.param('bias', self.bias_init, (self.features,), dtype).reshape(1, 1, 1, -1)
        return y
