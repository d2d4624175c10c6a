"""Real processes of the command line that are stopped at a chosen moment.

A process shows what it is doing when it gets SIGURG: Python writes the stacks of all its threads into a file. Nothing
else in it differs from ``fedjax-fair``, and a process that is not yet so far ignores this signal.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LOOK = signal.SIGURG
SHOWN = 0.2  # seconds that writing the stacks may take
PATIENCE = 180.0  # seconds that a process may take to end after SIGINT or SIGTERM
FROM_START_TO_END = 1800.0  # seconds that a whole run may take
PROGRAM = """
import faulthandler, signal, sys
faulthandler.register(signal.SIGURG, open(sys.argv.pop(1), 'w'), all_threads=True)
from fedjax_fair.cli import console
console()
"""


def count(text: str) -> int:
    """A number of rounds or trials, as a word of a command line: 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'{text} is not a whole number of 1 or more')
    return int(text)


class Ended(NamedTuple):
    """How a process ended: its exit code, the CPU seconds it used, and what it said on standard error."""

    code: int
    cpu: float
    said: str


class Stopped(NamedTuple):
    """A process that got a signal: how it ended, and the stacks it showed just before."""

    ended: Ended
    stacks: str


def run(words: Sequence[str], cache: pathlib.Path, place: pathlib.Path) -> Ended:
    """The command ``fedjax-fair WORDS`` from its start to its end; ``place`` holds what it says."""
    with _started(words, cache, place) as process:
        spent, deadline = 0.0, time.monotonic() + FROM_START_TO_END
        while process.poll() is None and time.monotonic() < deadline:
            spent = cpu_seconds(process.pid) or spent
            time.sleep(0.02)
        process.kill()
        return _ended(process, spent, place)


def stop(
    words: Sequence[str], cache: pathlib.Path, place: pathlib.Path, number: signal.Signals, cpu: float, late: float
) -> Stopped | Ended:
    """The same, but it gets a signal ``late`` seconds after it has used ``cpu`` CPU seconds, if it lives so long."""
    with _started(words, cache, place) as process:
        spent = 0.0
        while spent < cpu and process.poll() is None:
            time.sleep(0.003)
            spent = cpu_seconds(process.pid) or spent
        time.sleep(late)
        if process.poll() is not None:
            return _ended(process, spent, place)
        stacks = _stacks(process, place)
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        process.kill()
        return Stopped(_ended(process, spent, place), stacks)


def cpu_seconds(pid: int) -> float:
    """What a living process has used so far; 0 if it is gone. CPU time moves as the work does on a busy machine too."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid of the C library makes it
    except OSError:
        return 0.0


@contextlib.contextmanager
def _started(words: Sequence[str], cache: pathlib.Path, place: pathlib.Path) -> Iterator[subprocess.Popen]:
    """A process that does not outlive the block."""
    place.mkdir(parents=True, exist_ok=True)
    (place / 'stacks').unlink(missing_ok=True)
    with (place / 'said').open('w') as said, (place / 'shown').open('w') as shown:
        process = subprocess.Popen(
            [sys.executable, '-c', PROGRAM, str(place / 'stacks'), *words],
            env={**os.environ, 'XDG_CACHE_HOME': str(cache)},
            stdout=shown,
            stderr=said,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _stacks(process: subprocess.Popen, place: pathlib.Path) -> str:
    process.send_signal(LOOK)
    path, deadline, text, before = place / 'stacks', time.monotonic() + SHOWN, '', ''
    while time.monotonic() < deadline and not (text and text == before):
        time.sleep(0.002)
        text, before = path.read_text(errors='replace') if path.exists() else '', text
    return text


def _ended(process: subprocess.Popen, spent: float, place: pathlib.Path) -> Ended:
    return Ended(process.wait(), spent, (place / 'said').read_text(errors='replace'))
