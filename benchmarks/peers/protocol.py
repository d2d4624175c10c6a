"""How the driver talks to a worker: a word per line on its standard input, a JSON object per line on its output.

A worker first sends its facts, then answers ``round`` with the seconds one round took and ``check`` with the loss of
its model and the work of its last round. It ends when its input does.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TextIO

from benchmarks.peers.job import Job


class Side(Protocol):
    """One simulator doing one job; ``round`` returns when its result has been computed."""

    def facts(self) -> dict[str, Any]: ...

    def round(self) -> None: ...

    def check(self) -> dict[str, Any]: ...


# --- in the worker ---------------------------------------------------------------------------------------------------


def main(make: Callable[..., Side]) -> None:
    """Run a worker module; its arguments are the job as JSON, the data file and options of ``make``."""
    job, data, *options = sys.argv[1:]
    answers = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not be taken for an answer
    serve(make(Job(**json.loads(job)), data, *options), sys.stdin, answers)


def serve(side: Side, requests: Iterable[str], answers: TextIO) -> None:
    """Answer requests until there are no more."""

    def answer(value: Mapping[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    answer(side.facts())
    for request in map(str.strip, requests):
        if request == 'round':
            start = time.perf_counter()
            side.round()
            answer({'seconds': time.perf_counter() - start})
        elif request == 'check':
            answer({**side.check(), 'peak_mib': _peak_mib()})
        else:
            raise ValueError(f'request {request!r} is not one of round, check')


def _peak_mib() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> (20 if sys.platform == 'darwin' else 10)  # bytes there, KiB elsewhere


def versions(*packages: str) -> dict[str, str]:
    """The versions of Python and of installed packages."""
    return {'python': platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}


# --- in the driver ---------------------------------------------------------------------------------------------------


class WorkerError(RuntimeError):
    """A worker ended without an answer; what it had to say is on standard error."""


class Worker:
    """A running worker; ``facts`` came with its start, which took ``ready_seconds``."""

    def __init__(self, name: str, command: Sequence[str], *, cwd: Any = None, env: Mapping[str, str] | None = None):
        self.name = name
        start = time.perf_counter()
        self._process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.facts = self._read()
        self.ready_seconds = time.perf_counter() - start

    def ask(self, request: str) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        with contextlib.suppress(BrokenPipeError):  # it has ended already: reading says so
            print(request, file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ''
        if not line:
            self.close()
            raise WorkerError(f'worker {self.name} ended with code {self._process.returncode} before it answered')
        return json.loads(line)

    def close(self) -> None:
        """Let the worker end, and wait for it."""
        self._process.communicate()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc) -> None:
        self.close()
