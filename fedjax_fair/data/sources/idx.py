"""IDX files, the form in which MNIST, Fashion-MNIST, EMNIST and KMNIST are given out: ``idx:FOLDER``.

A folder holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same two for ``t10k``, plain or ``.gz``,
as in Debian's package dataset-fashion-mnist; or, of EMNIST, ``emnist-letters-train-images-idx3-ubyte`` and so on with
``test``. It may also be the folder in which torchvision keeps them, ``ROOT`` of ``ROOT/MNIST/raw``.
"""

from __future__ import annotations

import gzip
import math
import pathlib
import re
import struct
import zlib
from typing import Annotated

import numpy as np

from fedjax_fair.data.blocks import TEST, TRAIN, Block
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.contents import Arrays
from fedjax_fair.errors import DataError
from fedjax_fair.foreign import Inflating, check_files, check_inflated
from fedjax_fair.registry import register

FILE_ENDINGS = {'images': 'images-idx3-ubyte', 'labels': 'labels-idx1-ubyte'}
TRAIN_IMAGES = re.compile(r'(?:(.+)-)?train-images-idx3-ubyte(?:\.gz)?')
DEBIAN = '/usr/share/datasets/fashion-mnist'
NUMBER_TYPES = {0x08: '>u1', 0x09: '>i1', 0x0B: '>i2', 0x0C: '>i4', 0x0D: '>f4', 0x0E: '>f8'}


def read_idx_file(path: pathlib.Path) -> np.ndarray:
    """One array: two zero bytes, its type, its number of axes, their lengths as big-endian integers, its values."""
    try:
        with gzip.open(path) if path.suffix == '.gz' else path.open('rb') as file:
            return _array(Inflating(file, path.stat().st_size, path.name), path.name)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f'`scenario`=idx: {path.name} cannot be read: {error}') from None


def _array(file: Inflating, name: str) -> np.ndarray:
    """The array in a stream; what its head says is read, and one byte more, which must not be there."""
    where = f'`scenario`=idx: {name}'
    start = file.read(4)
    if len(start) < 4 or start[:2] != b'\0\0' or start[2] not in NUMBER_TYPES or not 0 < start[3] < 5:
        raise DataError(f'{where} is not an IDX file')
    kind, axes = np.dtype(NUMBER_TYPES[start[2]]), start[3]
    lengths = file.read(4 * axes)
    shape = struct.unpack(f'>{axes}I', lengths) if len(lengths) == 4 * axes else ()
    size = kind.itemsize * math.prod(shape)
    claim = f'{where} should hold {shape} values of {kind.itemsize} bytes'
    check_inflated(file.stored, size, f'{claim}, which')
    raw = file.read(size + 1)
    if not shape or len(raw) != size:
        raise DataError(f'{claim}, but does not')
    return np.frombuffer(raw, kind).reshape(shape).astype(kind.newbyteorder('='))


@register.source('idx', argument='FOLDER', about='MNIST, Fashion-MNIST, EMNIST and the like from a folder of IDX files')
def read_idx(
    folder: str, name: Annotated[str, 'set, where a folder holds several, such as emnist-letters'] = ''
) -> Arrays:
    """The training and test images of a folder; ``name`` says which set, where a folder holds several."""
    path = _folder(folder)
    name = name or _only_name(path)
    test = 'test' if name else 't10k'
    prefix = f'{name}-' if name else ''
    blocks = []
    for part, split in (('train', TRAIN), (test, TEST)):
        images, labels = (
            read_idx_file(_find(path, f'{prefix}{part}-{FILE_ENDINGS[what]}')) for what in ('images', 'labels')
        )
        if images.ndim != 3 or labels.shape != images.shape[:1] or (images.dtype, labels.dtype) != (np.uint8,) * 2:
            held = f'images {images.dtype} {images.shape} and labels {labels.dtype} {labels.shape}'
            raise DataError(f'`scenario`=idx:{folder}: {part} has {held}; expected are bytes [T, H, W] and [T]')
        images, labels = _corrected(images, labels.astype(np.int32), name, folder)
        blocks.append(Block(name or path.name, images[..., None], labels, np.full(len(labels), split)))
    return Arrays(blocks)


def _corrected(images: np.ndarray, labels: np.ndarray, name: str, folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels corrected for EMNIST, which exchanges rows and columns and numbers its letters from 1."""
    if name.startswith('emnist'):
        images = np.ascontiguousarray(images.swapaxes(1, 2))
    if name == 'emnist-letters':
        if len(labels) and not labels.min():
            raise DataError(f'`scenario`=idx:{folder}: {name} has label 0; letters are numbered from 1')
        labels = labels - 1
    return images, labels


def _folder(argument: str) -> pathlib.Path:
    """Where the files are: in the folder named, or in ``raw`` below it, or in torchvision's way in ``MNIST/raw``."""
    hint = f'; Debian has it as package dataset-fashion-mnist, in {DEBIAN}' if 'fashion' in argument.lower() else ''
    path = one_path(argument, f'`scenario`=idx:{argument}', f'folder{hint}')
    held = [folder for folder in (path, path / 'raw', *sorted(path.glob('*/raw'))) if _names(folder)]
    if len(held) > 1 and held[0] != path:
        choices = ', '.join(map(str, held))
        raise DataError(f'`scenario`=idx:{argument} holds several data sets; choose one of {choices}')
    chosen = held[0] if held else path
    files = [str(file.relative_to(path)) for file in chosen.iterdir() if 'ubyte' in file.name]
    check_files(path, files, f'`scenario`=idx:{argument}')
    return chosen


def _names(folder: pathlib.Path) -> set[str]:
    """The sets that a folder holds: '' for files of plain names, 'emnist-letters' and so on for longer ones."""
    files = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    return {match[1] or '' for match in map(TRAIN_IMAGES.fullmatch, files) if match}


def _only_name(folder: pathlib.Path) -> str:
    names = _names(folder)
    if len(names) > 1 and '' not in names:
        raise DataError(f'`scenario`=idx:{folder} needs `source_options`=name=NAME, one of {", ".join(sorted(names))}')
    return '' if '' in names else ''.join(names)


def _find(folder: pathlib.Path, name: str) -> pathlib.Path:
    for path in (folder / name, folder / f'{name}.gz'):
        if path.is_file():
            return path
    raise DataError(f'`scenario`=idx:{folder}: no {name} or {name}.gz')
