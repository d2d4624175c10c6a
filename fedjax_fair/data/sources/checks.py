"""Checks of tables, images and masks that several sources share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedjax_fair.data.sources.text_table import Table
from fedjax_fair.errors import DataError

MOST_PIXELS = 1024**3 // 4 // 3  # pixels of an image of any kind; Pillow's own limit


def check_pixels(height: int, width: int) -> None:
    """Refuse an image that would fill the memory, before it is decoded."""
    if height * width > MOST_PIXELS:
        raise DataError(f'its {height} x {width} pixels exceed the limit of {MOST_PIXELS}')


def numbers_below(table: Table, column: str, bound: int | None = None) -> np.ndarray:
    """A column of whole numbers from 0 (some publishers write 1 as 1.0), all below ``bound``."""
    numbers = []
    for line, text in enumerate(table[column], 1):
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < (np.iinfo(np.int32).max if bound is None else bound) or value != int(value):
            expected = 'whole numbers from 0' + ('' if bound is None else f' to {bound - 1}')
            raise DataError(f'{table.where}: column {column} of row {line} is {text!r}; {expected} are expected')
        numbers.append(int(value))
    return np.array(numbers, np.int32)


def black_and_white(masks: np.ndarray, names: Sequence[str]) -> bool:
    """Whether masks ``[T, H, W]`` are painted in 0 and 255, which stand for the classes 0 and 1.

    A 255 beside other values is refused, because it could be white or mark pixels of no class; the message uses the
    ``names`` of masks. Only where all numbers from 1 to 255 occur is it a class like any other.

    >>> black_and_white(np.array([[[0, 255]], [[0, 0]]]), 'ab'), black_and_white(np.array([[[0, 2]], [[0, 1]]]), 'ab')
    (True, False)
    """
    holds = np.zeros((len(masks), 256), bool)
    for row, mask in zip(holds, masks, strict=True):
        row[:] = np.bincount(mask.ravel(), minlength=256)
    white, other = holds[:, 255], holds[:, 1:255].any(1)
    if white.any() and other.any() and not holds[:, 1:].any(0).all():
        first, second = int(white.argmax()), int(other.argmax())
        value = 1 + int(holds[second, 1:255].argmax())
        raise DataError(
            f'`scenario`: {names[first]} holds 255 and {names[second]} holds {value}; '
            'masks are black and white (0 and 255) or hold class numbers 0, 1, 2, ...'
        )
    return not other.any()
