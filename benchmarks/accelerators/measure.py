"""Rounds of a job in a worker of its own; the spread of clients is chosen in another worker before.

A worker that tries spreads has had all their programs in memory, so its peak would not be that of the chosen one.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.engine.session import on
from benchmarks.peers.compare import ROOT, WARM_UP, measurement
from benchmarks.peers.job import JOBS, Job, write_data
from benchmarks.peers.protocol import Worker, WorkerError, clean_environment
from benchmarks.peers.report import Measurement, fault_of
from benchmarks.tables import machine
from fedjax_fair.results.facts import git_commit

LEAST = 3  # rounds that are measured however long they take
Facts = Mapping[str, Any]


class Found(NamedTuple):
    """A record as :mod:`benchmarks.accelerators.record` describes it, and why jobs are not in it."""

    record: dict[str, Any]
    left_out: dict[str, str]


def measure(names: Sequence[str], seconds: float, tell: Callable[[str], None]) -> Found:
    """Measure jobs one after another, each for so many seconds; ``tell`` gets a line of progress now and then."""
    host = machine()
    jobs: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    facts: Facts = {}
    tell(on(host))
    for number, name in enumerate(names, 1):
        tell(f'[{number}/{len(names)}] {name}: {JOBS[name].title}')
        try:
            facts, jobs[name] = measured(JOBS[name], seconds, facts, tell)
        except WorkerError as error:
            left_out[name] = str(error)
            tell(f'{name} is left out: {error}')
    shared = {name: facts.get(name) for name in ('devices', 'versions')}
    host = {name: host[name] for name in ('cores', 'memory_gib')}
    return Found({**shared, 'machine': host, 'commit': git_commit(), 'jobs': jobs}, left_out)


def measured(job: Job, seconds: float, before: Facts, tell: Callable[[str], None]) -> tuple[Facts, dict[str, Any]]:
    """What a worker told of itself, and what was measured; ``before`` is what that of an earlier job told."""
    with tempfile.TemporaryDirectory() as folder:
        data, env = write_data(job, pathlib.Path(folder)), clean_environment(folder)

        def start(*options: str) -> Worker:
            words = [sys.executable, '-m', 'benchmarks.accelerators.worker', job.to_json(), str(data), *options]
            return Worker(job.name, words, cwd=ROOT, env=env, alone=True)

        with start() as worker:
            facts = worker.facts
            _check_devices(facts, before)
            tell(f'{in_words(facts["devices"])}; {spread_in_words(facts["spread"])}')
            side = None if facts['chosen_among'] else timed(worker, seconds)
        if side is None:
            with start(f'chunk={facts["chunk"]}') as worker:
                _check_devices(worker.facts, facts)
                side = timed(worker, seconds)
    if fault := fault_of(job, side):
        raise WorkerError(f'{job.name} {fault}')
    return facts, _entry(facts, side)


def timed(worker: Worker, seconds: float) -> Measurement:
    """Rounds until the time is over; whether it learns is asked early, for a job may be trained for too long."""
    before, first, *warm = [worker.ask(request) for request in ('check', 'round', *['round'] * WARM_UP)]
    after = worker.ask('check')
    turns: list[dict[str, Any]] = []
    begun = time.monotonic()
    while len(turns) < LEAST or time.monotonic() - begun < seconds:
        turns.append(worker.ask('round'))
    return measurement(worker, [before, first, *warm, *turns, after])


def _check_devices(facts: Facts, before: Facts) -> None:
    """JAX falls back to another platform where one cannot be started, which must not go unnoticed."""
    now, then = facts['devices'], (before or facts)['devices']
    if any(now[name] != then[name] for name in ('platform', 'kind', 'count')):
        raise WorkerError(f'failed: it ran on {in_words(now)}, and what came before it on {in_words(then)}')


def _entry(facts: Facts, side: Measurement) -> dict[str, Any]:
    return {
        'spread': {**facts['spread'], 'chosen_among': facts['chosen_among']},
        'rounds': len(side.seconds),
        'seconds_per_round': {'min': side.fastest, 'median': side.median},
        'compile_seconds': max(side.first_round_seconds - side.median, 0.0),
        'memory': {'device_peak_mib': side.after['device_peak_mib'], 'host_peak_mib': side.peak_mib},
    }


def in_words(devices: Mapping[str, Any]) -> str:
    """Devices as a reader knows them.

    >>> in_words({'platform': 'gpu', 'kind': 'Tesla T4', 'count': 1, 'memory_gib': 10.9})
    '1 x Tesla T4 with 10.9 GiB'
    """
    memory = '' if devices['memory_gib'] is None else f' with {devices["memory_gib"]} GiB'
    return f'{devices["count"]} x {devices["kind"]}{memory}'


def spread_in_words(spread: Mapping[str, Any]) -> str:
    """How many clients run at once.

    >>> spread_in_words({'devices': 2, 'clients_at_once': 1})
    '1 at once on each of 2 devices'
    """
    devices = spread['devices']
    return f'{spread["clients_at_once"]} at once on {"the device" if devices == 1 else f"each of {devices} devices"}'
