"""Networks as linen modules: ``module(x, mask, train) -> (logits, features)``; the last layer is always ``head``."""

from __future__ import annotations

from collections.abc import Sequence

from flax import linen as nn

from fedjax_fair.core.types import Array
from fedjax_fair.models.layers import conv, flatten, global_average_pool, linear
from fedjax_fair.models.norm import norm_layer
from fedjax_fair.models.pool import max_pool


class LogisticRegression(nn.Module):
    """Linear softmax classifier, started at zero; the features are the flattened input."""

    num_classes: int

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> tuple[Array, Array]:
        x = flatten(x)
        head = nn.Dense(self.num_classes, param_dtype=x.dtype, kernel_init=nn.initializers.zeros_init(), name='head')
        return head(x), x


class MLP(nn.Module):
    """Fully connected ReLU network; the features are its last hidden layer."""

    num_classes: int
    widths: Sequence[int] = (200, 200)

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> tuple[Array, Array]:
        x = flatten(x)
        for i, width in enumerate(self.widths):
            x = nn.relu(linear(x, width, name=f'hidden{i}'))
        return linear(x, self.num_classes, name='head'), x


class CNN(nn.Module):
    """Convolution blocks (conv, norm, ReLU, 2x2 max-pool), then ReLU layers of the widths ``hidden`` and the head.

    The features are what the head sees: the flattened last block, or the last hidden layer.
    """

    num_classes: int
    widths: Sequence[int] = (32, 64, 128)
    kernel_size: int = 3
    hidden: Sequence[int] = ()
    padded: bool = True
    norm: str = 'none'

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> tuple[Array, Array]:
        for i, width in enumerate(self.widths):
            plain = self.norm == 'none'
            x = conv(x, width, self.kernel_size, f'conv{i}', use_bias=plain, padded=self.padded, pool=plain)
            if not plain:
                x = max_pool(norm_layer(self.norm)(name=f'norm{i}')(x, mask, train))
            x = nn.relu(x)  # after the max-pool: the same, on a quarter of the values
        x = flatten(x)
        for i, width in enumerate(self.hidden):
            x = nn.relu(linear(x, width, name=f'hidden{i}'))
        return linear(x, self.num_classes, name='head'), x


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where the shape changes (He et al., 2016)."""

    features: int
    strides: int
    norm: str

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> Array:
        def conv_norm(x: Array, size: int, strides: int, name: str) -> Array:
            x = conv(x, self.features, size, f'{name}_conv', strides, use_bias=self.norm == 'none')
            return norm_layer(self.norm)(name=f'{name}_norm')(x, mask, train)

        y = nn.relu(conv_norm(x, 3, self.strides, 'first'))
        y = conv_norm(y, 3, 1, 'second')
        changes = self.strides != 1 or x.shape[-1] != self.features
        return nn.relu(y + (conv_norm(x, 1, self.strides, 'shortcut') if changes else x))


class ResNet(nn.Module):
    """Residual network with the CIFAR stem (3x3, no pooling); the features are the globally averaged last stage."""

    num_classes: int
    widths: Sequence[int] = (64, 128, 256, 512)
    blocks: Sequence[int] = (1, 1, 1, 1)
    norm: str = 'batch'

    @nn.compact
    def __call__(self, x: Array, mask: Array, train: bool) -> tuple[Array, Array]:
        x = conv(x, self.widths[0], 3, name='stem_conv', use_bias=self.norm == 'none')
        x = nn.relu(norm_layer(self.norm)(name='stem_norm')(x, mask, train))
        for stage, (width, blocks) in enumerate(zip(self.widths, self.blocks, strict=True)):
            for block in range(blocks):
                strides = 2 if stage > 0 and block == 0 else 1
                x = BasicBlock(width, strides, self.norm, name=f'stage{stage}_block{block}')(x, mask, train)
        x = global_average_pool(x)
        return linear(x, self.num_classes, name='head'), x
