"""Residual networks (He et al., Deep Residual Learning for Image Recognition, CVPR 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from flax import linen as nn

from fedjax_fair.core.types import Array
from fedjax_fair.models.layers import conv_norm, kaiming_normal, linear
from fedjax_fair.models.pool import global_average_pool, max_pool_stem

STEMS = ('cifar', 'imagenet')


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""

    features: int
    strides: int
    norm: str
    kernel_init: nn.initializers.Initializer | None = None
    expansion = 1

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> Array:
        def layer(x: Array, size: int, strides: int, name: str) -> Array:
            return conv_norm(x, mask, train, self.features, size, self.norm, name, strides, self.kernel_init)

        y = nn.relu(layer(x, 3, self.strides, 'first'))
        y = layer(y, 3, 1, 'second')
        changes = self.strides != 1 or x.shape[-1] != self.features
        return nn.relu(y + (layer(x, 1, self.strides, 'shortcut') if changes else x))


class Bottleneck(nn.Module):
    """1x1, 3x3 (strided, as torchvision does) and 1x1 convolutions to four times the features, beside a shortcut."""

    features: int
    strides: int
    norm: str
    kernel_init: nn.initializers.Initializer | None = None
    expansion = 4

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> Array:
        wide = self.expansion * self.features

        def layer(x: Array, features: int, size: int, strides: int, name: str) -> Array:
            return conv_norm(x, mask, train, features, size, self.norm, name, strides, self.kernel_init)

        y = nn.relu(layer(x, self.features, 1, 1, 'first'))
        y = nn.relu(layer(y, self.features, 3, self.strides, 'second'))
        y = layer(y, wide, 1, 1, 'third')
        changes = self.strides != 1 or x.shape[-1] != wide
        return nn.relu(y + (layer(x, wide, 1, self.strides, 'shortcut') if changes else x))


class ResNet(nn.Module):
    """Stages of residual blocks; the features are the globally averaged last stage.

    ``stem='cifar'`` is a 3x3 convolution, ``'imagenet'`` a 7x7 one of stride 2 and a 3x3 max-pool of stride 2.
    ``he_init`` draws convolutions as torchvision does (He's law over the outputs), else they follow PyTorch's layer.
    """

    num_classes: int
    blocks: Sequence[int] = (1, 1, 1, 1)
    block: type[BasicBlock] | type[Bottleneck] = BasicBlock
    stem: str = 'cifar'
    widths: Sequence[int] = (64, 128, 256, 512)
    he_init: bool = False
    norm: str = 'batch'

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> tuple[Array, Array]:
        init = kaiming_normal('fan_out') if self.he_init else None
        size, strides = (7, 2) if self.stem == 'imagenet' else (3, 1)
        x = nn.relu(conv_norm(x, mask, train, self.widths[0], size, self.norm, 'stem', strides, init))
        x = max_pool_stem(x) if self.stem == 'imagenet' else x
        for stage, (width, blocks) in enumerate(zip(self.widths, self.blocks, strict=True)):
            for number in range(blocks):
                strides = 2 if stage > 0 and number == 0 else 1
                x = self.block(width, strides, self.norm, init, name=f'stage{stage}_block{number}')(x, mask, train)
        x = global_average_pool(x)
        return linear(x, self.num_classes, name='head'), x
