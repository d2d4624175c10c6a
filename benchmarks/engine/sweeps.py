"""Eight seeds in one program beside eight separate runs, and what a second start compiles.

``python -m benchmarks.engine.sweeps --rounds=20``. All runs are commands of the command line, started afresh.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.engine.session import page, program
from benchmarks.peers.job import JOBS, write_data
from benchmarks.tables import table

SEEDS = 8
HITS, REQUESTS = '/jax/compilation_cache/cache_hits', '/jax/compilation_cache/compile_requests_use_cache'


def command(data: pathlib.Path, out: pathlib.Path, cache: pathlib.Path, rounds: int, seeds: str) -> dict[str, Any]:
    """Run w1 with these seeds as a process of its own; its seconds and what its compilation cache was asked."""
    job = JOBS['w1']
    words = {
        'scenario': f'npz:{data}',
        'split_by': 'site',
        'model': job.model,
        'participation': job.cohort / job.clients,
        'local_epochs': job.epochs,
        'batch_size': job.batch,
        'lr': job.lr,
        'rounds': rounds,
        'eval_every': rounds,
        'checkpoint_every': 0,
        'seeds': seeds,
        'out': out,
    }
    flags = [f'--{name}={value}' for name, value in words.items()]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, '-m', 'benchmarks.engine.sweeps', 'child', *flags, '--overwrite', '--quiet'],
        env={**os.environ, 'XDG_CACHE_HOME': str(cache)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {'seconds': time.perf_counter() - start, **json.loads(done.stdout.splitlines()[-1])}


def child(words: list[str]) -> None:
    """The command itself, counting programs needed and those the cache did not have."""
    import jax

    from fedjax_fair.cli import binary

    counts = {HITS: 0, REQUESTS: 0}

    def listen(event: str, **facts: Any) -> None:
        if event in counts:
            counts[event] += 1

    jax.monitoring.register_event_listener(listen)
    try:
        binary('run', words)
    finally:
        print(json.dumps({'compilations': counts[REQUESTS], 'compiled': counts[REQUESTS] - counts[HITS]}))


def measure(rounds: int) -> dict[str, Any]:
    """All commands, with fresh and with shared compilation caches."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data, out = write_data(JOBS['w1'], folder), folder / 'out'
        everyone = ','.join(map(str, range(SEEDS)))
        together = command(data, out, folder / 'together', rounds, everyone)
        fresh = [command(data, out, folder / f'fresh{s}', rounds, str(s)) for s in range(SEEDS)]
        shared = [command(data, out, folder / 'shared', rounds, str(s)) for s in range(SEEDS)]
    return {'together': together, 'fresh': fresh, 'shared': shared}


def as_markdown(found: Mapping[str, Any]) -> str:
    """The table and the second start in words."""
    one = found['together']['seconds']
    ways = {
        f'one program of {SEEDS} seeds': one,
        f'{SEEDS} runs, nothing cached': sum(run['seconds'] for run in found['fresh']),
        f'{SEEDS} runs sharing a compilation cache': sum(run['seconds'] for run in found['shared']),
    }
    about = (
        f'{found["rounds"]} rounds of the job w1 through the command line, including start-up, compilation, evaluation '
        'at the end and report'
    )
    rows = [(name, f'{seconds:.1f}', f'{one / seconds:.2f}') for name, seconds in ways.items()]
    starts = zip(('first', 'second'), found['shared'], strict=False)
    words = [f'\nThe {name} start with a cache {_start(run)}.' for name, run in starts]
    return page('Sweeps and second starts', about, found, table(('how', 'seconds', 'one program / this'), rows), words)


def _start(run: Mapping[str, Any]) -> str:
    return f'needed {run["compilations"]} programs, compiled {run["compiled"]} of them and took {run["seconds"]:.1f} s'


if __name__ == '__main__':
    if sys.argv[1:2] == ['child']:
        child(sys.argv[2:])
    else:
        program('sweeps', __doc__, measure, as_markdown, rounds=20)
