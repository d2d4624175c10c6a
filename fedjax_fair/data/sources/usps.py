"""USPS, scanned digits of letters, in LIBSVM's text form: ``usps:FOLDER``.

A folder holds ``usps.bz2`` and ``usps.t.bz2`` (the test set). A line is a label 1..10 for the digits 0..9, then
``1:value`` to ``256:value``, the 16x16 greys scaled to -1..1. They become the nearest bytes; torchvision takes the next
lower ones, so that its images may be darker by one grey of 255.
"""

from __future__ import annotations

import bz2
import functools
import io
import pathlib

import numpy as np

from fedjax_fair.data.blocks import TEST, TRAIN, Block
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.contents import Arrays
from fedjax_fair.errors import DataError
from fedjax_fair.foreign import Inflating, check_files
from fedjax_fair.registry import register

SIDE, CLASSES = 16, 10
PIXELS = SIDE * SIDE
LONGEST = 1 << 14  # bytes of a line; one has some 4000


@register.source('usps', argument='FOLDER', about='USPS, digits of letters, from its two LIBSVM files')
def read_usps(folder: str) -> Arrays:
    """The training and test digits of a folder."""
    path = one_path(folder, f'`scenario`=usps:{folder}')
    splits = {'usps.bz2': TRAIN, 'usps.t.bz2': TEST}
    check_files(path, splits, f'`scenario`=usps:{folder}')
    return Arrays([_block(path / name, split) for name, split in splits.items()])


def _block(path: pathlib.Path, split: int) -> Block:
    if not path.is_file():
        raise DataError(f'`scenario`=usps: {path.name}: no such file in {path.parent}')
    try:
        with bz2.open(path) as file:
            text = Inflating(file, path.stat().st_size, f'`scenario`=usps: {path.name}').read()
    except (OSError, EOFError) as error:
        raise DataError(f'`scenario`=usps: {path.name} cannot be read: {error}') from None
    if not text:
        raise DataError(f'`scenario`=usps: {path.name} holds no examples')
    lines = iter(functools.partial(io.BytesIO(text).readline, LONGEST), b'')
    rows = np.array([_row(line, f'`scenario`=usps: {path.name}, line {n}') for n, line in enumerate(lines, 1)])
    images = np.rint((rows[:, 1:] + 1) / 2 * 255).astype(np.uint8).reshape(-1, SIDE, SIDE, 1)
    return Block(path.name, images, rows[:, 0].astype(np.int32) - 1, np.full(len(rows), split))


def _row(line: bytes, where: str) -> np.ndarray:
    """The label and the values of one line."""
    try:
        numbers = np.array([float(word) for word in line.replace(b':', b' ').split()])
    except ValueError as error:
        raise DataError(f'{where}: {error}') from None
    label, index, values = numbers[:1], numbers[1::2], numbers[2::2]
    if line.count(b':') != PIXELS or not np.array_equal(index, np.arange(1, PIXELS + 1)) or len(values) != PIXELS:
        raise DataError(f'{where}: a label and 1:value to {PIXELS}:value are needed')
    if label[0] not in range(1, CLASSES + 1):
        raise DataError(f'{where}: label {label[0]:g} is not one of 1 to {CLASSES}')
    if not (np.abs(values) <= 1).all():
        raise DataError(f'{where}: values must be in -1..1, got {values.min():g} to {values.max():g}')
    return np.concatenate([label, values])
