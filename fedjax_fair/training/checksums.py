"""Checksums of what a checkpoint holds: of every array, and of what is saved as JSON.

A checksum is about values, shape and type, not about the files or devices that hold them. So it does not change when
a run is resumed on other devices, and it also notices what goes wrong between memory and disk.

An array is read as a table of words of 64 bits with :data:`LANES` columns. The sum of every column and the sum of every
row are kept, and a CRC-32 of each: a flipped bit changes the sum of its column, and rows that change places change the
order of their sums. This takes a third of the time of a CRC-32 over all bytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from fedjax_fair.core.types import Array, PyTree

LANES, ROWS_AT_ONCE = 2048, 32  # 512 KiB, which stay in the cache of a core for the second sum


def of_array(array: Array | np.ndarray) -> int:
    """The checksum of an array on devices, in memory or in a mapped file; 64 bits.

    >>> one, other = np.zeros(3, np.float32), np.zeros(3, np.int32)
    >>> of_array(one) == of_array(one + 0), of_array(one) == of_array(one + 1), of_array(one) == of_array(other)
    (True, False, False)
    """
    value = _whole(array)
    data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    even = len(data) - len(data) % (8 * LANES)
    words, head = data[:even].view('<u8').reshape(-1, LANES), f'{value.dtype} {value.shape}'
    columns, rows = np.zeros(LANES, '<u8'), np.zeros(len(words), '<u8')
    for start in range(0, len(words), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        columns += words[block].sum(0)
        rows[block] = words[block].sum(1)
    rest = zlib.crc32(data[even:].data, zlib.crc32(head.encode()))
    return zlib.crc32(rows.data) << 32 | (zlib.crc32(columns.data, rest) if even else rest)


def _whole(array: Array | np.ndarray) -> np.ndarray:
    """All of an array, also where every process holds a piece of it; then all of them have to ask at the same time."""
    if isinstance(array, jax.Array) and not (array.is_fully_addressable or array.is_fully_replicated):
        return np.asarray(multihost_utils.process_allgather(array, tiled=True))
    return np.asarray(array)


def of_tree(tree: PyTree) -> dict[str, int]:
    """The checksum of every array by its path.

    >>> list(of_tree({'params': {'bias': np.zeros(2, np.float32)}}))
    ['params/bias']
    """
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator='/'): of_array(leaf) for path, leaf in leaves}


def of_json(value: Any) -> int:
    """The checksum of a value as JSON, which does not depend on the order of keys."""
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())


def difference(saved: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """The first name that only one of them has, or whose checksums differ; None where all is equal."""
    return next((name for name in sorted({*saved, *found}) if saved.get(name) != found.get(name)), None)
