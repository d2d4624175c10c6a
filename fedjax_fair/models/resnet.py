"""Residual networks (He et al., Deep Residual Learning for Image Recognition, CVPR 2016)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from flax import linen as nn

from fedjax_fair.core.types import Array
from fedjax_fair.models.layers import conv_norm, kaiming_normal, linear
from fedjax_fair.models.pooling import global_average_pool, max_pool_stem

Stem = Literal['cifar', 'imagenet']
STEMS: dict[Stem, tuple[int, int, Callable[[Array], Array]]] = {  # kernel size and strides, and the pooling behind it
    'cifar': (3, 1, lambda x: x),
    'imagenet': (7, 2, max_pool_stem),
}
Layers = tuple[tuple[int, int, int], ...]  # kernel size, features and strides of every convolution of a block


def basic(width: int, strides: int) -> Layers:
    """Two 3x3 convolutions."""
    return (3, width, strides), (3, width, 1)


def bottleneck(width: int, strides: int) -> Layers:
    """1x1, 3x3 (strided, as torchvision does) and 1x1 convolutions to four times the features."""
    return (1, width, 1), (3, width, strides), (1, 4 * width, 1)


class Residual(nn.Module):
    """Convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""

    layers: Layers
    norm: str
    kernel_init: nn.initializers.Initializer | None = None

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> Array:
        def layer(x: Array, size: int, features: int, strides: int, name: str) -> Array:
            return conv_norm(x, mask, train, features, size, self.norm, name, strides, self.kernel_init)

        y = x
        for number, (sizes, name) in enumerate(zip(self.layers, ('first', 'second', 'third'), strict=False)):
            y = layer(nn.relu(y) if number else y, *sizes, name)
        shrinks = math.prod(strides for *_, strides in self.layers)
        shortcut = x if x.shape == y.shape else layer(x, 1, y.shape[-1], shrinks, 'shortcut')
        return nn.relu(y + shortcut)


class ResNet(nn.Module):
    """Stages of residual blocks; the features are the globally averaged last stage.

    ``stem='cifar'`` is a 3x3 convolution, ``'imagenet'`` a 7x7 one of stride 2 and a 3x3 max-pool of stride 2.
    ``he_init`` draws convolutions as torchvision does (He's law over the outputs), else they follow PyTorch's layer.
    """

    num_classes: int
    blocks: Sequence[int] = (1, 1, 1, 1)
    block: Callable[[int, int], Layers] = basic
    stem: Stem = 'cifar'
    widths: Sequence[int] = (64, 128, 256, 512)
    he_init: bool = False
    norm: str = 'batch'

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> tuple[Array, Array]:
        init = kaiming_normal('fan_out') if self.he_init else None
        size, strides, pool = STEMS[self.stem]
        x = nn.relu(conv_norm(x, mask, train, self.widths[0], size, self.norm, 'stem', strides, init))
        x = pool(x)
        for stage, (width, blocks) in enumerate(zip(self.widths, self.blocks, strict=True)):
            for number in range(blocks):
                strides = 2 if stage > 0 and number == 0 else 1
                block = Residual(self.block(width, strides), self.norm, init, name=f'stage{stage}_block{number}')
                x = block(x, mask, train)
        x = global_average_pool(x)
        return linear(x, self.num_classes, name='head'), x
