"""IDX files, the form in which MNIST, Fashion-MNIST, EMNIST and KMNIST are given out: ``idx:FOLDER``.

A folder holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same two for ``t10k``, plain or ``.gz``.
"""

from __future__ import annotations

import gzip
import pathlib
import struct
import zlib

import numpy as np

from fedjax_fair.data.options import named_folder
from fedjax_fair.data.parts import TEST, TRAIN, Part
from fedjax_fair.data.sources.found import Arrays

FILES = {'images': 'images-idx3-ubyte', 'labels': 'labels-idx1-ubyte'}
KINDS = {0x08: '>u1', 0x09: '>i1', 0x0B: '>i2', 0x0C: '>i4', 0x0D: '>f4', 0x0E: '>f8'}


def read_idx_file(path: pathlib.Path) -> np.ndarray:
    """One array: two zero bytes, its type, its number of axes, their lengths as big-endian integers, its values."""
    opener = gzip.open if path.suffix == '.gz' else open
    try:
        with opener(path, 'rb') as file:
            raw = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f'--scenario=idx: {path.name} cannot be read: {error}') from None
    if len(raw) < 4 or raw[:2] != b'\0\0' or raw[2] not in KINDS:
        raise ValueError(f'--scenario=idx: {path.name} is not an IDX file')
    kind, axes = np.dtype(KINDS[raw[2]]), raw[3]
    start = 4 + 4 * axes
    shape = struct.unpack(f'>{axes}I', raw[4:start]) if len(raw) >= start else ()
    if len(raw) != start + kind.itemsize * int(np.prod(shape)):
        raise ValueError(
            f'--scenario=idx: {path.name} should hold {shape} values of {kind.itemsize} bytes, but does not'
        )
    return np.frombuffer(raw, kind, offset=start).reshape(shape).astype(kind.newbyteorder('='))


def read_idx(folder: str) -> Arrays:
    """The training and test images of a folder."""
    path = named_folder(folder, f'--scenario=idx:{folder}')
    parts = []
    for name, split in (('train', TRAIN), ('t10k', TEST)):
        images, labels = (read_idx_file(_find(path, f'{name}-{FILES[what]}')) for what in ('images', 'labels'))
        if images.ndim != 3 or labels.shape != images.shape[:1]:
            raise ValueError(f'--scenario=idx:{folder}: {name} has images {images.shape} and labels {labels.shape}')
        split_of = np.full(len(labels), split)
        parts.append(Part(path.name, images[..., None], labels.astype(np.int32), split_of))
    return Arrays(parts)


def _find(folder: pathlib.Path, name: str) -> pathlib.Path:
    for path in (folder / name, folder / f'{name}.gz'):
        if path.exists():
            return path
    raise ValueError(f'--scenario=idx:{folder}: no {name} or {name}.gz')
