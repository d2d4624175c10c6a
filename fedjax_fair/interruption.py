"""Stopping a run: Ctrl-C and SIGTERM ask for a checkpoint first.

Schedulers of clusters send SIGTERM before they end a job; the exit code 75 tells them that it may be started again.
A second signal ends the program at once, and no signal ends in a traceback. This module imports no large library, so
that the command line may answer signals before it imports them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from fedjax_fair.errors import OneLine

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 75}
AT_ONCE = OneLine('stopped at once; `resume` goes on from the last checkpoint, if any').with_flags()
SHOW_CURSOR = '\x1b[?25h'  # a bar of progress hides it

_leaving = threading.Lock()

Handler = Callable[[int, FrameType | None], Any]


class Interrupted(OneLine):
    """The user asked to stop; everything done so far is in a checkpoint."""

    def __init__(self, message: str, signum: int = signal.SIGINT):
        super().__init__(message)
        self.exit_code = EXIT_CODES[signal.Signals(signum)]


class Terminated(KeyboardInterrupt):
    """SIGTERM where no run can save a checkpoint."""


class StopFlag:
    """Turns the first signal into a request to stop after the rounds under way; the second one is immediate."""

    def __init__(self) -> None:
        self.asked, self.signum = False, int(signal.SIGINT)
        self._old: dict[int, Any] = {}

    def __enter__(self) -> StopFlag:
        self._old = on_signals(self._ask)
        return self

    def _ask(self, signum: int, frame: FrameType | None) -> None:
        self.asked, self.signum = True, signum
        for number, old in self._old.items():
            signal.signal(number, leave if old is unwind else old)

    def __exit__(self, *exc) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)


@contextlib.contextmanager
def of_program() -> Iterator[None]:
    """Signals while a program works: the first unwinds it, or stops its run, and the second one ends it at once."""
    before, others = on_signals(unwind), sys.unraisablehook

    def hook(late: Any) -> None:
        """Python drops what is raised in a destructor or by its collection of garbage: leave then."""
        if isinstance(late.exc_value, KeyboardInterrupt):
            leave(_signal_of(late.exc_value), None)
        others(late)

    sys.unraisablehook = hook
    try:
        with _watched():
            yield
    finally:
        sys.unraisablehook = others
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """The second signal is answered by a thread too: Python's handlers wait while a library compiles, for example."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen, written = os.pipe()
    os.set_blocking(written, False)
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(seen,), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(written)  # this ends the thread


def _watch(seen: int) -> None:
    stops = 0
    while number := os.read(seen, 1):
        stops += number[0] in EXIT_CODES
        if stops > 1:
            leave(number[0], None)
    os.close(seen)


def unwind(signum: int, frame: FrameType | None) -> NoReturn:
    """Raise the exception of a signal; the next one ends the program at once."""
    on_signals(leave)
    raise Terminated if signum == signal.SIGTERM else KeyboardInterrupt


def leave(signum: int, frame: FrameType | None) -> NoReturn:
    """End the program at once: libraries that are in the middle of something would answer with tracebacks."""
    if _leaving.acquire(blocking=False):
        cursor = SHOW_CURSOR if sys.stderr.isatty() else ''
        with contextlib.suppress(OSError):  # it may be closed
            os.write(2, f'{cursor}fedjax-fair: {AT_ONCE}\n'.encode())
    else:
        time.sleep(1.0)  # another thread is just saying it
    os._exit(EXIT_CODES[signal.Signals(signum)])


def end_stopped(code: object) -> None:
    """End a program that a signal has stopped, with its exit code; any other program goes on.

    Libraries take a while to be taken down. Python then answers no signal: a second one would change the code.
    """
    if code in EXIT_CODES.values():
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(int(str(code)))


def exit_code(error: KeyboardInterrupt) -> int:
    """The exit code of a program that a signal has unwound."""
    return EXIT_CODES[_signal_of(error)]


def _signal_of(error: KeyboardInterrupt) -> signal.Signals:
    return signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT


def on_signals(handler: Handler) -> dict[int, Any]:
    """Install a handler for all signals that stop a run; returns the former ones."""
    try:
        return {int(number): signal.signal(number, handler) for number in EXIT_CODES}
    except ValueError:  # not the main thread: leave signals to whoever owns them
        return {}
