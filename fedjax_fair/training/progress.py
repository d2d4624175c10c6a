"""Live progress in a terminal, plain lines anywhere else."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from fedjax_fair.consoles import plain_column, plain_console
from fedjax_fair.core.evaluate import MODEL_KINDS


@dataclasses.dataclass
class Clock:
    """Seconds that something took."""

    seconds: float = 0.0


class Display:
    """Shows round, loss, fairness, speed and time left; the time of compilations counts for neither.

    In a terminal this is a bar; elsewhere one line at every evaluation. Written to standard error, so that standard
    output holds nothing but results.
    """

    def __init__(self, title: str, rounds: int, start: int = 0, console: Console | None = None, quiet: bool = False):
        self._console = console or plain_console(file=sys.stderr)
        self._title, self._rounds, self._start = title, rounds, start
        self._quiet, self._begun, self._note = quiet, time.perf_counter(), ''
        self._fairness = ''
        self._bar = Progress(
            plain_column('{task.description}'),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            plain_column('{task.fields[note]}'),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._task = self._bar.add_task(title, total=rounds, completed=start, note='')
        self._live = Live(self._bar, console=self._console, transient=True, refresh_per_second=4)

    def __enter__(self) -> Display:
        if self._console.is_terminal and not self._quiet:
            self._live.start()
        self._begun = time.perf_counter()
        return self

    def __exit__(self, *exc) -> None:
        if self._live.is_started:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a line, above the bar where there is one."""
        if not self._quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Print a line even when quiet."""
        self._console.print(f'{self._title}: {text}', soft_wrap=True)

    @contextlib.contextmanager
    def compiling(self, what: str) -> Iterator[Clock]:
        """Say that something is being compiled, and measure it."""
        clock, start = Clock(), time.perf_counter()
        if self._live.is_started:
            self._bar.update(self._task, note=f'compiling {what}')
            self._live.refresh()
        else:
            self.say(f'compiling {what}')
        yield clock
        clock.seconds = time.perf_counter() - start
        self._begun += clock.seconds
        self._bar.update(self._task, note=self._note)

    def update(self, done: int, loss: float, fairness: str = '') -> None:
        """Show the round just finished; ``fairness`` is given when there was an evaluation."""
        speed = (done - self._start) / max(time.perf_counter() - self._begun, 1e-9)
        self._fairness = fairness or self._fairness
        self._note = ' '.join(filter(None, [f'loss {loss:.4g}', self._fairness, f'{speed:.2f} rounds/s']))
        if self._live.is_started:
            self._bar.update(self._task, completed=done, note=self._note)
        elif fairness:
            left = (self._rounds - done) / max(speed, 1e-9)
            self.say(f'round {done}/{self._rounds} {self._note} {left:.0f} s left')


def fairness_note(summaries: Sequence[Mapping[str, Any]], kind: str = 'global') -> str:
    """How fair the models of one kind are now, over all lanes.

    >>> fairness_note([{'avg': 0.75, 'std': 0.125, 'worst': 0.5}, {'avg': 0.25, 'std': 0.125, 'worst': None}])
    'avg 50.0% std 12.5% worst n/a'
    >>> fairness_note([{'avg': 0.75, 'std': 0.125, 'worst': 0.5}], 'deployed')
    'deployed models: avg 75.0% std 12.5% worst 50.0%'
    """
    means = {key: np.mean([np.nan if s[key] is None else s[key] for s in summaries]) for key in ('avg', 'std', 'worst')}
    numbers = ' '.join(f'{key} {mean:.1%}' if np.isfinite(mean) else f'{key} n/a' for key, mean in means.items())
    if any(summary.get('loss', 0) is None for summary in summaries):
        numbers = 'diverged'
    return f'{kind} models: {numbers}' if MODEL_KINDS[kind].own else numbers
