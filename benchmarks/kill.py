"""Runs that are killed at any moment and go on: are their results those of an uninterrupted run?

``python -m benchmarks.kill``. Every trial starts the real command line in a process of its own, stops it (SIGKILL for
the most part, some SIGTERM and SIGINT) at a moment drawn uniformly over the CPU time of a whole run, goes on with
``--resume``, which may be stopped too, and compares the folder with that of an uninterrupted run. Trials follow from
the seed. Each is one line of a journal, and the same command goes on where the journal ends.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.endurance import processes
from benchmarks.endurance.differences import differences
from benchmarks.endurance.phases import PHASES, doing, phase_of, writes_checkpoint
from benchmarks.engine.session import RESULTS, page, write
from benchmarks.tables import machine, table
from fedjax_fair.results.facts import git_commit

KILLS, SEED, ROUNDS = 200, 0, 24
SIGNALS = {signal.SIGKILL: 0.7, signal.SIGTERM: 0.15, signal.SIGINT: 0.15}  # and how often each is sent
STOPS = {1: 0.2, 2: 0.3, 3: 0.3, 4: 0.2}  # how often a trial is stopped
COLD, COLD_FACTOR = 0.05, 2.5  # share of trials that find nothing compiled, and how much longer those take
LATE = 0.05  # seconds after the moment in CPU time, so that a process that waits may be hit as well
SETTINGS = {
    'scenario': 'digits_domains',
    'clients_per_domain': 2,
    'model': 'logreg',
    'rounds': ROUNDS,
    'eval_every': 3,
    'checkpoint_every': 2,
    'seeds': '0,1',
    'participation': 0.5,
    'dropout': 0.2,
    'local_steps': 3,
    'lr': 0.01,
    'devices': 1,
}


class Job(NamedTuple):
    """A recipe with rows or states of the server, and where examples and rows are kept."""

    recipe: str
    examples: str
    rows: str

    @property
    def name(self) -> str:
        return '-'.join(self)

    def words(self, out: pathlib.Path) -> list[str]:
        """The command line."""
        return ['run', *(f'--{name}={value}' for name, value in {**SETTINGS, **self._asdict(), 'out': out}.items())]


PLACES = (('device', 'device'), *((e, r) for e in ('host', 'disk') for r in ('device', 'host', 'disk')))
JOBS = (
    *(Job('scaffold+server_adam', *places) for places in PLACES),
    *(Job('ditto', *places) for places in (('device', 'device'), ('host', 'host'), ('disk', 'disk'))),
)


class Stop(NamedTuple):
    """A signal, its moment as a share of the CPU time of a whole run, and how many seconds later it is sent."""

    signal: str
    share: float
    late: float


class Trial(NamedTuple):
    """One run with its interruptions."""

    number: int
    job: Job
    cold: bool
    stops: tuple[Stop, ...]


def trial(number: int, jobs: Sequence[Job] = JOBS) -> Trial:
    """The trial of this number; it follows from the seed.

    >>> trial(3) == trial(3), trial(3).job == trial(3 + len(JOBS)).job
    (True, True)
    """
    rng = np.random.default_rng((SEED, number))
    count, cold = rng.choice(list(STOPS), p=list(STOPS.values())), bool(rng.random() < COLD)
    names = [number.name for number in SIGNALS]
    stops = (
        Stop(str(rng.choice(names, p=list(SIGNALS.values()))), rng.random(), LATE * rng.random()) for _ in range(count)
    )
    return Trial(number, jobs[number % len(jobs)], cold, tuple(stops))


# --- one trial -------------------------------------------------------------------------------------------------------


def reference(job: Job, folder: pathlib.Path) -> dict[str, Any]:
    """Run a job twice without any interruption; its CPU seconds, and whether the two runs are equal."""
    whole = folder / 'whole' / job.name
    for name in ('first', 'second'):
        shutil.rmtree(whole / name, ignore_errors=True)
        ended = processes.run(job.words(whole / name), folder / 'cache', whole / 'process')
        if ended.code:
            raise RuntimeError(f'{job.name} fails without any interruption: {_last_line(ended.said)}')
    return {'job': job, 'cpu': ended.cpu, 'differences': differences(whole / 'first', whole / 'second', ROUNDS)}


def run_trial(one: Trial, cpu: float, folder: pathlib.Path) -> dict[str, Any]:
    """Stop a run as often as planned, let it end, and compare; the folder of a run that fails is kept."""
    place = folder / 'trials' / str(one.number)
    shutil.rmtree(place, ignore_errors=True)
    out, cache, start = place / 'out', place / 'cache' if one.cold else folder / 'cache', time.time()
    kills: list[dict[str, Any]] = []
    words = one.job.words(out)
    for stop in one.stops:
        moment = stop.share * cpu * (COLD_FACTOR if one.cold and not kills else 1.0)
        process = processes.stop(words, cache, place / 'process', signal.Signals[stop.signal], moment, stop.late)
        if isinstance(process, processes.Ended):  # it was faster
            break
        kills.append(_kill(stop, process))
        words = [*one.job.words(out), '--resume']
    ended = process if isinstance(process, processes.Ended) else processes.run(words, cache, place / 'process')
    failures = [f'ends with code {ended.code}: {_last_line(ended.said)}'] if ended.code else []
    failures += differences(folder / 'whole' / one.job.name / 'first', out, ROUNDS) if not failures else []
    if not failures:
        shutil.rmtree(place)
    found = {'cold': one.cold, 'kills': kills, 'failures': failures, 'warnings': _warnings(ended.said)}
    return {'number': one.number, 'job': one.job, **found, 'seconds': time.time() - start, 'commit': git_commit()}


def _kill(stop: Stop, process: processes.Stopped) -> dict[str, Any]:
    ended, stacks = process
    return {
        'signal': stop.signal,
        'share': stop.share,
        'phase': phase_of(stacks),
        'doing': doing(stacks),
        'writing': writes_checkpoint(stacks),
        'code': ended.code,
        'traceback': _last_line(ended.said) if 'Traceback' in ended.said else None,
    }


def _last_line(said: str) -> str:
    return next((line for line in reversed(said.splitlines()) if line.strip()), 'nothing was said')


def _warnings(said: str) -> list[str]:
    """Lines about damage, which an interruption must not cause."""
    return [line for line in said.splitlines() if 'damaged' in line or 'Traceback' in line]


# --- the journal and the page ----------------------------------------------------------------------------------------


def read_journal(path: pathlib.Path) -> list[dict[str, Any]]:
    """All whole lines; half a line is what was left when this program itself was killed."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith('\n')]
    if whole != lines:
        path.write_text(''.join(whole))
    return [json.loads(line) for line in whole]


