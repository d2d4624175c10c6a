"""Weights trained elsewhere: a PyTorch ``state_dict`` in a .safetensors or .npz file, mapped by name and layout."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from fedjax_fair.core.types import Variables
from fedjax_fair.errors import UserError
from fedjax_fair.foreign import npz_array

SHOWN = 4  # names of a kind that an error lists

_LEAVES = {'kernel': 'weight', 'scale': 'weight', 'bias': 'bias', 'mean': 'running_mean', 'var': 'running_var'}
_ORDER = {'first': '1', 'second': '2', 'third': '3'}

# Our layers as torchvision names them: a pattern of the path, and what its matches become.
_RESNET = [
    (r'stem_conv', lambda m: 'conv1'),
    (r'stem_norm', lambda m: 'bn1'),
    (r'stage(\d)_block(\d+)/shortcut_(conv|norm)', lambda m: f'{_block(m)}.downsample.{"01"[m[3] == "norm"]}'),
    (r'stage(\d)_block(\d+)/(\w+)_conv', lambda m: f'{_block(m)}.conv{_ORDER[m[3]]}'),
    (r'stage(\d)_block(\d+)/(\w+)_norm', lambda m: f'{_block(m)}.bn{_ORDER[m[3]]}'),
    (r'head', lambda m: 'fc'),
]
_DENSENET = [
    (r'stem_(conv|norm)', lambda m: f'features.{m[1]}0'),
    (r'block(\d)_layer(\d+)_(\w+)_(conv|norm)', lambda m: f'{_dense(m)}.{m[4]}{_ORDER[m[3]]}'),
    (r'transition(\d)_(conv|norm)', lambda m: f'features.transition{int(m[1]) + 1}.{m[2]}'),
    (r'final_norm', lambda m: 'features.norm5'),
    (r'head', lambda m: 'classifier'),
]
LAYERS: dict[str, list[tuple[str, Any]]] = {'resnet18': _RESNET, 'resnet50': _RESNET, 'densenet121': _DENSENET}


class Start(NamedTuple):
    """What a run begins with: some of a model's variables, and what a user should know about the others."""

    variables: Variables
    notes: tuple[str, ...]


def _block(m: re.Match) -> str:
    return f'layer{int(m[1]) + 1}.{m[2]}'


def _dense(m: re.Match) -> str:
    return f'features.denseblock{int(m[1]) + 1}.denselayer{int(m[2]) + 1}'


def torch_name(model: str, path: Sequence[str]) -> str:
    """The name in torchvision's ``state_dict`` of the leaf at ``path``, collection included.

    >>> torch_name('resnet18', ('params', 'stage1_block0', 'shortcut_conv', 'kernel'))
    'layer2.0.downsample.0.weight'
    """
    layer = '/'.join(path[1:-1])
    for pattern, name in LAYERS[model]:
        if match := re.fullmatch(pattern, layer):
            return f'{name(match)}.{_LEAVES[path[-1]]}'
    raise KeyError(layer)


def _read_npz(path: pathlib.Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: npz_array(archive, name) for name in archive.files}


def _read_safetensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file  # imported here: few bring such a file

    return load_file(path)


READERS = {'.safetensors': _read_safetensors, '.npz': _read_npz}


def weights_file(path: str | pathlib.Path, model: str) -> pathlib.Path:
    """The file of weights that ``path`` names, which may begin with ``~`` and hold ``$VARIABLES``."""
    file = pathlib.Path(os.path.expandvars(path)).expanduser()
    if not file.is_file():
        raise UserError(
            f'`pretrained`={path}: no such file with the weights IMAGENET1K_V1 of torchvision.models.{model}, '
            'which a line in README, section Models, writes; `pretrained`=none starts from random weights'
        )
    return file


def read_state_dict(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors or .npz file, under the names that torchvision uses today."""
    if path.suffix not in READERS:
        raise UserError(f'`pretrained`={path} must be a {" or ".join(READERS)} file')
    try:
        arrays = READERS[path.suffix](path)
    except Exception as error:  # whatever a broken file makes of its reader
        raise UserError(f'`pretrained`={path} cannot be read: {str(error).splitlines()[0]}') from None
    return {_today(name): array for name, array in arrays.items() if not name.endswith('num_batches_tracked')}


def _today(name: str) -> str:
    """Names without the prefix of a parallel module, and without the dots of old DenseNets (``norm.1``)."""
    return re.sub(r'\.(norm|conv)\.(\d)\.', r'.\1\2.', name.removeprefix('module.'))


def load_pretrained(path: str | pathlib.Path, model: str, shapes: Variables) -> Start:
    """The variables of ``model`` (``shapes`` tells their shapes) as stored in ``path``.

    A head of another number of classes is left out, to be drawn afresh. Anything else that does not match is an error
    that lists what is missing, unexpected or of another shape.
    """
    if model not in LAYERS:
        raise UserError(f'`pretrained`={path}: `model`={model} has no such weights; choose one of {", ".join(LAYERS)}')
    stored = read_state_dict(weights_file(path, model))
    wanted = {leaf: torch_name(model, leaf) for leaf in flatten_dict(shapes)}
    wanted_shapes = {leaf: tuple(struct.shape) for leaf, struct in flatten_dict(shapes).items()}
    arrays = {leaf: _our_layout(stored[name]) for leaf, name in wanted.items() if name in stored}
    head = {leaf for leaf in wanted if leaf[1] == 'head'}
    notes: tuple[str, ...] = ()
    if any(leaf in arrays and arrays[leaf].shape[-1:] != wanted_shapes[leaf][-1:] for leaf in head):
        classes = next(arrays[leaf].shape[-1] for leaf in head if leaf in arrays)
        notes = (f'{pathlib.Path(path).name} has a head of {classes} classes: this one starts afresh',)
        arrays = {leaf: array for leaf, array in arrays.items() if leaf not in head}
    differing = [leaf for leaf, array in arrays.items() if array.shape != wanted_shapes[leaf]]
    _refuse(
        f'`pretrained`={path} does not fit `model`={model}',
        missing=[name for leaf, name in wanted.items() if name not in stored],
        unexpected=sorted(set(stored) - set(wanted.values())),
        **{
            'of another shape': [
                f'{wanted[leaf]} {arrays[leaf].shape} instead of {wanted_shapes[leaf]}' for leaf in differing
            ]
        },
    )
    return Start(unflatten_dict(arrays), notes)


def _our_layout(array: np.ndarray) -> np.ndarray:
    """Kernels with inputs before outputs, channels last: OIHW to HWIO, OI to IO."""
    order = {4: (2, 3, 1, 0), 2: (1, 0)}
    return np.ascontiguousarray(array.transpose(order[array.ndim]) if array.ndim in order else array, np.float32)


def _refuse(title: str, **problems: Sequence[str]) -> None:
    told = []
    for what, names in problems.items():
        more = f' and {len(names) - SHOWN} more' if len(names) > SHOWN else ''
        told += [f'{what}: {", ".join(names[:SHOWN])}{more}'] if names else []
    if told:
        raise UserError(f'{title}; {"; ".join(told)}')
