"""Examples on disk: an array_record file of fixed-size records, each of which can be read alone.

A folder holds ``examples.array_record``, one record per example (the bytes of ``x``, then those of ``y``), and
``layout.json``, which says how many there are and of what shapes and types.
"""

from __future__ import annotations

import contextlib
import glob
import json
import pathlib
from typing import Any

import numpy as np
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

from fedjax_fair.errors import DataError
from fedjax_fair.process_marks import MARK, is_dead, new_mark

DATA, LAYOUT = 'examples.array_record', 'layout.json'
EXAMPLES_AT_ONCE = 1024  # examples in memory while they are written
# One record per group, so that an example is read without its neighbours; large ones read 3 times as fast uncompressed.
WRITE = 'group_size:1,uncompressed'
# No reading ahead, and a small buffer: with the default of 1 MB small examples take 3 times as long.
READ, BUFFER = 'readahead_buffer_size:0', 32768


def write_records(folder: pathlib.Path, x: np.ndarray, y: np.ndarray) -> None:
    """Write examples ``x[T, ...]`` with targets ``y[T, ...]`` into a new folder: all of them, or no folder at all.

    Only a chunk is in memory at a time, so ``x`` and ``y`` may be memory-mapped files.
    """
    if len(x) != len(y):
        raise ValueError(f'{folder}: {len(x)} examples, but {len(y)} targets')
    layout = {'count': len(x), 'x': (x.dtype.str, x.shape[1:]), 'y': (y.dtype.str, y.shape[1:])}
    record = _record(folder, layout)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = folder.with_name(f'.{folder.name}.{new_mark()}')
        try:
            draft.mkdir()
            _write(draft / DATA, record, x, y)
            (draft / LAYOUT).write_text(json.dumps(layout))
            draft.rename(folder)  # nobody ever sees half of it
        finally:
            _remove(draft)
            for left in folder.parent.glob(f'.{glob.escape(folder.name)}.{MARK}'):  # by a killed process
                if is_dead(left, left.name.rpartition('.')[2]):
                    _remove(left)
    except (OSError, RuntimeError) as error:
        raise DataError(f'{folder}: examples cannot be written: {error}') from None


class Records:
    """The examples that :func:`write_records` wrote, read at any positions.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = pathlib.Path(place, 'examples')
    ...     write_records(folder, np.arange(6.0).reshape(3, 2), np.array([5, 6, 7]))
    ...     x, y = Records(folder).take(np.array([2, 0]))
    >>> x.tolist(), y.tolist()
    ([[4.0, 5.0], [0.0, 1.0]], [7, 5])
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.count, self.record = _layout(folder)
        self.reader = ArrayRecordReader(str(folder / DATA), READ, file_reader_buffer_size=BUFFER)
        if not self.reader.ok() or self.reader.num_records() != self.count:
            raise DataError(f'{folder / DATA} is missing, cut short or damaged: not the {self.count} examples written')

    def __len__(self) -> int:
        return self.count

    def take(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``x`` and ``y`` at these positions, which may have any shape: ``[*indices.shape, ...]``."""
        places = np.asarray(indices, np.int64)
        if places.size and not 0 <= places.min() <= places.max() < self.count:
            raise ValueError(
                f'{self.folder}: positions {places.min()} to {places.max()} are not in 0..{self.count - 1}'
            )
        try:
            raw = b''.join(self.reader.read(places.ravel().tolist()))
        except RuntimeError as error:
            raise DataError(f'{self.folder / DATA} is damaged: {error}') from None
        if len(raw) != places.size * self.record.itemsize:
            raise DataError(f'{self.folder / DATA} does not hold examples as {LAYOUT} describes them')
        rows = np.frombuffer(raw, self.record).reshape(places.shape)
        return rows['x'].copy(), rows['y'].copy()  # arrays of their own, in one piece each


def _write(path: pathlib.Path, record: np.dtype, x: np.ndarray, y: np.ndarray) -> None:
    writer = ArrayRecordWriter(str(path), WRITE)
    for start in range(0, len(x), EXAMPLES_AT_ONCE):
        rows = np.empty(len(x[start : start + EXAMPLES_AT_ONCE]), record)
        rows['x'], rows['y'] = x[start : start + EXAMPLES_AT_ONCE], y[start : start + EXAMPLES_AT_ONCE]
        for row in rows:
            writer.write(row.tobytes())
    writer.close()


def _remove(draft: pathlib.Path) -> None:
    with contextlib.suppress(OSError):
        for name in (DATA, LAYOUT):
            (draft / name).unlink(missing_ok=True)
        draft.rmdir()


def _record(folder: pathlib.Path, layout: dict[str, Any]) -> np.dtype:
    """The type of one example; it must be numbers, since only these can be read back from bytes."""
    fields = [(name, np.dtype(layout[name][0]), tuple(layout[name][1])) for name in 'xy']
    if strange := [str(kind) for _, kind, _ in fields if kind.kind not in 'biuf']:
        raise ValueError(f'{folder}: examples and targets must be numbers, not {strange[0]}')
    return np.dtype(fields)


def _layout(folder: pathlib.Path) -> tuple[int, np.dtype]:
    path = folder / LAYOUT
    try:
        layout = json.loads(path.read_text())
        return int(layout['count']), _record(folder, layout)
    except OSError as error:
        raise DataError(f'{path} cannot be read: {error.strerror}') from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(f'{path} does not describe examples: {error}') from None
