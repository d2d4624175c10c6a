"""How commands fail: a user's mistake is one line on standard error and exit code 2, a bug shows its traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import NoReturn

from fedjax_fair.errors import UserError

# What the system says of paths and disks, whatever we do. A file that is not there may be a bug, and is not among them.
REFUSED = (
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
)


def fail(message: str) -> NoReturn:
    """Say what is wrong and leave."""
    with contextlib.suppress(OSError):  # where nobody can be told, the exit code remains
        print(f'fedjax-fair: error: {" ".join(message.split())}', file=sys.stderr)
    sys.exit(2)


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Turn a mistake of the user into one line; any other error is a bug and passes.

    A path that the system refuses is no bug either.
    """
    try:
        yield
    except UserError as error:
        fail(error.with_flags())
    except OSError as error:
        if error.filename is None or error.errno not in REFUSED:
            raise
        fail(UserError(f'{error.filename}: {error.strerror}').with_flags())


@contextlib.contextmanager
def output_may_fail() -> Iterator[None]:
    """Our output may be closed, which is as if nobody read it, or its disk may be full, which is told in one line.

    Whoever reads it may have enough before its end, as ``head`` does: then leave without an error.
    """
    _open_closed_streams()
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        sys.exit(0)
    except OSError as error:
        if error.filename is not None or not _output_fails():
            raise
        _drop_output()
        fail(f'standard output cannot be written: {error.strerror}')


def _open_closed_streams() -> None:
    """Python has no stream where a descriptor is closed; the next file to be opened would get what libraries print."""
    for name, mode in {'stdin': 'r', 'stdout': 'w', 'stderr': 'w'}.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))  # the lowest descriptor: the closed one


def _output_fails() -> bool:
    try:
        print(flush=True)  # what failed before may have left nothing to be written
    except OSError:
        return True
    return False


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would complain at its end
