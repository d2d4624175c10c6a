"""FedTilt on a toy over a grid of 11 x 11 tilts: one sweep beside one run for every point of the grid.

``python -m benchmarks.engine.tilts``. Both ways are commands of the command line, started afresh with nothing compiled
before: start-up, compilation, evaluation and report count. Separate runs all cost the same, so only some are timed.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.engine.session import page, program
from benchmarks.tables import table

TILTS = (-100, -10, -1, -0.1, -0.01, 0, 0.01, 0.1, 1, 10, 100)
TIMED = ((-100, -100), (0, 0), (100, 100))  # points of the grid that are also run on their own
SETTINGS = {
    'recipe': 'fedtilt',
    'scenario': 'gaussian_toy_3',
    'model': 'logreg',
    'rounds': 20,
    'eval_every': 20,
    'local_epochs': 10,
    'batch_size': 10,
    'lr': 0.05,
    'last_k': 1,
}


def command(name: str, folder: pathlib.Path, *words: str) -> float:
    """Seconds of a command with these flags in a process of its own, whose compilation cache is empty."""
    flags = [f'--{key}={value}' for key, value in SETTINGS.items()]
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, '-m', f'experiments.{name}', *flags, *words, f'--out={folder / "out"}', '--quiet'],
        env={**os.environ, 'XDG_CACHE_HOME': str(folder)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


def measure() -> dict[str, Any]:
    """The sweep between runs of single points."""
    values = ','.join(map(str, TILTS))
    alone = []
    for tau, lam in TIMED:
        with tempfile.TemporaryDirectory() as name:
            alone.append(command('run', pathlib.Path(name), f'--fedtilt.tau={tau}', f'--fedtilt.lam={lam}'))
    with tempfile.TemporaryDirectory() as name:
        sweep = command('sweep', pathlib.Path(name), f'--grid=fedtilt.tau={values}', f'--grid=fedtilt.lam={values}')
    return {'points': len(TILTS) ** 2, 'sweep': sweep, 'alone': alone}


def as_markdown(found: Mapping[str, Any]) -> str:
    """Both ways and their ratio."""
    points, each = found['points'], sum(found['alone']) / len(found['alone'])
    rows = [
        (f'one sweep of {points} points', f'{found["sweep"]:.1f}'),
        (f'one run (mean of {len(found["alone"])})', f'{each:.1f}'),
        (f'{points} such runs', f'{points * each:.0f}'),
    ]
    about = 'FedTilt on the third toy, 20 rounds, through the command line with start-up, compilation and report'
    ratio = f'\nThe runs cost {points * each / found["sweep"]:.0f} times the sweep.'
    return page('A grid of tilts', about, found, table(('how', 'seconds'), rows), [ratio])


if __name__ == '__main__':
    program('tilts', __doc__, measure, as_markdown)
