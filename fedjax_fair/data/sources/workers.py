"""Work on many files by several threads, with a progress bar and one message for all files that fail."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from fedjax_fair.consoles import plain_column, plain_console
from fedjax_fair.errors import DataError
from fedjax_fair.escaping import visible

T = TypeVar('T')
NAMED = 3  # failures that a message tells of


class UnreadableFiles(DataError):
    """Files cannot be read: the message names the first of them, ``files`` all of them and why."""

    def __init__(self, message: str, files: Sequence[str]):
        super().__init__(message)
        self.files = tuple(map(visible, files))


def for_each(work: Callable[[int], T], root: pathlib.Path, names: Sequence[str], title: str) -> list[T]:
    """``work(k)`` of every file ``names[k]`` in ``root``, in order; UnreadableFiles names those that fail.

    >>> for_each(lambda k: k**2, pathlib.Path('scans'), ['a.png', 'b.png', 'c.png'], 'squares')
    [0, 1, 4]
    """

    def attempt(k: int) -> tuple[Any, str]:
        try:
            return work(k), ''
        except Exception as error:  # what a damaged file makes a decoder raise is anybody's guess
            return None, _reason(error, names[k])

    done = list(in_threads(attempt, len(names), title))
    if failed := [f'{name} ({why})' for name, (_, why) in zip(names, done, strict=True) if why]:
        told = ', '.join(failed[:NAMED]) + ', ...' * (len(failed) > NAMED)
        message = f'`scenario`: {len(failed)} of {len(names)} files in {root} cannot be read: {told}'
        raise UnreadableFiles(message, failed)
    return [result for result, _ in done]


def _reason(error: Exception, name: str) -> str:
    """Why a file failed, in one line without its path."""
    text = getattr(error, 'strerror', None) or str(error)
    return ' '.join(text.split()) if text and name not in text else 'not an image, or damaged'


def in_threads(work: Callable[[int], T], count: int, title: str) -> Iterator[T]:
    """``work(0)``, ``work(1)``, ... in this order, by as many threads as there are processors.

    Threads suffice: hashing, decoding and resizing, where the time goes, let other threads run.
    """
    import grain  # takes a second to import, for those who have image files

    threads = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=4 * threads)
    results = grain.MapDataset.range(count).map(work).to_iter_dataset(options)
    console = plain_console(file=sys.stderr)
    columns = (plain_column('{task.description}'), BarColumn(bar_width=16), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, *times, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield from bar.track(results, total=count, description=title)
