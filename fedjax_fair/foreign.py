"""Files that others made: what they are, where they lie and how much they hold is checked before they are read.

A named pipe or a device would be read for ever, a link may lead to files that nobody meant to show, and a small archive
may hold more than the memory. Each is refused in one line that names the file.
"""

from __future__ import annotations

import functools
import json
import math
import os
import pathlib
import stat
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from fedjax_fair.errors import DataError
from fedjax_fair.sizes import in_words

NO_FILES: dict[str, Callable[[int], bool]] = {  # what else a path may lead to
    'a named pipe': stat.S_ISFIFO,
    'a device': lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
    'a socket': stat.S_ISSOCK,
    'a folder': stat.S_ISDIR,
}
HARMLESS = 1 << 30  # bytes that any small file may inflate to
STEEPEST = 200  # times its size that a file may inflate to beyond that; images stay far below
BYTES_AT_ONCE = 1 << 20
LONGEST_TEXT = 1 << 26  # bytes of a file of settings
CONTAINER = pathlib.Path('/sys/fs/cgroup')  # its files tell how much memory a container has


# --- what a file is, and where ---------------------------------------------------------------------------------------


def check_files(root: str | os.PathLike, names: Iterable[str], where: str, anywhere: bool = False) -> None:
    """Refuse pipes, devices and the like below ``root``, and files behind a link that leads out of it.

    ``root`` itself may be a link. With ``anywhere`` names like ``../a.png`` may leave it. A file that is missing is
    left to whoever opens it. ``where`` begins error messages.
    """
    home = os.path.realpath(root)
    real = functools.cache(os.path.realpath)  # folders are looked up once
    for name in names:
        path = os.path.join(root, name)
        leaves = os.path.isabs(name) or '..' in name.split('/')
        if leaves and not anywhere:
            raise DataError(f'{where}: {name} lies outside of the data folder')
        try:
            found = os.lstat(path)
            linked = stat.S_ISLNK(found.st_mode)
            target = real(path) if linked else os.path.join(real(os.path.dirname(path)), os.path.basename(path))
            if not leaves and not is_inside(target, home):
                raise DataError(f'{where}: {name} {led_out(target)}')
            found = os.stat(path) if linked else found
        except OSError:
            continue
        _check_kind(found.st_mode, f'{where}: {name}')


