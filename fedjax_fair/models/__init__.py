"""Networks by name, and the way to bring your own Flax module.

>>> model = make_model('cnn', num_classes=10, norm='group')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedjax_fair.models import catalogue as catalogue  # registers the networks
from fedjax_fair.models.adapter import from_linen
from fedjax_fair.models.conv import Conv, conv2d, with_conv
from fedjax_fair.models.factory import MODELS, describe_models, make_model
from fedjax_fair.models.norm import NORMS, norm_layer
from fedjax_fair.models.precision import PRECISIONS, in_precision
from fedjax_fair.models.projection import with_projection

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
    'with_conv',
    'with_projection',
]


def __getattr__(name: str) -> Any:
    if name != 'from_nnx':
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from fedjax_fair.models.nnx_adapter import from_nnx  # imported when asked for: flax.nnx is slow to import

    return from_nnx
