"""Live progress in a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Display:
    """Shows round, loss, fairness, speed and time left.

    In a terminal this is a bar; elsewhere one line at every evaluation. Written to standard error, so that standard
    output holds nothing but results.
    """

    def __init__(self, title: str, rounds: int, start: int = 0, stream: TextIO | None = None, quiet: bool = False):
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self._title, self._rounds, self._start = title, rounds, start
        self._quiet, self._begun, self._last = quiet, time.perf_counter(), ''
        self._bar = Progress(
            TextColumn('{task.description}'),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn('{task.fields[speed]} {task.fields[note]}'),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._task = self._bar.add_task(title, total=rounds, completed=start, speed='', note='compiling')
        self._live = Live(self._bar, console=self._console, transient=True, refresh_per_second=4)

    def __enter__(self) -> Display:
        if self._console.is_terminal and not self._quiet:
            self._live.start()
        return self

    def __exit__(self, *exc) -> None:
        if self._live.is_started:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self._quiet:
            self._console.print(text, soft_wrap=True, markup=False)

    def begin(self) -> None:
        """Compilation is over: the clock for rounds per second starts."""
        self._begun = time.perf_counter()

    def update(self, done: int, loss: float, fairness: str = '') -> None:
        """Show the round just finished; ``fairness`` is given when there was an evaluation."""
        speed = (done - self._start) / max(time.perf_counter() - self._begun, 1e-9)
        self._last = fairness or self._last
        note = f'loss {loss:.4f} {self._last}'.rstrip()
        if self._live.is_started:
            self._bar.update(self._task, completed=done, speed=f'{speed:.2f} rounds/s', note=note)
        elif fairness:
            left = (self._rounds - done) / max(speed, 1e-9)
            self.say(f'{self._title} round {done}/{self._rounds} {note} {speed:.2f} rounds/s {left:.0f} s left')
