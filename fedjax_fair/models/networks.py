"""Small networks as linen modules: ``module(x, mask, train) -> (logits, features)``; the last layer is ``head``."""

from __future__ import annotations

from collections.abc import Sequence

from flax import linen as nn

from fedjax_fair.core.types import Array
from fedjax_fair.models.layers import conv, flatten, linear
from fedjax_fair.models.norm import norm_layer
from fedjax_fair.models.pooling import max_pool


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
