"""Normalisation layers: all are called as ``layer(x, mask, train)`` on ``[B, D]`` or ``[B, H, W, C]``.

``mask[B]`` marks the real examples of a padded batch (None: all are real). Padding never enters a statistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from fedjax_fair.core.platform import on_cpu
from fedjax_fair.core.types import Array
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of

EPSILON = 1e-5
MOMENTUM = 0.1  # share of the new batch in the running statistics


def _wide(x: Array) -> Array:
    """Half-precision inputs are normalised in float32."""
    return x if x.dtype.itemsize >= 4 else x.astype(jnp.float32)


def _per_channel(v: Array, x: Array) -> Array:
    return v.reshape((1,) * (x.ndim - 1) + v.shape)


def _masked_moments(x: Array, mask: Array | None) -> tuple[Array, Array, Array, Array]:
    """Return ``x`` with padding rows zeroed, per-channel mean and biased variance, and the values per channel."""
    real = jnp.ones(x.shape[0], bool) if mask is None else mask.astype(bool)
    rows = jnp.broadcast_to(real.reshape(-1, *(1,) * (x.ndim - 1)), x.shape)
    x = jnp.where(rows, x, jnp.zeros_like(x))  # zeroed, not multiplied: garbage may be NaN
    count = real.sum().astype(x.dtype) * math.prod(x.shape[1:-1])
    axes, n = tuple(range(x.ndim - 1)), jnp.maximum(count, 1)
    mean = x.sum(axes) / n
    centred = jnp.where(rows, x - _per_channel(mean, x), jnp.zeros_like(x))
    return x, mean, jnp.square(centred).sum(axes) / n, count


def _standardise(x: Array, mean: Array, var: Array) -> Array:
    return (x - _per_channel(mean, x)) * _per_channel(lax.rsqrt(var + EPSILON), x)


def _affine(module: nn.Module, x: Array) -> Array:
    scale = module.param('scale', nn.initializers.ones_init(), (x.shape[-1],), x.dtype)
    bias = module.param('bias', nn.initializers.zeros_init(), (x.shape[-1],), x.dtype)
    return x * _per_channel(scale.astype(x.dtype), x) + _per_channel(bias.astype(x.dtype), x)


class BatchNorm(nn.Module):
    """Batch normalisation as in PyTorch.

    Training: ``(x - mean) / sqrt(var + 1e-5) * scale + bias`` with the batch's mean and biased variance, and
    ``running <- 0.9 running + 0.1 batch`` with the batch's UNBIASED variance (``n / (n - 1)``; Flax keeps the biased
    one). Evaluation: the running statistics. A batch of fewer than two values per channel, which PyTorch refuses,
    leaves the running statistics as they are.
    """

    @nn.compact
    def __call__(self, x: Array, mask: Array | None = None, train: bool = False) -> Array:
        dtype, x, channels = x.dtype, _wide(x), (x.shape[-1],)
        running_mean = self.variable('batch_stats', 'mean', lambda: jnp.zeros(channels, x.dtype))
        running_var = self.variable('batch_stats', 'var', lambda: jnp.ones(channels, x.dtype))
        if not train:
            return _affine(self, _standardise(x, running_mean.value, running_var.value)).astype(dtype)
        x, mean, var, n = _masked_moments(x, mask)
        if not self.is_initializing():
            share = jnp.where(n > 1, jnp.asarray(MOMENTUM, x.dtype), jnp.zeros((), x.dtype))
            unbiased = var * (n / jnp.maximum(n - 1, 1))
            running_mean.value += share * (mean - running_mean.value)
            running_var.value += share * (unbiased - running_var.value)
        return _affine(self, _standardise(x, mean, var)).astype(dtype)


class StatelessBatchNorm(nn.Module):
    """Normalise by the statistics of the batch at hand, in training and at test; nothing is learned or kept."""

    @nn.compact
    def __call__(self, x: Array, mask: Array | None = None, train: bool = False) -> Array:
        dtype, (x, mean, var, _) = x.dtype, _masked_moments(_wide(x), mask)
        return _standardise(x, mean, var).astype(dtype)


class GroupNorm(nn.Module):
    """Normalise each example over groups of channels: 32 groups, or the greatest common divisor of 32 and C.

    Sums over positions come first, per channel, and groups are formed on ``[B, C]``; what then touches every position
    is one subtraction, one multiplication and one addition.
    """

    @nn.compact
    def __call__(self, x: Array, mask: Array | None = None, train: bool = False) -> Array:
        dtype, x = x.dtype, _wide(x)
        scale = self.param('scale', nn.initializers.ones_init(), (x.shape[-1],), x.dtype)
        bias = self.param('bias', nn.initializers.zeros_init(), (x.shape[-1],), x.dtype)
        scale, bias = scale.astype(x.dtype), bias.astype(x.dtype)  # rounded ones, in mixed precision
        flat = x.reshape(x.shape[0], -1, x.shape[-1])
        centred = flat - self._group_mean(flat)[:, None, :]
        slope = lax.rsqrt(self._group_mean(jnp.square(centred)) + EPSILON) * scale[None, :]
        return ((centred * slope[:, None, :]).reshape(x.shape) + _per_channel(bias, x)).astype(dtype)

    @staticmethod
    def _group_mean(x: Array) -> Array:
        """Mean of ``x[B, P, C]`` over positions and the channels of a group, repeated for every channel: ``[B, C]``.

        On accelerators every small operation has its price, so that one product replaces sums and reshapes.
        """
        batch, _, channels = x.shape
        groups = math.gcd(32, channels)
        if not on_cpu():
            each = channels // groups
            within = np.kron(np.eye(groups), np.full((each, each), 1 / each))
            return jnp.matmul(x.mean(1), jnp.asarray(within, x.dtype), precision=lax.Precision.HIGHEST)
        mean = x.mean(1).reshape(batch, groups, -1).mean(-1, keepdims=True)
        return jnp.broadcast_to(mean, (batch, groups, channels // groups)).reshape(batch, channels)


class NoNorm(nn.Module):
    """The identity, where a network is built without normalisation."""

    def __call__(self, x: Array, mask: Array | None = None, train: bool = False) -> Array:
        return x


Norm = Literal['batch', 'group', 'none', 'stateless']
NORMS: dict[str, Callable[..., nn.Module]] = {
    'batch': BatchNorm,
    'group': GroupNorm,
    'none': NoNorm,
    'stateless': StatelessBatchNorm,
}


def norm_layer(kind: str) -> Callable[..., nn.Module]:
    """Return the layer class of ``kind``: ``'batch'``, ``'group'``, ``'none'`` or ``'stateless'``."""
    if kind not in NORMS:
        raise UserError(f'`norm`={kind} {not_one_of(kind, NORMS)}')
    return NORMS[kind]
