"""Ten thousand rounds with streaming, evaluations and checkpoints: does anything grow that should not?

``python -m benchmarks.soak``. Examples come from host memory or disk, client rows are on disk. Memory, open files,
mapped regions, compilations and the size of the run folder are written down while the run goes on. The same command
goes on with a run that was interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from benchmarks.endurance.processes import count
from benchmarks.engine.session import RESULTS, page, write
from benchmarks.tables import machine, table
from fedjax_fair.results import SUMMARY
from fedjax_fair.results.facts import git_commit

ROUNDS, LINES = 10_000, 40  # and how often numbers are written down
WARM_UP = 0.1  # share of the rounds
GROWTH = 1.03  # of resident memory, at most
EXAMPLES = ('host', 'disk')

Line = Mapping[str, Any]


def words(out: pathlib.Path, rounds: int, examples: str) -> list[str]:
    """The command line: adapted models are evaluated as well before the warm-up is over."""
    settings = {
        'recipe': 'scaffold+server_adam',
        'scenario': 'digits_domains',
        'clients_per_domain': 5,
        'model': 'logreg',
        'rounds': rounds,
        'eval_every': max(1, rounds // 400),
        'adapt_every': max(1, rounds // 20),
        'checkpoint_every': max(1, rounds // 200),
        'participation': 0.25,
        'local_steps': 2,
        'lr': 0.001,
        'examples': examples,
        'rows': 'disk',
        'out': out,
    }
    return [*(f'--{name}={value}' for name, value in settings.items()), '--resume', '--quiet']


def child(journal: pathlib.Path, rounds: int, examples: str) -> None:
    """The command itself, which watches itself."""
    from benchmarks.endurance.watch import watched
    from fedjax_fair.cli import binary

    out = journal.parent / 'out'
    with watched(out, journal, max(1, rounds // LINES)):
        binary('run', words(out, rounds, examples))


def soak(folder: pathlib.Path, rounds: int, examples: str) -> dict[str, Any]:
    """Run until the end, in a process of its own; all lines that were written down."""
    folder.mkdir(parents=True, exist_ok=True)
    journal, about = folder / 'journal.jsonl', folder / 'about.json'
    if not about.exists():
        about.write_text(json.dumps({'machine': machine(), 'commit': git_commit()}))
    call = [sys.executable, '-m', 'benchmarks.soak', 'child', str(journal), str(rounds), examples]
    ended = subprocess.run(call, env={**os.environ, 'XDG_CACHE_HOME': str(folder / 'cache')}, stdout=sys.stderr)
    if ended.returncode:  # it has said why
        sys.exit(ended.returncode)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    seconds = json.loads((folder / 'out' / SUMMARY).read_text())['seconds']
    found = {**json.loads(about.read_text()), 'examples': examples, 'rounds': rounds, 'lines': lines}
    return {**found, 'seconds': seconds}


# --- the verdict -----------------------------------------------------------------------------------------------------


def verdicts(lines: Sequence[Line], rounds: int) -> dict[str, bool]:
    """What must hold for every process after its warm-up; a process that ended before has nothing to say."""
    found = [_verdicts(own) for own in _steady(lines, rounds)]
    if not found:
        raise ValueError('no process has two lines after its warm-up')
    return {claim: all(one[claim] for one in found) for claim in found[0]}


def _steady(lines: Sequence[Line], rounds: int) -> list[list[Line]]:
    """The lines of every process after its warm-up."""
    processes = [list(own) for _, own in groupby(lines, key=lambda line: line['process'])]
    warm = [[line for line in own if line['round'] >= own[0]['round'] + WARM_UP * rounds] for own in processes]
    return [own for own in warm if len(own) > 1]


def _verdicts(lines: Sequence[Line]) -> dict[str, bool]:
    """Memory and regions end little above their start; of files none may stay: the fewest of all are no more."""
    most = {name: lines[-1][name][1] / lines[0][name][1] for name in ('resident_mib', 'regions')}
    third = max(1, len(lines) // 3)
    least = {
        name: [min(line[name][0] for line in part) for part in (lines[:third], lines[-third:])] for name in OPEN_FILES
    }
    return {
        f'resident memory grows by less than {GROWTH - 1:.0%}': most['resident_mib'] < GROWTH,
        f'mapped regions grow by less than {GROWTH - 1:.0%}': most['regions'] < GROWTH,
        'open files do not grow': least['open_files'][1] <= least['open_files'][0],
        'mapped files do not grow': least['mapped_files'][1] <= least['mapped_files'][0],
        'nothing is compiled after the warm-up': lines[-1]['compilations'] == lines[0]['compilations'],
    }


OPEN_FILES = ('open_files', 'mapped_files')


def as_markdown(found: Mapping[str, Any]) -> str:
    """A verdict and a table for each place of the examples."""
    runs = found['runs']
    about = (
        f'`python -m benchmarks.soak`, commit {found["commit"]}: {runs[0]["rounds"]:,} rounds of scaffold+server_adam, '
        'logistic regression on digits_domains, 5 of 20 clients in a round; examples in host memory or on disk, client '
        'rows on disk; 400 evaluations, 20 of them with adapted models, and 200 checkpoints. The first '
        f'{WARM_UP:.0%} of the rounds are the warm-up. Smallest to largest number since the line before'
    )
    return page('Ten thousand rounds', about, found, *map(_part, runs))


def _part(run: Mapping[str, Any]) -> list[str]:
    claims = [
        f'- {"yes" if holds else "NO"}: {claim}' for claim, holds in verdicts(run['lines'], run['rounds']).items()
    ]
    took = f'{len({line["process"] for line in run["lines"]})} process(es), {run["seconds"]:.0f} s of rounds'
    head = ('round', *COLUMNS.values(), 'compiled', 'folder MiB')
    rows = table(head, [_row(line) for line in run['lines']])
    return [f'## Examples: {run["examples"]}\n', *claims, f'\n{took}.\n', *rows, '']


COLUMNS = {
    'resident_mib': 'resident MiB',
    'own_mib': 'beside files MiB',
    'open_files': 'open files',
    'mapped_files': 'mapped files',
    'regions': 'mapped regions',
}


def _row(line: Line) -> list[str]:
    ranges = [f'{line[name][0]:,.0f} - {line[name][1]:,.0f}' for name in COLUMNS]
    return [f'{line["round"]:,}', *ranges, str(line['compilations']), f'{line["folder_mib"]:.1f}']


def main() -> None:
    """Run and write ``results/soak.json`` and ``.md``."""
    if sys.argv[1:2] == ['child']:
        journal, rounds, examples = sys.argv[2:]
        return child(pathlib.Path(journal), int(rounds), examples)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # or the run would outlive this program
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rounds', type=count, default=ROUNDS)
    parser.add_argument('--folder', type=pathlib.Path, default=pathlib.Path('.cache/bench/soak'), help='the runs')
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS)
    args = parser.parse_args()
    runs = [soak(args.folder.absolute() / examples, args.rounds, examples) for examples in EXAMPLES]
    found = {'machine': runs[0]['machine'], 'commit': runs[0]['commit'], 'runs': runs}
    write(args.out, 'soak', found, as_markdown(found))


if __name__ == '__main__':
    main()
