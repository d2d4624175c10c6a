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
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TextIO, TypeVar

from benchmarks.peers import processes
from benchmarks.peers.job import Job

PATIENCE = 1200  # seconds after which a worker that does not answer is given up
FAREWELL = 60  # seconds it may take to end
FLAGS_OF_CALLER = ('XLA_FLAGS', 'JAX_COMPILATION_CACHE_DIR')


class Side(Protocol):
    """One simulator doing one job; ``round`` returns when its result has been computed."""

    def facts(self) -> dict[str, Any]: ...

    def round(self) -> None: ...

    def check(self) -> dict[str, Any]: ...


# --- in the worker ---------------------------------------------------------------------------------------------------

SomeSide = TypeVar('SomeSide', bound=Side)


def main(make: Callable[..., SomeSide]) -> SomeSide:
    """Run a worker module; its arguments are the job as JSON, the data file and options of ``make`` as name=value.

    Returns the side when there are no more requests, for those that have something to end.
    """
    job, data, *options = sys.argv[1:]
    answers = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not be taken for an answer
    side = make(Job.from_json(job), data, **dict(option.split('=') for option in options))
    serve(side, sys.stdin, answers)
    return side


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
            answer(side.check())
        else:
            raise ValueError(f'request {request!r} is not one of round, check')


def versions(*packages: str) -> dict[str, str]:
    """The versions of Python and of installed packages."""
    return {'python': platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}


# --- in the driver ---------------------------------------------------------------------------------------------------


def clean_environment(folder: str) -> dict[str, str]:
    """Variables for workers that find nothing compiled or decoded before, and no flags of the caller for XLA."""
    caller = {name: value for name, value in os.environ.items() if name not in FLAGS_OF_CALLER}
    return caller | {'XDG_CACHE_HOME': folder}


class WorkerError(RuntimeError):
    """A worker ended without an answer; what it had to say is on standard error."""


class Worker:
    """A running worker in a session of its own; ``facts`` came with its start, which took ``ready_seconds``.

    Between requests the worker and all its processes are stopped, so that what they do in the background does not
    disturb others. One that is ``alone`` goes on, and so notices when its driver is killed.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        cwd: Any = None,
        env: Mapping[str, str] | None = None,
        alone: bool = False,
    ):
        self.name, self._rest = name, signal.SIGCONT if alone else signal.SIGSTOP
        self._said = tempfile.TemporaryFile('w+')  # noqa: SIM115 (its last words, read if it fails)
        start = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            start_new_session=True,
        )
        self.facts = self._read()
        self.ready_seconds = time.perf_counter() - start
        processes.send(self._process.pid, self._rest)

    def ask(self, request: str) -> dict[str, Any]:
        """Send one request and wait for its answer, to which the CPU time and the peak memory so far are added."""
        pid = self._process.pid
        processes.send(pid, signal.SIGCONT)
        before = processes.cpu_seconds(pid)
        with contextlib.suppress(BrokenPipeError):  # it has ended already: reading says so
            print(request, file=self._process.stdin, flush=True)
        answer = self._read()
        used = processes.cpu_seconds(pid) - before
        processes.send(pid, self._rest)
        return {**answer, 'cpu_seconds': used, 'peak_mib': processes.peak_mib(pid)}

    def _read(self) -> dict[str, Any]:
        impatience = threading.Timer(PATIENCE, self._process.kill)
        impatience.start()
        try:
            line = self._process.stdout.readline() if self._process.stdout else ''
        finally:
            impatience.cancel()
        if not line:
            self.close()
            code = self._process.returncode
            raise WorkerError(f'failed: {self.name} ended with code {code} before it answered: {self._last_words()}')
        return json.loads(line)

    def _last_words(self) -> str:
        self._said.seek(0)
        text = self._said.read()
        print(f'--- {self.name}\n{text}', file=sys.stderr)
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), 'it said nothing')

    def close(self) -> None:
        """Let the worker end, and wait for it, though not for ever."""
        processes.send(self._process.pid, signal.SIGCONT)
        try:
            self._process.communicate(timeout=FAREWELL)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc) -> None:
        self.close()
