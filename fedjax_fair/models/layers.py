"""What the networks share: PyTorch's initialisation, and linear and convolution layers using it."""

from __future__ import annotations

import math
from typing import Literal

import jax
from flax import linen as nn

from fedjax_fair.core.types import Array
from fedjax_fair.models.conv import Conv
from fedjax_fair.models.linear import dot_general
from fedjax_fair.models.norm import norm_layer


def torch_uniform(fan_in: int) -> nn.initializers.Initializer:
    """PyTorch's default for the weights and biases of linear and convolution layers: uniform in +-1/sqrt(fan_in)."""
    bound = 1 / math.sqrt(fan_in)
    return lambda key, shape, dtype: jax.random.uniform(key, shape, dtype, -bound, bound)


def kaiming_normal(mode: Literal['fan_in', 'fan_out']) -> nn.initializers.Initializer:
    """He's law for ReLU networks: normal with variance 2 / ``'fan_in'`` or 2 / ``'fan_out'``."""
    return nn.initializers.variance_scaling(2.0, mode, 'normal')


def linear(x: Array, features: int, name: str) -> Array:
    """A linear layer on ``x[B, D]``, to be called inside a module; parameters take the dtype of ``x``."""
    init = torch_uniform(x.shape[-1])
    return nn.Dense(
        features, param_dtype=x.dtype, kernel_init=init, bias_init=init, name=name, dot_general=dot_general
    )(x)


def conv(
    x: Array,
    features: int,
    size: int,
    name: str,
    strides: int = 1,
    use_bias: bool = True,
    padded: bool = True,
    pool: bool = False,
    init: nn.initializers.Initializer | None = None,
) -> Array:
    """A ``size x size`` convolution, padded by ``size // 2`` on every side or not at all; call it inside a module.

    ``init`` draws the kernel; by default kernel and bias follow PyTorch's layer.
    """
    if x.ndim != 4:
        raise ValueError('convolutions need images')
    uniform = torch_uniform(size * size * x.shape[-1])
    padding = size // 2 if padded else 0
    layer = Conv(
        features, size, strides, padding, use_bias, kernel_init=init or uniform, bias_init=uniform, pool=pool, name=name
    )
    return layer(x)


class UpConv(nn.Module):
    """Transposed 2x2 convolution of stride 2: every pixel becomes a square of four; one matmul."""

    features: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        batch, rows, cols, channels = x.shape
        init = torch_uniform(4 * self.features)  # PyTorch takes the fan-in of a transposed convolution from its output
        kernel = self.param('kernel', init, (2, 2, channels, self.features), x.dtype)
        bias = self.param('bias', init, (self.features,), x.dtype)
        y = x.reshape(-1, channels) @ kernel.transpose(2, 0, 1, 3).reshape(channels, -1)
        y = y.reshape(batch, rows, cols, 2, 2, self.features).transpose(0, 1, 3, 2, 4, 5)
        return y.reshape(batch, 2 * rows, 2 * cols, self.features) + bias.reshape(1, 1, 1, -1)


def conv_norm(
    x: Array,
    mask: Array,
    train: bool,
    features: int,
    size: int,
    norm: str,
    name: str,
    strides: int = 1,
    init: nn.initializers.Initializer | None = None,
) -> Array:
    """``NAME_conv``, without a bias where a norm follows, and ``NAME_norm``."""
    x = conv(x, features, size, f'{name}_conv', strides, use_bias=norm == 'none', init=init)
    return norm_layer(norm)(name=f'{name}_norm')(x, mask, train)


def flatten(x: Array) -> Array:
    """``[B, ...] -> [B, D]``."""
    return x.reshape(x.shape[0], -1)
