"""What all sources ask of their arguments and tables; every mistake is one line that names the flag."""

from __future__ import annotations

import numpy as np

from fedjax_fair.data.sources.table import Table

LARGEST = 1024**3 // 4 // 3  # pixels of an image of any kind; Pillow's own limit


def check_pixels(height: int, width: int) -> None:
    """An image that would fill the memory is refused, before it is decoded."""
    if height * width > LARGEST:
        raise ValueError(f'its {height} x {width} pixels exceed the limit of {LARGEST}')


def numbers_below(table: Table, column: str, bound: int | None = None) -> np.ndarray:
    """A column of whole numbers from 0 (some publishers write 1 as 1.0), all below ``bound``."""
    found = []
    for line, text in enumerate(table[column], 1):
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < (np.iinfo(np.int32).max if bound is None else bound) or value != int(value):
            expected = 'whole numbers from 0' + ('' if bound is None else f' to {bound - 1}')
            raise ValueError(f'{table.where}: column {column} of row {line} is {text!r}; {expected} are expected')
        found.append(int(value))
    return np.array(found, np.int32)
