"""What the checksums of a checkpoint cost, beside the time of its save.

``python -m benchmarks.engine.checksums``. A save is Orbax's, from its call until all is on the disk. Our checksums are
those of all arrays and those of the small files of the checkpoint; a CRC-32 of all bytes stands beside them. Seconds of
all cores are measured too: on a busy machine they tell more.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.engine.session import RESULTS, page, write
from benchmarks.tables import machine, table
from fedjax_fair.training import checksums, file_checksums
from fedjax_fair.training.checkpoint import CHECKPOINTS_KEPT

STATES = {'a small network': (20, 50_000), 'a network': (100, 250_000), 'client rows': (10, 25_000_000)}  # floats each
TURNS = 5


Times = dict[str, list[float]]  # by task: seconds of the clock, and of all cores


def seconds_of(arrays: int, numbers: int) -> Times:
    """The fastest of some turns, in which the tasks follow each other: all of them see the same disk and load."""
    import orbax.checkpoint as ocp

    rng = np.random.default_rng(0)
    state = {str(n): jnp.asarray(rng.standard_normal(numbers, np.float32)) for n in range(arrays)}
    with tempfile.TemporaryDirectory() as folder:
        options = ocp.CheckpointManagerOptions(max_to_keep=CHECKPOINTS_KEPT, create=True)
        manager, steps = ocp.CheckpointManager(pathlib.Path(folder), options=options), itertools.count()

        def save() -> None:
            manager.save(next(steps), args=ocp.args.StandardSave(state))
            manager.wait_until_finished()

        def ours() -> None:
            checksums.of_tree(state)
            file_checksums.seal(pathlib.Path(folder) / str(manager.latest_step()))

        tasks = {
            'save': save,
            'checksums': ours,
            'crc': lambda: [zlib.crc32(np.asarray(one).data) for one in state.values()],
        }
        found = {name: list(map(min, zip(*times, strict=True))) for name, times in _in_turn(tasks).items()}
        manager.close()
    return found


def _in_turn(tasks: Mapping[str, Callable[[], Any]]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in tasks}
    for _ in range(TURNS):
        for name, task in tasks.items():
            start, used = time.perf_counter(), time.process_time()
            task()
            found[name].append((time.perf_counter() - start, time.process_time() - used))
    return found


def measure() -> dict[str, Any]:
    """Every state."""
    host = machine()
    return {'machine': host, 'states': {name: seconds_of(*sizes) for name, sizes in STATES.items()}}


def as_markdown(found: Mapping[str, Any]) -> str:
    """A line per state."""
    rows = []
    for name, times_of in found['states'].items():
        (save, save_cpu), (ours, ours_cpu), (crc, crc_cpu) = times_of.values()
        arrays, numbers = STATES[name]
        times = [f'{1e3 * seconds:,.1f}' for seconds in (save, ours)]
        shares = [f'{ours / save:.1%}', f'{crc / save:.1%}', f'{ours_cpu / save_cpu:.1%}', f'{crc_cpu / save_cpu:.1%}']
        rows.append([f'{name}: {arrays} arrays', f'{4e-6 * arrays * numbers:,.0f}', *times, *shares])
    about = f'Random numbers, saved until they are on the disk; the CRC-32 is of all bytes; the fastest of {TURNS}'
    head = (
        'state',
        'MB',
        'ms of a save',
        'ms of its checksums',
        'share of the save',
        'of a CRC-32',
        'of cores',
        'CRC-32',
    )
    return page('Checksums of checkpoints', about, found, table(head, rows))


def main() -> None:
    """Measure and write ``results/checksums.json`` and ``.md``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS)
    args = parser.parse_args()
    found = measure()
    write(args.out, 'checksums', found, as_markdown(found))


if __name__ == '__main__':
    main()
