"""Run the jobs on every side in turn, within one run, and write the comparison.

``python -m benchmarks.peers.compare`` measures everything; ``--job=w2 --peers torch_1 pfl_2 --rounds=5`` a part of it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.peers import chart, environment, peak, report
from benchmarks.peers.contenders import CACHED, CONTENDERS, OURS
from benchmarks.peers.job import JOBS, Job, write_data
from benchmarks.peers.protocol import Worker, WorkerError, clean_environment
from benchmarks.tables import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / 'benchmarks' / 'results'
PEAK = 'torch'  # the environment in which the machine's peak is measured
WARM_UP = 1  # rounds between the first and the measured ones


def compare(job: Job, names: Sequence[str], rounds: int) -> dict[str, Any]:
    """Start a worker for every named side, measure them and check that they did the same."""
    host = machine()
    peers = {peer for name in names if (peer := CONTENDERS[name].peer)}
    pythons, missing = environment.ensure_all(sorted(peers | {PEAK}))
    python = pythons.get(PEAK, sys.executable)
    peaks = [peak.measure(python, cwd=ROOT)]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        data, env = write_data(job, pathlib.Path(folder)), _environment(folder)

        def start(name: str) -> Worker:
            contender = CONTENDERS[name]
            if contender.peer in missing:
                raise WorkerError(missing[contender.peer])
            command = contender.command(pythons.get(contender.peer or '', sys.executable), job, data)
            return stack.enter_context(Worker(name, command, cwd=ROOT, env=env))

        sides, left_out = measure(start, names, rounds)
        warm = warm_start(job, data, env) - sides[OURS].median
    peaks.append(peak.measure(python, cwd=ROOT))
    left_out |= report.refusals(job, OURS, sides)
    host['peak'] = max(peaks, key=lambda found: found['gflops'])
    kept = {name: side for name, side in sides.items() if name not in left_out}
    summary = report.summarise(job, host, OURS, kept, left_out)
    summary['sides'][OURS]['warm_start_seconds'] = max(warm, 0.0)
    return summary


def measure(
    start: Callable[[str], Worker], names: Sequence[str], rounds: int
) -> tuple[dict[str, report.Measurement], dict[str, str]]:
    """Let the sides run their rounds in turn, A B C A B C ..., each alone while it runs.

    Returns what was seen of each side, and why the others could not go to the end: a peer that fails is left out, and
    the others go on. Ours must not fail.
    """
    workers: dict[str, Worker] = {}
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    left_out: dict[str, str] = {}
    for request in ['start', 'check', *['round'] * (1 + WARM_UP + rounds), 'check']:
        for name in (name for name in names if name not in left_out):
            try:
                if request == 'start':
                    workers[name] = start(name)
                else:
                    answers[name].append(workers[name].ask(request))
            except WorkerError as error:
                if name == OURS:
                    raise
                left_out[name] = str(error)
    return {name: measurement(workers[name], answers[name]) for name in names if name not in left_out}, left_out


def measurement(worker: Worker, answers: Sequence[Mapping[str, Any]]) -> report.Measurement:
    """What a worker answered to a check, its first round, warm-up rounds, measured rounds and another check."""
    before, first, *turns, after = answers
    return report.Measurement(
        facts=worker.facts,
        ready_seconds=worker.ready_seconds,
        first_round_seconds=first['seconds'],
        seconds=[turn['seconds'] for turn in turns[WARM_UP:]],
        cpu_seconds=[turn['cpu_seconds'] for turn in turns[WARM_UP:]],
        peak_mib=turns[-1]['peak_mib'],
        before=before,
        after=after,
    )


def warm_start(job: Job, data: pathlib.Path, env: Mapping[str, str]) -> float:
    """Seconds from the second launch of ours with a compilation cache to the end of its first round."""
    for _ in range(2):  # the first one fills the cache
        with Worker(OURS, CACHED.command(sys.executable, job, data), cwd=ROOT, env=env) as worker:
            seconds = worker.ready_seconds + worker.ask('round')['seconds']
    return seconds


def _environment(folder: str) -> dict[str, str]:
    """All sides use the CPU, nothing is reported to anybody, and PyTorch finds nothing compiled either."""
    own = {'JAX_PLATFORMS': 'cpu', 'TORCHINDUCTOR_CACHE_DIR': f'{folder}/torch'}
    return clean_environment(folder) | own | {'FLWR_TELEMETRY_ENABLED': '0', 'RAY_USAGE_STATS_ENABLED': '0'}


def write(summary: Mapping[str, Any], folder: pathlib.Path) -> str:
    """Write JOB.json and JOB.md, draw the chart of all jobs measured so far, and return the text."""
    folder.mkdir(parents=True, exist_ok=True)
    name, text = summary['job']['name'], report.as_markdown(summary)
    (folder / f'{name}.json').write_text(json.dumps(summary, indent=2) + '\n')
    (folder / f'{name}.md').write_text(text)
    files = [folder / f'{job}.json' for job in JOBS]
    chart.draw([json.loads(file.read_text()) for file in files if file.exists()], OURS, folder / 'peers.png')
    return text


def end_workers_when_terminated() -> None:
    """Let SIGTERM end this process as an exception does: workers that are stopped now would otherwise stay for ever."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def main() -> None:
    """Measure the jobs named on the command line and write their results."""
    peers = [name for name in CONTENDERS if name != OURS]
    parser = argparse.ArgumentParser(description='Compare fedjax_fair with other simulators.')
    parser.add_argument('--job', choices=[*JOBS, 'all'], default='all')
    parser.add_argument('--peers', nargs='*', choices=peers, default=peers, metavar='PEER', help=', '.join(peers))
    parser.add_argument('--rounds', type=int, help='measured rounds of every side; each job has its own default')
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS, help='folder of JOB.json, JOB.md and peers.png')
    args = parser.parse_args()
    if args.rounds is not None and args.rounds < 1:
        parser.error(f'--rounds={args.rounds} must be at least 1')
    end_workers_when_terminated()
    for job in JOBS.values() if args.job == 'all' else [JOBS[args.job]]:
        names = [name for name in dict.fromkeys([OURS, *args.peers]) if job.model in CONTENDERS[name].models]
        print(write(compare(job, names, args.rounds or job.rounds), args.out))


if __name__ == '__main__':
    main()
