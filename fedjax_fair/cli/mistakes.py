"""How commands fail: a user's mistake is one line on standard error and exit code 2, a bug shows its traceback."""

from __future__ import annotations

import contextlib
import dis
import pathlib
import sys
from collections.abc import Iterator
from typing import NoReturn

PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def fail(message: str) -> NoReturn:
    """Say what is wrong and leave."""
    print(f'fedjax-fair: error: {" ".join(message.split())}', file=sys.stderr)
    sys.exit(2)


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Turn a ValueError that our own checks raised into one line; any other error passes."""
    try:
        yield
    except ValueError as error:
        if not is_deliberate(error):
            raise
        fail(str(error))


def is_deliberate(error: BaseException) -> bool:
    """Whether an error comes from a ``raise`` statement of this package.

    Errors from inside another package, or from a builtin or an extension called here (which has no frame of its own),
    are bugs: passing them off as mistakes of the user would hide where they come from.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    code = last.tb_frame.f_code
    ours = pathlib.Path(code.co_filename).resolve().is_relative_to(PACKAGE)
    return ours and code.co_code[last.tb_lasti] == dis.opmap['RAISE_VARARGS']
