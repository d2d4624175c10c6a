"""From measured seconds to statistics, checks and a table."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.peers.job import Job
from benchmarks.tables import table


@dataclasses.dataclass(frozen=True)
class Measurement:
    """All that was seen of one side: wall and CPU seconds of its steady rounds, and its answers before and after."""

    facts: Mapping[str, Any]
    ready_seconds: float
    first_round_seconds: float
    seconds: Sequence[float]
    cpu_seconds: Sequence[float]
    peak_mib: int
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


def refusals(job: Job, ours: str, sides: Mapping[str, Measurement]) -> dict[str, str]:
    """Peers that cannot be compared: other work, another network, or another success than ours. Ours must be right."""
    own = sides[ours]
    if fault := fault_of(job, own):
        raise ValueError(f'{job.name}: {ours} {fault}')
    faults = {name: fault_of(job, side) or _difference(job, side, own) for name, side in sides.items()}
    return {name: f'not comparable: it {fault}' for name, fault in faults.items() if fault}


def fault_of(job: Job, side: Measurement) -> str | None:
    """What is wrong with a side by itself: it did other work than the job asks for, or it does not learn."""
    for what in ('examples', 'steps'):
        asked, done = getattr(job, f'{what}_per_round'), side.after[what]
        if done != asked:
            return f'trained {done} {what} in a round instead of {asked}'
    before, after = side.before['loss'], side.after['loss']
    return None if after < before else f'does not learn: test loss {before:.4f}, then {after:.4f}'


def _difference(job: Job, side: Measurement, own: Measurement) -> str | None:
    parameters, right = side.facts['parameters'], own.facts['parameters']
    if parameters != right:
        return f'trains another network: {parameters} parameters instead of {right}'
    loss, right = side.after['loss'], own.after['loss']
    if abs(loss - right) > job.tolerance * own.before['loss']:
        return f'learns differently: test loss {loss:.4f} after equally many rounds instead of {right:.4f}'
    return None


def summarise(
    job: Job, host: Mapping[str, Any], ours: str, sides: Mapping[str, Measurement], left_out: Mapping[str, str]
) -> dict[str, Any]:
    """Everything worth keeping, ready for JSON; ``times_ours`` above 1 means slower than ours."""
    work = {what: getattr(job, f'{what}_per_round') for what in ('examples', 'steps', 'flops')}
    peak = host['peak']['gflops']
    return {
        'job': dataclasses.asdict(job),
        'work_per_round': work,
        'machine': dict(host),
        'sides': {name: _entry(side, sides[ours], work['flops'], peak) for name, side in sides.items()},
        'left_out': dict(left_out),
    }


def _entry(side: Measurement, own: Measurement, flops: int, peak: float) -> dict[str, Any]:
    gflops = flops / side.fastest / 1e9
    return {
        **side.facts,
        'min_seconds': side.fastest,
        'median_seconds': side.median,
        'times_ours': {'min': side.fastest / own.fastest, 'median': side.median / own.median},
        'cpu_seconds': statistics.mean(side.cpu_seconds),
        'gflops': gflops,
        'share_of_peak': gflops / peak,
        'start_seconds': side.start_seconds,
        'peak_mib': side.peak_mib,
        'loss': [side.before['loss'], side.after['loss']],
        'seconds': list(side.seconds),
    }


# --- the table -------------------------------------------------------------------------------------------------------

COLUMNS = (
    'side',
    'min s/round',
    'median s/round',
    'times ours (min)',
    'times ours (median)',
    'CPU s/round',
    'useful GFLOP/s',
    'share of peak',
    'start-up s',
    'peak MiB',
    'test loss',
)


def as_markdown(summary: Mapping[str, Any]) -> str:
    """The summary as a table with what is needed to read it."""
    job, work, host, sides = (summary[key] for key in ('job', 'work_per_round', 'machine', 'sides'))
    rounds = len(next(iter(sides.values()))['seconds'])
    lines = [
        f'# {job["name"]}: {job["title"]}\n',
        f'{rounds} steady rounds of each side in turn; {host["cores"]} cores, {host["memory_gib"]} GiB of memory, '
        f'load {host["load"]:.1f} before the start. Every side trains {work["examples"]:,} examples in '
        f'{work["steps"]:,} steps per round, {work["flops"] / 1e9:,.1f} useful GFLOP. Float32 matmul peak in this run: '
        f'{host["peak"]["gflops"]:.0f} GFLOP/s ({host["peak"]["library"]}).\n',
        *table(COLUMNS, [*(_row(name, side) for name, side in sides.items()), *summary['left_out'].items()]),
        '',
        *(_about(name, side) for name, side in sides.items()),
    ]
    return '\n'.join(lines) + '\n'


def _row(name: str, side: Mapping[str, Any]) -> list[str]:
    times, (before, after) = side['times_ours'], side['loss']
    warm = f' ({side["warm_start_seconds"]:.1f} cached)' if 'warm_start_seconds' in side else ''
    return [
        name,
        f'{side["min_seconds"]:.3f}',
        f'{side["median_seconds"]:.3f}',
        f'{times["min"]:.2f}',
        f'{times["median"]:.2f}',
        f'{side["cpu_seconds"]:.2f}',
        f'{side["gflops"]:.1f}',
        f'{side["share_of_peak"]:.1%}',
        f'{side["start_seconds"]:.1f}{warm}',
        f'{side["peak_mib"]:,}',
        f'{before:.3f} → {after:.3f}',
    ]


def _about(name: str, side: Mapping[str, Any]) -> str:
    used = ', '.join(f'{package} {version}' for package, version in side['versions'].items())
    return f'- {name}: {side["how"]}; {side["parameters"]:,} parameters; {used}'
