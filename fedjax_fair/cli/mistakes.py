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
def reader_may_leave() -> Iterator[None]:
    """Whoever reads our output may have enough before its end, as ``head`` does: then leave without an error."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would complain at its end
        sys.exit(0)