def _append(path: pathlib.Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(entry)
    with path.open('a') as file:
        file.write(text + '\n')
    return json.loads(text)


def measure(folder: pathlib.Path, wanted: int, jobs: Sequence[Job] = JOBS) -> list[dict[str, Any]]:
    """Run trials until this many kills have hit a living process; returns the journal."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / 'journal.jsonl'
    journal = read_journal(path) or [_append(path, {'machine': machine(), 'commit': git_commit(), 'seed': SEED})]
    known = {tuple(entry['job']): entry['cpu'] for entry in journal if 'cpu' in entry}
    for job in jobs:
        if job not in known:
            journal.append(_append(path, reference(job, folder)))
            known[job] = journal[-1]['cpu']
            print(f'{job.name}: {known[job]:.1f} CPU s {journal[-1]["differences"]}', flush=True)
    while (hits := len(_kills(journal))) < wanted:
        number = len(_trials(journal))
        one = trial(number, jobs)
        journal.append(_append(path, run_trial(one, known[one.job], folder)))
        print(f'trial {number}, {hits} of {wanted} kills before: {_in_words(journal[-1])}', flush=True)
    return journal


def _trials(journal: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [entry for entry in journal if 'kills' in entry]


def _kills(journal: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [kill for entry in _trials(journal) for kill in entry['kills']]


def _in_words(entry: Mapping[str, Any]) -> str:
    kills = ', '.join(f'{kill["signal"]} in {kill["phase"]} ({kill["code"]})' for kill in entry['kills'])
    verdict = '; '.join(entry['failures']) or 'equal'
    return f'{" ".join(entry["job"])}{" cold" if entry["cold"] else ""}: {kills or "no kill"}: {verdict}'


def as_markdown(journal: Sequence[Mapping[str, Any]]) -> str:
    """Kills by storage and by phase, and every failure in words."""
    trials, kills = _trials(journal), _kills(journal)
    commits = dict.fromkeys(entry['commit'] for entry in (*trials, journal[0]) if 'commit' in entry)
    equal = sum(not entry['failures'] for entry in trials)
    about = (
        f'`python -m benchmarks.kill`, commit {" and ".join(commits)}: {len(kills)} signals to real processes of '
        f'`fedjax-fair run` and `--resume` in {len(trials)} trials, each at a moment drawn uniformly over the CPU time '
        f'of a whole run; then a last `--resume`. {ROUNDS} rounds of logistic regression on digits_domains, 8 clients, '
        'half of them in a round, 2 seeds; a checkpoint every 2 and an evaluation every 3 rounds'
    )
    verdict = (
        f'{equal} of {len(trials)} trials end as the uninterrupted run did: metrics.jsonl byte by byte, summary.json '
        'and config.json without times and command, all arrays of predictions*.npz, all arrays of the last checkpoint '
        'with its client rows, and the names of the files. '
        f'They took {sum(entry["seconds"] for entry in trials) / 60:.0f} minutes.\n'
    )
    parts = (_by_storage(trials), [''], _by_phase(kills), [''], _odd(trials, kills))
    return page('Killed and resumed', about, journal[0], [verdict], *parts)


def _by_storage(trials: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for job in dict.fromkeys(tuple(entry['job']) for entry in trials):
        own = [entry for entry in trials if tuple(entry['job']) == job]
        equal = sum(not entry['failures'] for entry in own)
        rows.append([*job, str(len(own)), str(len(_kills(own))), str(equal)])
    return table(('recipe', 'examples', 'client rows', 'trials', 'kills', 'equal'), rows)


def _by_phase(kills: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [number.name for number in SIGNALS]
    counts = Counter((kill['phase'], kill['signal']) for kill in kills)
    writing = Counter(kill['phase'] for kill in kills if kill['writing'])
    rows = [
        [phase, *(str(counts[phase, name]) for name in names), str(writing[phase])]
        for phase in PHASES
        if any(counts[phase, name] for name in names)
    ]
    return table(('phase', *names, 'a thread wrote a checkpoint'), rows)


def _odd(trials: Sequence[Mapping[str, Any]], kills: Sequence[Mapping[str, Any]]) -> list[str]:
    """Everything that did not go as it should, in words."""
    failed = [entry for entry in trials if entry['failures']]
    warned = [(entry['number'], line) for entry in trials for line in entry['warnings']]
    shown = Counter((kill['signal'], kill['phase'], kill['traceback']) for kill in kills if kill['traceback'])
    unanswered = Counter((kill['signal'], kill['phase']) for kill in kills if kill['code'] == 0)
    return [
        *(f'- Trial {entry["number"]} failed: {_in_words(entry)}.' for entry in failed),
        *(f'- Trial {number} warned: {line}' for number, line in warned),
        *(f'- {name} in {phase} showed a traceback ({count}x): {last}' for (name, phase, last), count in shown.items()),
        *(
            f'- {name} in {phase} stopped nothing ({count}x): exit code 0.'
            for (name, phase), count in unanswered.items()
        ),
    ] or ['No trial failed, warned of damage or showed a traceback, and every signal was answered.']


def main() -> None:
    """Run all trials and write ``results/kill.json`` and ``.md``."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # or a run would outlive this program
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, and runs inherit that
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--kills', type=processes.count, default=KILLS)
    parser.add_argument('--folder', type=pathlib.Path, default=pathlib.Path('.cache/bench/kill'), help='the journal')
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS)
    args = parser.parse_args()
    journal = measure(args.folder.absolute(), args.kills)
    write(args.out, 'kill', {'machine': journal[0]['machine'], 'journal': journal}, as_markdown(journal))


if __name__ == '__main__':
    main()