def check_plain(path: str | os.PathLike, what: str = '', folder: bool = False) -> None:
    """Refuse a pipe, a device or the like that would be read for ever; what is missing is left to whoever opens it.

    ``what`` begins the error message; by default the path does. With ``folder`` the path may be one.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not (folder and stat.S_ISDIR(mode)):
        _check_kind(mode, what or os.fspath(path))


def _check_kind(mode: int, what: str) -> None:
    if not stat.S_ISREG(mode):
        kind = next((kind for kind, is_kind in NO_FILES.items() if is_kind(mode)), 'something else')
        raise DataError(f'{what} is {kind}, not a file')


def is_inside(target: str, home: str) -> bool:
    """Whether a path lies in or below a folder; both are free of links.

    >>> is_inside('/data/a', '/data'), is_inside('/database', '/data'), is_inside('/a', '/')
    (True, False, True)
    """
    return target == home or target.startswith(home.rstrip(os.sep) + os.sep)


def led_out(target: str) -> str:
    """What is told about a link out of the data folder."""
    return f'is a link that leads out of the data folder, to {target}; copy it, or name the folder where the files are'


# --- texts -----------------------------------------------------------------------------------------------------------


def is_writable_text(text: str) -> bool:
    r"""Whether a text can be a path, and can be written to a file: no zero bytes, no bytes that are not UTF-8.

    >>> is_writable_text('Zürich'), is_writable_text('bad\udcff'), is_writable_text('a\0b')
    (True, False, False)
    """
    return '\0' not in text and (text.isascii() or text.encode(errors='replace').decode() == text)


def text_of(path: str | os.PathLike, what: str) -> str:
    """The text of a small file, or of a pipe that a shell gives; ``what`` begins error messages."""
    try:
        with open(path, 'rb') as file:
            content = file.read(LONGEST_TEXT + 1)
        text = content.decode('utf-8-sig')
    except UnicodeDecodeError:
        raise DataError(f'{what} is not a text file') from None
    except (OSError, ValueError) as error:  # of a path with a zero byte, too
        raise DataError(f'{what}: {getattr(error, "strerror", None) or error}') from None
    if len(content) > LONGEST_TEXT:
        raise DataError(f'{what} holds more than {LONGEST_TEXT} bytes')
    return text


def json_of(text: str, what: str, **how: Any) -> Any:
    """The value of a JSON text; ``what`` begins error messages, ``how`` goes to ``json.loads``."""
    try:
        return json.loads(text, **how)
    except json.JSONDecodeError as error:
        raise DataError(f'{what} is not valid JSON: {error}') from None
    except RecursionError:
        raise DataError(f'{what} is not valid JSON: it is nested too deeply') from None
    except ValueError as error:  # a number of thousands of digits
        raise DataError(f'{what} is not valid JSON: {str(error).partition(";")[0]}') from None


# --- how much a file holds -------------------------------------------------------------------------------------------


def free_memory() -> float:
    """Bytes that can still be used; infinite where the system does not tell."""
    return min(_of_machine(), _of_container())


def _of_machine() -> float:
    try:
        lines = dict(line.split(':') for line in pathlib.Path('/proc/meminfo').read_text().splitlines())
        return 1024 * sum(int(lines[name].split()[0]) for name in ('MemAvailable', 'SwapFree'))
    except (OSError, ValueError, KeyError):
        pass
    try:
        return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    except (AttributeError, ValueError, OSError):
        return math.inf


def _of_container() -> float:
    try:
        limit, used = (float((CONTAINER / name).read_text()) for name in ('memory.max', 'memory.current'))
        parts = dict(line.split() for line in (CONTAINER / 'memory.stat').read_text().splitlines())
        given_back = sum(int(parts[name]) for name in ('active_file', 'inactive_file'))  # copies of what is on the disk
        return max(0.0, limit - used + given_back)
    except (OSError, ValueError, KeyError):  # no container, or one without a limit, which says 'max'
        return math.inf


def check_room(size: int, what: str, free: float | None = None) -> None:
    """Refuse what would not fit into memory, or into the ``free`` bytes of it; ``what`` begins the error message."""
    free = free_memory() if free is None else free
    if size > free:
        raise DataError(f'{what} needs {in_words(size)}, but {in_words(free)} of memory are free')


def check_inflated(stored: int, inflated: int, what: str) -> None:
    """Refuse what would not fit into memory, and a small file that would inflate to very much."""
    check_room(inflated, what)
    if inflated > max(HARMLESS, STEEPEST * stored):
        raise DataError(
            f'{what} would inflate from {stored} bytes to {in_words(inflated)}, more than {STEEPEST} times as much; '
            'if it is meant to, store it uncompressed'
        )


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int = ..., /) -> bytes:
        """The next bytes, at most ``size``; none at the end."""
        ...


class Inflating:
    """A stream out of a compressed file that refuses to give more than the file may hold; only ``read`` is there."""

    def __init__(self, stream: Readable, stored: int, what: str):
        self.stream, self.stored, self.what, self.given = stream, stored, what, 0
        self.limit = min(free_memory(), max(HARMLESS, STEEPEST * stored))

    def read(self, size: int = -1) -> bytes:
        """``size`` bytes, or all; in pieces, so that a wrong size allocates nothing."""
        parts = []
        while size and (part := self.stream.read(BYTES_AT_ONCE if size < 0 else min(size, BYTES_AT_ONCE))):
            parts.append(part)
            size -= len(part) if size > 0 else 0
            self.given += len(part)
            if self.given > self.limit:
                check_inflated(self.stored, self.given, self.what)
        return b''.join(parts)


# --- arrays in .npz files --------------------------------------------------------------------------------------------


def npz_array(archive: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    """An array of an .npz file, after a look at what its header and the archive say about its size."""
    assert archive.zip is not None  # it is open
    member = archive.zip.NameToInfo.get(name) or archive.zip.getinfo(f'{name}.npy')
    stored = archive.zip.start_dir  # bytes of all arrays: masks alone may well shrink by 300
    what = f'array {name!r} cannot be read: it'
    check_inflated(stored, member.file_size, what)
    with archive.zip.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = header(stream)
    declared = math.prod(shape) * kind.itemsize
    if declared > member.file_size and not kind.hasobject:
        claim = f'{kind} {shape}, {in_words(declared)}'
        raise DataError(f'{what} claims to be {claim}, but has {member.file_size} bytes')
    return archive[name]
