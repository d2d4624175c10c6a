"""Examples that stay in a memory-mapped file until they are indexed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class MappedRows:
    """The rows ``rows`` of a memory-mapped array, in that order; only indexing reads the file.

    >>> some = MappedRows(np.arange(10) ** 2, np.array([1, 3, 5]))
    >>> some.shape, some[np.array([2, 0])].tolist()
    ((3,), [25, 1])
    """

    def __init__(self, base: np.ndarray, rows: np.ndarray):
        self.base, self.rows = base, rows
        self.shape, self.dtype, self.ndim = (len(rows), *base.shape[1:]), base.dtype, base.ndim
        self.size = math.prod(self.shape)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, tuple):  # an index of several axes reads all rows
            return np.asarray(self.base[self.rows])[key]
        return np.asarray(self.base[self.rows[key]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


def chosen_rows(x: Any, chosen: np.ndarray) -> Any:
    """The rows that the boolean mask ``chosen`` marks; rows of a mapped file are not read."""
    if isinstance(x, MappedRows):
        return MappedRows(x.base, x.rows[chosen])
    return MappedRows(x, np.flatnonzero(chosen)) if isinstance(x, np.memmap) else x[chosen]
