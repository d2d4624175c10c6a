"""Rounds of many clients beside one model that trains on as many examples, by the cycles of the compiler for TPU.

Run ``python -m benchmarks.tpu.yardstick`` where the compiler is installed (``pip install 'fedjax-fair[plan]'``); no TPU
is needed. What is recorded is not compiled again, so that a program that was stopped goes on. ``--only=w1`` chooses a
job.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax

from benchmarks.engine.session import RESULTS
from benchmarks.peers.job import JOBS, Job
from benchmarks.tables import machine, table
from fedjax_fair import results
from fedjax_fair.planning import Topology, topology
from fedjax_fair.planning.blank_data import blank_of, without_data
from fedjax_fair.results.files import read_json
from fedjax_fair.training import Config, prepare
from fedjax_fair.training.compiled import compiled_round

CHIP = 'v5e'
GOALS = {'w1': 1.3, 'w2': 1.5, 'w3': 1.5}  # cycles beside those of one model
HALF_GOAL, HALF_JOB = 0.6, 'w3'  # cycles in bfloat16 beside those in float32, each with its best number of clients
ABOUT = f"""# Rounds of many clients beside one model

A round of the jobs of [speed](../../docs/speed.md), compiled for one {CHIP} chip by its own compiler; nothing was run.
"One model" makes as many steps on as many examples: its batch is that of all clients together, and its kernels are
shared. Cycles are the compiler's estimate.
"""


class Case(NamedTuple):
    """A round of a job with ``chunk`` clients at once; None is one model in the place of all clients."""

    job: Job
    chunk: int | None
    precision: str = 'float32'

    @property
    def name(self) -> str:
        who = 'one model' if self.chunk is None else f'{self.chunk} at once'
        return f'{self.job.name}, {who}, {self.precision}'


def cases() -> Iterator[Case]:
    """One model, clients one by one, all at once and some, for every job; the job of bfloat16 in both precisions."""
    for name in GOALS:
        job = JOBS[name]
        for precision in ('float32', 'bfloat16') if name == HALF_JOB else ('float32',):
            for chunk in (None, 1, job.cohort, math.isqrt(job.cohort)):
                yield Case(job, chunk, precision)


def compiled(case: Case, machine: Topology) -> dict[str, Any]:
    """Cycles and temporaries of a round."""
    begun = time.perf_counter()
    job, together = case.job, case.job.cohort if case.chunk is None else 1
    config = Config(
        recipe='fedavg',
        model=job.model,
        norm=job.norm,
        rounds=2,
        local_epochs=job.epochs,
        batch_size=together * job.batch,
        lr=job.lr,
        momentum=job.momentum,
        precision=case.precision,
        chunk=case.chunk or 1,
    )
    sizes = {
        'clients': job.cohort // together,
        'examples': together * job.samples,
        'tests': job.tests,
        'side': job.image[0],
        'channels': job.image[2],
        'classes': job.classes,
    }
    data = blank_of(','.join(f'{name}={size}' for name, size in sizes.items()))
    found = compiled_round(prepare(without_data(config), platform=machine.platform, federation=data))
    seconds = round(time.perf_counter() - begun, 1)
    told = {'cycles': found.work.cycles, 'temporaries': found.temporaries, 'seconds': seconds}
    return told | {'commit': results.git_commit()}


def page(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A line per program beside one model, and what the goals say of the best ones."""
    cycles = {case: found[case.name]['cycles'] for case in cases() if case.name in found}
    rows = []
    for case, count in cycles.items():
        base = cycles.get(case._replace(chunk=None))
        rows.append([case.name, f'{count:.3g}', f'{count / base:.2f}' if base else ''])
    goals = [
        [what, f'{ratio:.2f}', f'{goal}', 'met' if ratio <= goal else 'not met'] for what, ratio, goal in _goals(cycles)
    ]
    rounds = table(['program', 'cycles of a round', 'beside one model'], rows)
    return '\n'.join([ABOUT, *rounds, '', *table(['the best', 'cycles', 'at most', 'goal'], goals), ''])


def _goals(cycles: Mapping[Case, float]) -> Iterator[tuple[str, float, float]]:
    """What is compared, by the best numbers of clients at once, and what it should be at most."""

    def best(job: str, precision: str = 'float32') -> Case | None:
        of = [one for one in cycles if (one.job.name, one.precision) == (job, precision) and one.chunk is not None]
        return min(of, key=cycles.__getitem__, default=None)

    for job, goal in GOALS.items():
        one, base = best(job), Case(JOBS[job], None)
        if one is not None and base in cycles:
            yield f'{one.name}, beside one model', cycles[one] / cycles[base], goal
    half, full = best(HALF_JOB, 'bfloat16'), best(HALF_JOB)
    if half is not None and full is not None:
        yield f'{half.name}, beside float32', cycles[half] / cycles[full], HALF_GOAL


def main() -> None:
    """Compile what is not recorded yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--only', default='')
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS)
    given = parser.parse_args()
    record, there = given.out / 'tpu_yardstick.json', topology(CHIP)
    found = read_json(record)['cases'] if record.exists() else {}
    for case in cases():
        if case.name in found or given.only not in case.name:
            continue
        print(case.name, file=sys.stderr, flush=True)
        found[case.name] = compiled(case, there)
        given.out.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({'machine': machine(), 'cases': found}, indent=2) + '\n')
        (given.out / 'tpu_yardstick.md').write_text(page(found))
        jax.clear_caches()
    print(page(found))


if __name__ == '__main__':
    main()
