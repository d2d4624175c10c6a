"""Rounds per second of the jobs w1, w2 and w3 on the devices of this machine, beside the numbers recorded on CPU.

``python -m benchmarks.accelerators --jobs=w1,w2,w3 --seconds=60 --out=accelerators.json``

It prints a table and writes a file that can be sent to the project: see benchmarks/results/community/README.md. The
exit code is 1 if a job could not be measured.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from benchmarks.accelerators.measure import in_words, measure, spread_in_words
from benchmarks.accelerators.record import checked, name_of, obstacle
from benchmarks.peers import processes
from benchmarks.peers.compare import RESULTS, end_workers_when_terminated
from benchmarks.peers.contenders import OURS
from benchmarks.peers.job import JOBS
from benchmarks.tables import table
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of
from fedjax_fair.parsing import number
from fedjax_fair.publishing import make_folder
from fedjax_fair.results.files import read_json, write_json

LONGEST = 3600.0  # seconds of a job
COLUMNS = ('job', 'on', 'rounds/s', 'times recorded', 's/round (fastest)', 's/round (median)', 'clients', 'memory')


class Parser(argparse.ArgumentParser):
    """Its mistakes are one line, as all others."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def jobs_of(text: str) -> list[str]:
    """The jobs that a user has named."""
    names = list(dict.fromkeys(text.split(',')))
    for name in names:
        if name not in JOBS:
            raise UserError(f'`jobs`={name!r} {not_one_of(name, JOBS, repr)}')
    return names


def seconds_of(text: str) -> float:
    """How long a job is measured."""
    try:
        seconds = number(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST:
        raise UserError(f'`seconds`={text!r} is not a number from 0 to {LONGEST:g}')
    return seconds


def out_of(text: str) -> pathlib.Path:
    """The file to write, in a folder that exists from now on."""
    out = pathlib.Path(text)
    if out.is_dir() or out.suffix != '.json':
        raise UserError(f'`out`={text!r} is not the name of a .json file')
    make_folder(out.parent)
    return out


def recorded(name: str) -> dict[str, Any]:
    """What the benchmark of simulators has recorded of ours: a row of the table."""
    found = read_json(RESULTS / f'{name}.json')
    return {**found['sides'][OURS], 'cores': found['machine']['cores']}


def as_markdown(record: Mapping[str, Any], before: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for every job as it was measured now, and one as it was recorded ``before``."""
    rows = []
    for name, found in record['jobs'].items():
        then, seconds, memory = before[name], found['seconds_per_round'], found['memory']
        peak = memory['device_peak_mib']
        told = f'{memory["host_peak_mib"]:,} MiB of the host' if peak is None else f'{peak:,} MiB of a device'
        here = (in_words(record['devices']), then['median_seconds'] / seconds['median'], seconds['min'])
        rows.append(_row(name, *here, seconds['median'], spread_in_words(found['spread']), told))
        there = (f'{then["cores"]} CPU cores, recorded', 1.0, then['min_seconds'])
        rows.append(_row(name, *there, then['median_seconds'], then['how'], f'{then["peak_mib"]:,} MiB of the host'))
    about = [
        f'- {name}: {found["rounds"]} rounds; {found["compile_seconds"]:.1f} s to compile'
        + (f'; clients at once were chosen among {tried}' if (tried := found['spread']['chosen_among']) else '')
        for name, found in record['jobs'].items()
    ]
    return '\n'.join([*table(COLUMNS, rows), '', *about])


def _row(name: str, on: str, times: float, fastest: float, median: float, spread: str, memory: str) -> list[str]:
    return [name, on, f'{1 / median:.3g}', f'{times:.2f}', f'{fastest:.4f}', f'{median:.4f}', spread, memory]


def run(given: argparse.Namespace) -> int:
    """Check what was asked for, measure, show and write."""
    if not processes.PROC.is_dir():
        raise UserError(f'this needs Linux, where {processes.PROC} tells the memory of a process')
    names, seconds, out = jobs_of(given.jobs), seconds_of(given.seconds), out_of(given.out)
    before = {name: recorded(name) for name in names}
    record, left_out = measure(names, seconds, lambda line: print(line, file=sys.stderr, flush=True))
    if not record['jobs']:
        raise UserError(f'nothing was measured: {"; ".join(left_out.values())}')
    write_json(out, checked(record, str(out)))
    print(as_markdown(record, before))
    reason = obstacle(record)
    print(f'\nwritten: {out}; ' + (f'not to be sent: {reason}' if reason else f'send it as {name_of(record)}.json'))
    return int(bool(left_out))


def main() -> None:
    """The command line."""
    parser = Parser('python -m benchmarks.accelerators', description=__doc__.partition('\n')[0], allow_abbrev=False)
    parser.add_argument('--jobs', default=','.join(JOBS), help=f'some of {",".join(JOBS)}')
    parser.add_argument('--seconds', default='60', help='how long the rounds of each job are measured')
    parser.add_argument('--out', default='accelerators.json', help='the file to write')
    end_workers_when_terminated()
    try:
        sys.exit(run(parser.parse_args()))
    except UserError as error:
        print(f'{parser.prog}: error: {error.with_flags()}', file=sys.stderr)
        sys.exit(2)


if __name__ == '__main__':
    main()
