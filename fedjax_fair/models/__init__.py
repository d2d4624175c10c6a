"""Networks by name, and the way to bring your own Flax module.

>>> model = make_model('cnn', num_classes=10, norm='group')
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fedjax_fair.core.types import Model
from fedjax_fair.models import networks
from fedjax_fair.models.adapter import from_linen
from fedjax_fair.models.conv import Conv, conv2d, use_conv
from fedjax_fair.models.densenet import DenseNet
from fedjax_fair.models.norm import NORMS, norm_layer
from fedjax_fair.models.precision import PRECISIONS, in_precision
from fedjax_fair.models.projection import with_projection
from fedjax_fair.models.resnet import STEMS, ResNet, bottleneck
from fedjax_fair.models.unet import UNet

if TYPE_CHECKING:
    from fedjax_fair.models.nnx_adapter import from_nnx

__all__ = [
    'MODELS',
    'NORMS',
    'PRECISIONS',
    'Conv',
    'conv2d',
    'describe_models',
    'from_linen',
    'from_nnx',
    'in_precision',
    'make_model',
    'norm_layer',
    'use_conv',
    'with_projection',
]


def __getattr__(name: str) -> Any:
    if name != 'from_nnx':
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from fedjax_fair.models.nnx_adapter import from_nnx  # imported when asked for: flax.nnx is slow to import

    return from_nnx


def logreg(num_classes: int) -> Model:
    """Logistic regression, started at zero."""
    return from_linen(networks.LogisticRegression(num_classes), 'logreg')


def mlp(num_classes: int, widths: Sequence[int] = (200, 200)) -> Model:
    """Fully connected network with ReLU and hidden layers of 200 and 200."""
    return from_linen(networks.MLP(num_classes, tuple(widths)), 'mlp')


def cnn(num_classes: int, widths: Sequence[int] = (32, 64, 128), norm: str = 'none') -> Model:
    """Three 3x3 convolution blocks of 32, 64 and 128 channels and one linear layer."""
    return from_linen(networks.CNN(num_classes, tuple(widths), norm=norm), 'cnn')


def lenet(num_classes: int, norm: str = 'group') -> Model:
    """LeNet-5 with group norm: unpadded 5x5 convolutions of 6 and 16 channels, layers of 120 and 84; fast on CPU."""
    module = networks.CNN(num_classes, (6, 16), kernel_size=5, hidden=(120, 84), padded=False, norm=norm)
    return from_linen(module, 'lenet')


def resnet10(num_classes: int, norm: str = 'batch') -> Model:
    """ResNet-10 with the CIFAR stem: four stages of one basic block, 64 to 512 channels."""
    return from_linen(ResNet(num_classes, norm=norm), 'resnet10')


def resnet18(num_classes: int, stem: str = 'imagenet', norm: str = 'batch') -> Model:
    """ResNet-18 as in torchvision (stem=cifar: a 3x3 first layer and no max-pool, for images of 32x32)."""
    return from_linen(ResNet(num_classes, (2, 2, 2, 2), stem=_stem(stem), he_init=True, norm=norm), 'resnet18')


def resnet50(num_classes: int, stem: str = 'imagenet', norm: str = 'batch') -> Model:
    """ResNet-50 as in torchvision (stem=cifar: a 3x3 first layer and no max-pool, for images of 32x32)."""
    module = ResNet(num_classes, (3, 4, 6, 3), bottleneck, _stem(stem), he_init=True, norm=norm)
    return from_linen(module, 'resnet50')


def densenet121(num_classes: int, pad: int = 0, norm: str = 'batch') -> Model:
    """DenseNet-121 as in torchvision (pad=2 and norm=stateless: HarmoFL's for 96x96)."""
    return from_linen(DenseNet(num_classes, pad=pad, norm=norm), 'densenet121')


def unet(num_classes: int, features: int = 32, depth: int = 4, norm: str = 'batch') -> Model:
    """U-Net for segmentation: 32 features at full resolution, halved four times."""
    return from_linen(UNet(num_classes, features, depth, norm), 'unet')


def _stem(stem: str) -> str:
    if stem not in STEMS:
        raise ValueError(f'--model_options: stem={stem} is unknown; choose one of {", ".join(STEMS)}')
    return stem


MODELS: dict[str, Callable[..., Model]] = {
    f.__name__: f for f in (logreg, mlp, cnn, lenet, resnet10, resnet18, resnet50, densenet121, unet)
}


def make_model(
    name: str, num_classes: int, norm: str | None = None, projection: int | None = None, **options: Any
) -> Model:
    """Build a network of ``MODELS`` by name.

    ``norm`` is one of ``NORMS`` and None keeps the network's own (batch for resnet10, group for lenet, none for cnn);
    ``projection`` is the width of one before the head (:func:`with_projection`), if there is to be one; ``options`` are
    the network's own, for example ``widths=(64, 64)`` for mlp.
    """
    if projection is not None:
        return with_projection(make_model(name, projection, norm, **options), num_classes)
    if name not in MODELS:
        raise ValueError(f'model={name!r} is unknown; choose one of {", ".join(MODELS)}')
    if num_classes < 1:
        raise ValueError(f'num_classes={num_classes} must be at least 1')
    if norm is not None:
        norm_layer(norm)
    known = {n: [*inspect.signature(f).parameters][1:] for n, f in MODELS.items()}
    if norm is not None and 'norm' not in known[name]:
        able = ', '.join(n for n in known if 'norm' in known[n])
        raise ValueError(f'norm={norm!r}: model {name!r} has no normalisation layers; choose one of {able}')
    for option in options:
        if option not in known[name]:
            choices = ', '.join(known[name]) or 'none'
            raise ValueError(
                f'--model_options: option {option!r} is unknown for model {name!r}; its options: {choices}'
            )
    usual = inspect.signature(MODELS[name]).parameters
    fitted = {option: _fitted(option, value, usual[option].default) for option, value in options.items()}
    return MODELS[name](num_classes, **fitted, **({} if norm is None else {'norm': norm}))


def _fitted(option: str, value: Any, usual: Any) -> Any:
    """An option's value, of the kind its default is of; a single number may stand for a sequence of one."""
    if isinstance(usual, tuple) and isinstance(value, int):
        value = (value,)
    if not isinstance(value, list | tuple if isinstance(usual, tuple) else type(usual)):
        raise ValueError(f'--model_options: {option}={value} is not of the kind of its default {usual}')
    return value


def describe_models() -> dict[str, str]:
    """One line about every network, for listings."""
    return {name: (f.__doc__ or '').splitlines()[0] for name, f in MODELS.items()}
