"""Densely connected networks (Huang et al., Densely Connected Convolutional Networks, CVPR 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from flax import linen as nn

from fedjax_fair.core.types import Array
from fedjax_fair.models.layers import conv, conv_norm, kaiming_normal, torch_uniform
from fedjax_fair.models.norm import norm_layer
from fedjax_fair.models.pooling import average_pool, global_average_pool, max_pool_stem


class DenseNet(nn.Module):
    """Blocks in which every layer sees all layers before it, with halving transitions in between (DenseNet-BC).

    ``pad`` zeros are added on every side after the first block: 2 in HarmoFL's network for 96x96 images, 0 in the
    published one. The features are the globally averaged last block.
    """

    num_classes: int
    blocks: Sequence[int] = (6, 12, 24, 16)
    growth: int = 32
    first: int = 64
    pad: int = 0
    norm: str = 'batch'

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> tuple[Array, Array]:
        init = kaiming_normal('fan_in')

        def normed(x: Array, name: str) -> Array:
            return nn.relu(norm_layer(self.norm)(name=name)(x, mask, train))

        def layer(x: Array, features: int, size: int, name: str) -> Array:
            return conv(normed(x, f'{name}_norm'), features, size, f'{name}_conv', use_bias=False, init=init)

        x = max_pool_stem(nn.relu(conv_norm(x, mask, train, self.first, 7, self.norm, 'stem', 2, init)))
        for block, layers in enumerate(self.blocks):
            for number in range(layers):
                name = f'block{block}_layer{number}'
                new = layer(layer(x, 4 * self.growth, 1, f'{name}_first'), self.growth, 3, f'{name}_second')
                x = jnp.concatenate([x, new], axis=-1)
            if block == 0 and self.pad:
                x = jnp.pad(x, ((0, 0), (self.pad, self.pad), (self.pad, self.pad), (0, 0)))
            if block < len(self.blocks) - 1:
                x = average_pool(layer(x, x.shape[-1] // 2, 1, f'transition{block}'))
        x = global_average_pool(normed(x, 'final_norm'))
        uniform = torch_uniform(x.shape[-1])
        head = nn.Dense(self.num_classes, param_dtype=x.dtype, kernel_init=uniform, name='head')
        return head(x), x
