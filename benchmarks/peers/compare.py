"""Run one job on every side in turn, within one run, and write the comparison.

``python -m benchmarks.peers.compare --job=w1 --rounds=30``
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from benchmarks.peers import environment, report
from benchmarks.peers.job import JOBS, Job, write_data
from benchmarks.peers.protocol import Worker

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = HERE.parent / 'results'
WARM_UP = 1  # rounds between the first and the measured ones


@dataclasses.dataclass(frozen=True)
class Contender:
    """A worker module with its options; ``peer`` names the environment it needs, None being our own."""

    module: str
    options: tuple[str, ...] = ()
    peer: str | None = None

    def python(self) -> str:
        if self.peer is None:
            return sys.executable
        return environment.ensure(ROOT / '.cache' / 'bench' / self.peer, HERE / f'{self.peer}-requirements.txt')

    def command(self, job: Job, data: pathlib.Path) -> list[str]:
        """How its worker is started."""
        module = f'benchmarks.peers.{self.module}'
        return [self.python(), '-m', module, json.dumps(dataclasses.asdict(job)), str(data), *self.options]


OURS = 'fedjax_fair'
CONTENDERS = {
    OURS: Contender('worker_ours'),
    'fedjax_jit': Contender('worker_fedjax', ('jit',), 'fedjax'),
    'fedjax_pmap': Contender('worker_fedjax', ('pmap',), 'fedjax'),
}


def measure(workers: Sequence[Worker], rounds: int) -> dict[str, report.Measurement]:
    """Let the workers run their rounds in turn, A B C A B C ..., each alone while it runs."""
    before = {worker.name: worker.ask('check') for worker in workers}
    first = {worker.name: worker.ask('round')['seconds'] for worker in workers}
    turns = [{worker.name: worker.ask('round')['seconds'] for worker in workers} for _ in range(WARM_UP + rounds)]
    after = {worker.name: worker.ask('check') for worker in workers}
    return {
        worker.name: report.Measurement(
            facts=worker.facts,
            ready_seconds=worker.ready_seconds,
            first_round_seconds=first[worker.name],
            seconds=[turn[worker.name] for turn in turns[WARM_UP:]],
            before=before[worker.name],
            after=after[worker.name],
        )
        for worker in workers
    }


def compare(job: Job, names: Sequence[str], rounds: int) -> dict:
    """Start a worker for every named side, measure them and check that they did the same."""
    host = report.machine()
    env = {**os.environ, 'JAX_PLATFORMS': 'cpu'}
    env.pop('XLA_FLAGS', None)  # every side chooses its own devices
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        data = write_data(job, pathlib.Path(folder))
        commands = {name: CONTENDERS[name].command(job, data) for name in names}
        workers = [stack.enter_context(Worker(name, c, cwd=ROOT, env=env)) for name, c in commands.items()]
        sides = measure(workers, rounds)
    report.check_equal_work(job, sides)
    return report.summarise(job, host, OURS, sides)


def main() -> None:
    """Measure the job named on the command line and write its results."""
    peers = [name for name in CONTENDERS if name != OURS]
    parser = argparse.ArgumentParser(description='Compare fedjax_fair with other simulators on one job.')
    parser.add_argument('--job', choices=JOBS, default='w1')
    parser.add_argument('--peers', nargs='*', choices=peers, default=peers)
    parser.add_argument('--rounds', type=int, default=30, help='measured rounds of every side')
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS, help='folder of JOB.json and JOB.md')
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f'--rounds={args.rounds} must be at least 1')
    summary = compare(JOBS[args.job], [OURS, *dict.fromkeys(args.peers)], args.rounds)
    text = report.as_markdown(summary)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f'{args.job}.json').write_text(json.dumps(summary, indent=2) + '\n')
    (args.out / f'{args.job}.md').write_text(text)
    print(text)


if __name__ == '__main__':
    main()
