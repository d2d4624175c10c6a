"""What the networks share: PyTorch's initialisation, linear and convolution layers using it, pooling."""

from __future__ import annotations

import math

import jax
from flax import linen as nn

from fedjax_fair.core.types import Array
from fedjax_fair.models.conv import Conv


def torch_uniform(fan_in: int) -> nn.initializers.Initializer:
    """PyTorch's default for the weights and biases of linear and convolution layers: uniform in +-1/sqrt(fan_in)."""
    bound = 1 / math.sqrt(fan_in)
    return lambda key, shape, dtype: jax.random.uniform(key, shape, dtype, -bound, bound)


def linear(x: Array, features: int, name: str) -> Array:
    """A linear layer on ``x[B, D]``, to be called inside a module; parameters take the dtype of ``x``."""
    init = torch_uniform(x.shape[-1])
    return nn.Dense(features, param_dtype=x.dtype, kernel_init=init, bias_init=init, name=name)(x)


def conv(
    x: Array,
    features: int,
    size: int,
    name: str,
    strides: int = 1,
    use_bias: bool = True,
    padded: bool = True,
    pool: bool = False,
) -> Array:
    """A ``size x size`` convolution, padded by ``size // 2`` on every side or not at all; call it inside a module."""
    init = torch_uniform(size * size * x.shape[-1])
    padding = size // 2 if padded else 0
    layer = Conv(features, size, strides, padding, use_bias, kernel_init=init, bias_init=init, pool=pool, name=name)
    return layer(x)


def flatten(x: Array) -> Array:
    """``[B, ...] -> [B, D]``."""
    return x.reshape(x.shape[0], -1)


def global_average_pool(x: Array) -> Array:
    """``[B, H, W, C] -> [B, C]``."""
    return x.mean((1, 2))
