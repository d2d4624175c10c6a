"""Digits in MATLAB files: SVHN (``svhn:FOLDER``) and the synthetic digits made after it (``synth_digits:FOLDER``).

A folder holds ``train_32x32.mat`` and ``test_32x32.mat`` (Netzer et al., 2011), or ``synth_train_32x32.mat`` and
``synth_test_32x32.mat`` (Ganin and Lempitsky, 2015): ``X`` [32, 32, 3, N] of bytes and ``y`` [N, 1], in which SVHN
writes the digit 0 as 10.
"""

from __future__ import annotations

import math
import pathlib
from typing import Annotated, Any

import numpy as np

from fedjax_fair.data.blocks import TEST, TRAIN, Block
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.contents import Arrays
from fedjax_fair.errors import DataError
from fedjax_fair.foreign import check_files, check_room
from fedjax_fair.registry import register

NUMBERS = {
    'double': 'f8',
    'single': 'f4',
    **{f'{u}int{8 * n}': f'{u or "i"}{n}' for u in ('', 'u') for n in (1, 2, 4, 8)},
}


@register.source('svhn', argument='FOLDER', about='SVHN, digits of house numbers, from its MATLAB files')
def read_svhn(folder: str, extra: Annotated[bool, 'train on the extra images too'] = False) -> Arrays:
    """Street numbers; ``extra`` trains on the 531 131 easier images of ``extra_32x32.mat`` too."""
    path = one_path(folder, f'`scenario`=svhn:{folder}')
    splits = {'train': TRAIN, **({'extra': TRAIN} if extra else {}), 'test': TEST}
    return Arrays([_block(path, f'{name}_32x32.mat', split, 'svhn') for name, split in splits.items()])


@register.source('synth_digits', argument='FOLDER', about='synthetic digits in MATLAB files like those of SVHN')
def read_synth_digits(folder: str) -> Arrays:
    """Digits in many fonts, colours and backgrounds."""
    path = one_path(folder, f'`scenario`=synth_digits:{folder}')
    splits = {'train': TRAIN, 'test': TEST}
    return Arrays([_block(path, f'synth_{name}_32x32.mat', split, 'synth_digits') for name, split in splits.items()])


def _block(folder: pathlib.Path, name: str, split: int, kind: str) -> Block:
    where, path = f'`scenario`={kind}: {name}', folder / name
    check_files(folder, [name], f'`scenario`={kind}')
    if not path.is_file():
        raise DataError(f'{where}: no such file in {path.parent}')
    held = _load(path, where)
    shapes = {name: f'{array.dtype} {array.shape}' for name, array in held.items()}
    x, y = (held.get(name, np.zeros(0)) for name in ('X', 'y'))
    if x.dtype != np.uint8 or x.shape[:-1] != (32, 32, 3) or y.dtype.kind not in 'uif' or y.size != x.shape[-1]:
        raise DataError(f'{where} must hold X, bytes (32, 32, 3, N), and y (N, 1), but holds {shapes}')
    if not np.isin(y, np.arange(11)).all():
        raise DataError(f'{where}: labels must be digits, 10 being 0 too, got {y.min()} to {y.max()}')
    images = np.ascontiguousarray(np.moveaxis(x, -1, 0))
    return Block(path.name, images, y.reshape(-1).astype(np.int32) % 10, np.full(y.size, split))


def _load(path: pathlib.Path, where: str) -> dict[str, np.ndarray]:
    """The two variables, those of them that are there and hold numbers."""
    import scipy.io  # a third of a second, for those who have MATLAB files

    try:
        held = [one for one in scipy.io.whosmat(path) if one[0] in ('X', 'y')]  # reads the headers
        for _, shape, kind in held:
            check_room(math.prod(shape) * np.dtype(NUMBERS.get(kind, 'f8')).itemsize, f'{where}: its {kind} {shape}')
        names = sorted({name for name, *_ in held} - {name for name, _, kind in held if kind not in NUMBERS})
        variables: dict[str, Any] = scipy.io.loadmat(path, variable_names=names) if names else {}
    except DataError:
        raise
    except Exception as error:  # a spoiled file makes SciPy fail in many ways
        raise DataError(f'{where} cannot be read as a MATLAB file of version 5: {error}') from None
    return {name: variables[name] for name in ('X', 'y') if isinstance(variables.get(name), np.ndarray)}
