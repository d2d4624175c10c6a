"""Keeps Orbax quiet about errors that are told in one line of our own.

Its threads log a warning or a whole traceback of the same error. And when it fails to read one array, the other reads
that it had begun fail later, in callbacks and futures whose errors nobody can catch.
"""

from __future__ import annotations

import functools
import logging
import sys
import traceback
import warnings
from typing import Any

LIBRARY = '/orbax/'  # in the paths of its files
READER = 'tensorstore'  # reads and writes its arrays; its errors hold this word
UNREAD = "coroutine '(_read_|_deserialize_|async_deserialize)"  # what was not read any more


@functools.cache
def keep_orbax_quiet() -> None:
    """Drop what Orbax logs, unless the user asks for a verbose log, and errors that it cannot raise any more."""
    for name in ('absl', 'asyncio'):
        logging.getLogger(name).addFilter(_is_wanted)
    warnings.filterwarnings('ignore', UNREAD, RuntimeWarning)
    others = sys.unraisablehook

    def hook(late: Any) -> None:
        if not _of_orbax(late.exc_value, late.exc_traceback):
            others(late)

    sys.unraisablehook = hook


def _is_wanted(record: logging.LogRecord) -> bool:
    """Whether somebody else logs it, or the user wants all of it."""
    from absl import logging as absl_logging

    if absl_logging.get_verbosity() >= absl_logging.INFO:
        return True
    _, error, trace = record.exc_info or (None, None, None)
    return not (LIBRARY in record.pathname.replace('\\', '/') or (error is not None and _of_orbax(error, trace)))


def _of_orbax(error: BaseException | None, trace: Any) -> bool:
    files = [frame.filename.replace('\\', '/') for frame in traceback.extract_tb(trace)]
    late = READER in str(error) or 'Event loop is closed' in str(error)
    return late or any(LIBRARY in name for name in files)
