"""A cache on disk of arrays that are made from files, by the contents of the files and the settings."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from fedjax_fair.cache_folder import cache_folder
from fedjax_fair.data.sources.workers import for_each
from fedjax_fair.errors import DataError
from fedjax_fair.sizes import in_words

T = TypeVar('T')
Read = Callable[[pathlib.Path], T]
Make = Callable[[pathlib.Path], None]
PLACE = 'XDG_CACHE_HOME names another place'


def cached(root: pathlib.Path, names: Sequence[str], settings: str, read: Read[T], make: Make) -> T:
    """The result of ``read(folder)`` for a folder that ``make(folder)`` filled from the files ``names`` below ``root``.

    ``make`` is called only if there is no folder for the same contents and ``settings`` yet, or if it is damaged.
    """
    key = hashlib.sha256(f'{content_digest(root, names)} {settings}'.encode()).hexdigest()
    entry = cache_folder('data') / 'arrays' / key
    try:
        return read(entry)
    except (OSError, ValueError, EOFError):
        _write(entry, make)
    return read(entry)


def content_digest(root: pathlib.Path, names: Sequence[str]) -> str:
    """A hash of names and contents; files whose size and time of change are as before are not read again."""
    note = cache_folder('data') / 'digests' / _fingerprint(root, names)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if re.fullmatch('[0-9a-f]{64}', known := note.read_text()):
            return known
    contents = for_each(lambda k: _file_digest(root / names[k]), root, names, 'reading')
    digest = hashlib.sha256(repr(list(zip(names, contents, strict=True))).encode()).hexdigest()
    with _folder(note.parent) as scratch:
        (scratch / note.name).write_text(digest)
        os.replace(scratch / note.name, note)
    return digest


def new_array(path: pathlib.Path, shape: tuple[int, ...]) -> np.memmap:
    """Zero bytes on disk; refused where the disk is too small, since writing to it would kill the process."""
    free = shutil.disk_usage(path.parent).free
    if math.prod(shape) > free:
        both = f'{in_words(math.prod(shape))}, but {in_words(free)} are free in {cache_folder("data")}'
        raise DataError(f'`scenario`: decoded, {shape} bytes need {both}; choose a smaller `image_size` ({PLACE})')
    return np.lib.format.open_memmap(path, 'w+', np.dtype(np.uint8), shape)


def mapped(path: pathlib.Path) -> np.memmap:
    """An array on disk, read-only."""
    return np.load(path, mmap_mode='r', allow_pickle=False)


def _write(entry: pathlib.Path, make: Make) -> None:
    """Make an entry in another folder and move it to its place when it is complete."""
    with _folder(entry.parent) as scratch:
        (made := scratch / 'made').mkdir()
        make(made)
        shutil.rmtree(entry, ignore_errors=True)
        try:
            made.rename(entry)
        except OSError:
            if not entry.exists():  # else another process was faster: its entry is as good
                raise


@contextlib.contextmanager
def _folder(parent: pathlib.Path) -> Iterator[pathlib.Path]:
    """A temporary folder inside ``parent``."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix='unfinished-', dir=parent) as folder:
            yield pathlib.Path(folder)
    except OSError as error:
        raise DataError(f'`scenario`: nothing can be kept in {parent}: {error.strerror} ({PLACE})') from None


def _fingerprint(root: pathlib.Path, names: Sequence[str]) -> str:
    try:
        stats = [os.stat(root / name) for name in names]
    except OSError as error:
        raise DataError(f'`scenario`: {error.filename} cannot be read: {error.strerror}') from None
    facts = [(name, s.st_size, s.st_mtime_ns) for name, s in zip(names, stats, strict=True)]
    return hashlib.sha256(repr((str(root.resolve()), facts)).encode()).hexdigest()


def _file_digest(path: pathlib.Path) -> str:
    with path.open('rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()
