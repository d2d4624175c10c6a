"""Marks in the names of files and folders that are being written: which process writes them, and whether it still does.

What a killed process left is told from what another one is writing just now. On the same machine the process tells; a
mark of another machine, which may share the disk, counts as dead when its file has not changed for a while.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import socket
import time
import zlib

MARK = '[0-9a-f]' * 16  # a pattern of names: 8 digits of the machine, 6 of the process, 2 of its marks
SILENCE = 300.0  # seconds without a sign of life until a writer elsewhere counts as dead

_numbers = itertools.count()


def new_mark() -> str:
    """A mark of this process, unlike its others.

    >>> new_mark() != new_mark(), len(new_mark())
    (True, 16)
    """
    return f'{_machine_code()}{os.getpid() & 0xFFFFFF:06x}{next(_numbers) & 0xFF:02x}'


def is_dead(path: pathlib.Path, mark: str) -> bool:
    """Whether nobody writes the file with this mark any more."""
    if mark[:8] == _machine_code():
        return not is_running(int(mark[8:14], 16))
    try:
        return time.time() - path.stat().st_mtime > SILENCE
    except OSError:
        return False


def is_running(process: int) -> bool:
    """Whether there is a process with this number on this machine."""
    start = start_of(process)
    if start is not None:
        return start != ''
    if os.name != 'posix':
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it belongs to somebody else
        return True
    return True


def start_of(process: int) -> str | None:
    """When a process started, in ticks since the machine did; '' if it is dead, None if the system does not tell."""
    try:
        state, *numbers = pathlib.Path(f'/proc/{process}/stat').read_text().rpartition(')')[2].split()
        return '' if state in 'ZX' else numbers[18]
    except (OSError, ValueError, IndexError):
        return None


@functools.cache
def machine() -> str:
    """Where numbers of processes mean the same: one start of one machine, and one container of it."""
    try:
        boot = pathlib.Path('/proc/sys/kernel/random/boot_id').read_text().strip()
        return f'{boot} {os.readlink("/proc/self/ns/pid")}'
    except OSError:
        return socket.gethostname()


def _machine_code() -> str:
    return f'{zlib.crc32(machine().encode()):08x}'
