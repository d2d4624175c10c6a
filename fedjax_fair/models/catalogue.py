"""The networks that have a name. The signature of a factory declares its options: types, ranges and choices."""

from __future__ import annotations

from typing import Annotated

from fedjax_fair.core.types import Model
from fedjax_fair.models import networks
from fedjax_fair.models.adapter import from_linen
from fedjax_fair.models.densenet import DenseNet
from fedjax_fair.models.norm import Norm
from fedjax_fair.models.resnet import ResNet, Stem, bottleneck
from fedjax_fair.models.unet import UNet
from fedjax_fair.options import at_least, between
from fedjax_fair.registry import register

Widths = Annotated[tuple[int, ...], 'features of every layer', at_least(1)]


@register.model
def logreg(num_classes: int) -> Model:
    """Logistic regression, started at zero."""
    return from_linen(networks.LogisticRegression(num_classes), 'logreg')


@register.model
def mlp(num_classes: int, widths: Widths = (200, 200)) -> Model:
    """Fully connected network with ReLU and hidden layers of 200 and 200."""
    return from_linen(networks.MLP(num_classes, tuple(widths)), 'mlp')


@register.model
def cnn(num_classes: int, widths: Widths = (32, 64, 128), norm: Norm = 'none') -> Model:
    """Three 3x3 convolution blocks of 32, 64 and 128 channels and one linear layer."""
    return from_linen(networks.CNN(num_classes, tuple(widths), norm=norm), 'cnn')


@register.model
def lenet(num_classes: int, norm: Norm = 'group') -> Model:
    """LeNet-5 with group norm: unpadded 5x5 convolutions of 6 and 16 channels, layers of 120 and 84; fast on CPU."""
    module = networks.CNN(num_classes, (6, 16), kernel_size=5, hidden=(120, 84), padded=False, norm=norm)
    return from_linen(module, 'lenet')


@register.model
def resnet10(num_classes: int, norm: Norm = 'batch') -> Model:
    """ResNet-10 with the CIFAR stem: four stages of one basic block, 64 to 512 channels."""
    return from_linen(ResNet(num_classes, norm=norm), 'resnet10')


@register.model
def resnet18(num_classes: int, stem: Stem = 'imagenet', norm: Norm = 'batch') -> Model:
    """ResNet-18 as in torchvision (stem=cifar: a 3x3 first layer and no max-pool, for images of 32x32)."""
    return from_linen(ResNet(num_classes, (2, 2, 2, 2), stem=stem, he_init=True, norm=norm), 'resnet18')


@register.model
def resnet50(num_classes: int, stem: Stem = 'imagenet', norm: Norm = 'batch') -> Model:
    """ResNet-50 as in torchvision (stem=cifar: a 3x3 first layer and no max-pool, for images of 32x32)."""
    return from_linen(ResNet(num_classes, (3, 4, 6, 3), bottleneck, stem, he_init=True, norm=norm), 'resnet50')


@register.model
def densenet121(
    num_classes: int,
    pad: Annotated[int, 'zeros on every side after the first block', at_least(0)] = 0,
    norm: Norm = 'batch',
) -> Model:
    """DenseNet-121 as in torchvision (pad=2 and norm=stateless: HarmoFL's for 96x96)."""
    return from_linen(DenseNet(num_classes, pad=pad, norm=norm), 'densenet121')


@register.model(per_pixel=True)
def unet(
    num_classes: int,
    features: Annotated[int, 'at full resolution', at_least(1)] = 32,
    depth: Annotated[int, 'how often the resolution is halved', between(0, 16)] = 4,
    norm: Norm = 'batch',
) -> Model:
    """U-Net for segmentation: 32 features at full resolution, halved four times."""
    return from_linen(UNet(num_classes, features, depth, norm), 'unet')
