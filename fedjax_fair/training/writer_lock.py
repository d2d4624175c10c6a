"""One writer per folder: a small file says which process writes there, until that process is done.

The file appears by exclusive creation, which is atomic on network file systems too; locks of the system (flock) are
not used, since not all of these have them. A process that was killed leaves its file behind. On the same machine the
process tells whether it still lives. Elsewhere the file does: its writer touches it every :data:`BEAT` seconds.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import json
import os
import pathlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import jax

from fedjax_fair.errors import UserError
from fedjax_fair.foreign import check_plain
from fedjax_fair.process_marks import SILENCE, is_running, machine, start_of
from fedjax_fair.publishing import reason

LOCK = '.fedjax_fair.lock'
CLAIM = '.fedjax_fair.claim'  # held for a moment by whoever removes the lock of a dead process; a lock itself
BEAT = 20.0  # seconds between signs of life of a writer

_held: contextvars.ContextVar[tuple[pathlib.Path, ...]] = contextvars.ContextVar('held', default=())


@contextlib.contextmanager
def writing(out: pathlib.Path) -> Iterator[None]:
    """Be the only writer of a folder and of all below it; refuses in one line while another process or thread writes.

    The folder is made if need be, and removed if nothing was written. What this thread writes below a folder that it
    holds needs no second lock. Where several processes make one run, the first one holds the lock for all.
    """
    if not is_writer():
        yield
        return
    place, held = pathlib.Path(os.path.realpath(out)), _held.get()
    above = (place, *place.parents)
    for folder in above:
        if folder not in held:
            refuse_if_written(folder, out)
    if any(folder in held for folder in above):
        yield
        return
    made = [folder for folder in above if not folder.exists()]
    try:
        with _locked(place / LOCK, out):
            token = _held.set((*held, place))
            try:
                yield
            finally:
                _held.reset(token)
    finally:
        for folder in made:  # from the inside out
            with contextlib.suppress(OSError):
                folder.rmdir()


def is_writer() -> bool:
    """Whether this process writes: of several that make one run, only the first does."""
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def held_above(out: pathlib.Path) -> list[tuple[pathlib.Path, str]]:
    """The folders around ``out`` that this thread holds, and the path of ``out`` in each."""
    place = pathlib.Path(os.path.realpath(out))
    return [(folder, place.relative_to(folder).as_posix()) for folder in _held.get() if folder in place.parents]


def refuse_if_written(folder: pathlib.Path, out: pathlib.Path) -> None:
    """Raise an error if a living process writes into ``folder``, on behalf of a command that writes into ``out``."""
    lock = folder / LOCK
    writer = _living_writer(lock)
    if writer is None:
        return
    who = f'process {writer.get("process", "?")} on {writer.get("host", "?")} since {writer.get("since", "?")}'
    same = pathlib.Path(os.path.realpath(out)) == pathlib.Path(os.path.realpath(folder))
    what = f'`out`={out} is' if same else f'`out`={out}: {folder} is'
    raise UserError(f'{what} being written by {who}; if that process is gone, delete {lock}')


@contextlib.contextmanager
def _locked(lock: pathlib.Path, out: pathlib.Path) -> Iterator[None]:
    mine = json.dumps(_this_process()).encode()
    try:
        out.mkdir(parents=True, exist_ok=True)
        _take(lock, mine, out)
    except OSError as error:
        raise UserError(f'`out`={out} cannot be written: {reason(error, out)}') from None
    done = threading.Event()
    try:
        threading.Thread(target=_beat, args=(lock, done), daemon=True).start()
        yield
    finally:
        done.set()
        with contextlib.suppress(OSError):  # the folder may be gone
            if lock.read_bytes() == mine:
                lock.unlink()


def _take(lock: pathlib.Path, mine: bytes, out: pathlib.Path) -> None:
    """Create the lock; one of a dead process is replaced by whoever holds the claim, so that only one process does.

    A process may die while it holds the claim. So a claim is taken as a lock is, and has a claim of its own.
    """
    if _created(lock, mine):
        return
    _refuse_if_held(lock, out)
    claim = lock.with_name(CLAIM if lock.name == LOCK else f'{lock.name}.claim')
    _take(claim, mine, out)
    try:
        _refuse_if_held(lock, out)  # by a process that held the claim before
        lock.unlink(missing_ok=True)
        if not _created(lock, mine):  # by a process that found no lock at all
            raise UserError(f'`out`={out} is being written by another process since a moment ago')
    finally:
        claim.unlink(missing_ok=True)


def _refuse_if_held(lock: pathlib.Path, out: pathlib.Path) -> None:
    if lock.name == LOCK:
        refuse_if_written(lock.parent, out)
    elif _living_writer(lock) is not None:
        raise UserError(f'`out`={out} is being claimed by another process; if {lock} stays, delete it')


def _created(path: pathlib.Path, content: bytes) -> bool:
    """Create a file, unless it exists."""
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileExistsError:
        return False
    try:
        os.write(file, content)
    except OSError:  # a full disk
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
    return True


def _beat(lock: pathlib.Path, done: threading.Event) -> None:
    while not done.wait(BEAT):
        with contextlib.suppress(OSError):
            os.utime(lock)


# --- who writes ------------------------------------------------------------------------------------------------------


def _this_process() -> dict[str, Any]:
    return {
        'process': os.getpid(),
        'host': socket.gethostname(),
        'since': datetime.datetime.now().astimezone().isoformat(' ', 'seconds'),
        'machine': machine(),
        'started': start_of(os.getpid()),
    }


def _living_writer(lock: pathlib.Path) -> dict[str, Any] | None:
    """What a lock says of its writer; None if there is none or it is dead."""
    check_plain(lock)
    try:
        text = lock.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # it belongs to somebody else
        text = b''
    try:
        writer = dict(json.loads(text))
    except (ValueError, TypeError):  # just being created, or damaged
        writer = {}
    alive = _is_alive(writer)
    if alive is None:
        alive = _silence(lock) < SILENCE
    return writer if alive else None


def _is_alive(writer: dict[str, Any]) -> bool | None:
    """None where this machine cannot tell."""
    process, started = writer.get('process'), writer.get('started')
    if writer.get('machine') != machine() or not isinstance(process, int) or process <= 0:
        return None
    start = start_of(process)
    if start is not None:
        return start == started  # another start: the number was given to another process
    return is_running(process) if os.name == 'posix' else None


def _silence(lock: pathlib.Path) -> float:
    """Seconds since a lock was touched, by the clock of its file system; 0 if that cannot be known."""
    try:
        with tempfile.TemporaryFile(dir=lock.parent) as now:
            return os.fstat(now.fileno()).st_mtime - lock.stat().st_mtime
    except OSError:
        return 0.0
