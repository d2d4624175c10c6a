"""From measured seconds to statistics, checks and a table."""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.peers.job import Job

LOSS_TOLERANCE = 0.1  # the sides draw their own initial weights, cohorts and batches


@dataclasses.dataclass(frozen=True)
class Measurement:
    """All that was seen of one side: seconds of its steady rounds, and its answers before and after them."""

    facts: Mapping[str, Any]
    ready_seconds: float
    first_round_seconds: float
    seconds: Sequence[float]
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def fastest(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def start_seconds(self) -> float:
        """Start-up and compilation: from launch to the end of the first round, without one round's work."""
        return max(self.ready_seconds + self.first_round_seconds - self.median, 0.0)


def check_equal_work(job: Job, sides: Mapping[str, Measurement]) -> None:
    """Refuse to compare sides that did not do the job, not with the same network, or not with the same success."""
    parameters = {name: side.facts['parameters'] for name, side in sides.items()}
    if len(set(parameters.values())) > 1:
        raise ValueError(f'{job.name}: the sides train different networks: parameters {parameters}')
    for name, side in sides.items():
        for what in ('examples', 'steps'):
            asked, done = getattr(job, f'{what}_per_round'), side.after[what]
            if done != asked:
                raise ValueError(f'{job.name}: {name} trained {done} {what} in a round instead of {asked}')
        before, after = side.before['loss'], side.after['loss']
        if not after < before:
            raise ValueError(f'{job.name}: {name} does not learn: test loss {before:.4f}, then {after:.4f}')
    losses = {name: side.after['loss'] for name, side in sides.items()}
    if max(losses.values()) > (1 + LOSS_TOLERANCE) * min(losses.values()):
        raise ValueError(f'{job.name}: after equally many rounds the sides differ: test losses {losses}')


def machine() -> dict[str, Any]:
    """Cores this process may use, the memory of the machine, and how busy it was in the last minute."""
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    return {'cores': len(os.sched_getaffinity(0)), 'memory_gib': round(memory / 2**30, 1), 'load': os.getloadavg()[0]}


def summarise(job: Job, host: Mapping[str, Any], ours: str, sides: Mapping[str, Measurement]) -> dict[str, Any]:
    """Everything worth keeping, ready for JSON; ``times_ours`` above 1 means slower than ours."""
    own = sides[ours]
    return {
        'job': dataclasses.asdict(job),
        'work_per_round': {'examples': job.examples_per_round, 'steps': job.steps_per_round},
        'machine': dict(host),
        'sides': {name: _entry(side, own) for name, side in sides.items()},
    }


def _entry(side: Measurement, own: Measurement) -> dict[str, Any]:
    return {
        **side.facts,
        'min_seconds': side.fastest,
        'median_seconds': side.median,
        'start_seconds': side.start_seconds,
        'times_ours': {'min': side.fastest / own.fastest, 'median': side.median / own.median},
        'loss': [side.before['loss'], side.after['loss']],
        'peak_mib': side.after['peak_mib'],
        'seconds': list(side.seconds),
    }


def as_markdown(summary: Mapping[str, Any]) -> str:
    """The summary as a table with what is needed to read it."""
    job, work, host, sides = (summary[key] for key in ('job', 'work_per_round', 'machine', 'sides'))
    head = (
        '| side | min s/round | median s/round | times ours (min) | times ours (median) | start-up + compile s '
        '| peak MiB | test loss |\n|---|---|---|---|---|---|---|---|'
    )
    rounds = len(next(iter(sides.values()))['seconds'])
    lines = [
        f'# {job["name"]}: {job["title"]}\n',
        f'{rounds} steady rounds of each side in turn; {host["cores"]} cores, {host["memory_gib"]} GiB of memory, '
        f'load {host["load"]:.1f} before the start. '
        f'Every side trains {work["examples"]:,} examples in {work["steps"]:,} steps per round.\n',
        head,
        *(_row(name, side) for name, side in sides.items()),
        '',
        *(_about(name, side) for name, side in sides.items()),
    ]
    return '\n'.join(lines) + '\n'


def _row(name: str, side: Mapping[str, Any]) -> str:
    times, (before, after) = side['times_ours'], side['loss']
    cells = [
        name,
        f'{side["min_seconds"]:.3f}',
        f'{side["median_seconds"]:.3f}',
        f'{times["min"]:.2f}',
        f'{times["median"]:.2f}',
        f'{side["start_seconds"]:.1f}',
        f'{side["peak_mib"]:,}',
        f'{before:.3f} → {after:.3f}',
    ]
    return f'| {" | ".join(cells)} |'


def _about(name: str, side: Mapping[str, Any]) -> str:
    used = ', '.join(f'{package} {version}' for package, version in side['versions'].items())
    return f'- {name}: {side["how"]}; {side["parameters"]:,} parameters; {used}'
