"""Stopping a run: Ctrl-C asks for a checkpoint first."""

from __future__ import annotations

import signal
from typing import Any

from fedjax_fair.errors import OneLine


class Interrupted(OneLine):
    """The user asked to stop; everything done so far is in a checkpoint."""


class StopFlag:
    """Turns the first Ctrl-C into a request to stop after the rounds under way; the second one is immediate."""

    def __init__(self) -> None:
        self.asked = False
        self._old: Any = None

    def __enter__(self) -> StopFlag:
        try:
            self._old = signal.signal(signal.SIGINT, self._ask)
        except ValueError:  # not the main thread: leave Ctrl-C to whoever owns it
            self._old = None
        return self

    def _ask(self, signum, frame) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._old)

    def __exit__(self, *exc) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)
