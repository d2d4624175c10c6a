"""U-Net (Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation, MICCAI 2015)."""

from __future__ import annotations

import jax.numpy as jnp
from flax import linen as nn

from fedjax_fair.core.types import Array
from fedjax_fair.errors import UserError
from fedjax_fair.models.layers import UpConv, conv, conv_norm
from fedjax_fair.models.pooling import global_average_pool, max_pool


class UNet(nn.Module):
    """An encoder and a decoder of ``depth`` levels with skip connections; logits ``[B, H, W, K]`` for every pixel.

    Convolutions are padded and normalised, as in the network that HarmoFL trains. The features are the globally
    averaged bottleneck, ``[B, 2**depth * features]``: what contrastive methods compare.
    """

    num_classes: int
    features: int = 32
    depth: int = 4
    norm: str = 'batch'

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> tuple[Array, Array]:
        if any(side % 2**self.depth for side in x.shape[1:3]):
            raise UserError(f'unet halves images {self.depth} times: sides must be multiples of {2**self.depth}')

        def block(x: Array, features: int, name: str) -> Array:
            for part in ('first', 'second'):
                x = nn.relu(conv_norm(x, mask, train, features, 3, self.norm, f'{name}_{part}'))
            return x

        skips = []
        for level in range(self.depth):
            skips.append(block(x, self.features * 2**level, f'encoder{level}'))
            x = max_pool(skips[-1])
        x = block(x, self.features * 2**self.depth, 'bottleneck')
        features = global_average_pool(x)
        for level in reversed(range(self.depth)):
            width = self.features * 2**level
            x = jnp.concatenate([UpConv(width, name=f'up{level}')(x), skips[level]], axis=-1)
            x = block(x, width, f'decoder{level}')
        return conv(x, self.num_classes, 1, name='head'), features
