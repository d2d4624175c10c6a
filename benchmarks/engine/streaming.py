"""Memory and time of 100,000 clients whose examples and rows are on the device, in host memory or on disk.

``python -m benchmarks.engine.streaming``. Every storage is a process of its own. Memory is what the process holds
beside files (the system drops pages of mapped files as it likes), after every hundred rounds and a checkpoint, and the
most it held meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.engine.points import Point, alone, results_folder
from benchmarks.engine.session import page, write
from benchmarks.tables import machine, table
from fedjax_fair.data.memory_map import MappedRows
from fedjax_fair.training.checkpoint import Checkpoints
from fedjax_fair.training.cohort_supply import Resident, Streaming, Supply
from fedjax_fair.training.config import Config
from fedjax_fair.training.devices import use_host_devices
from fedjax_fair.training.federations import forget_federation
from fedjax_fair.training.setup import Experiment, prepare

CLIENTS, EACH, COHORT, SIDE = 100_000, 8, 100, 16
BLOCKS, ROUNDS = 5, 100  # rounds of a block
RECIPES = ('fedavg', 'scaffold')  # without rows, and with two of a model's size for every client
STORES = {'fedavg': (('device', 'device'), ('host', 'device'), ('disk', 'device'))}
STORES['scaffold'] = (('device', 'device'), ('host', 'host'), ('disk', 'disk'))


def measure(recipe: str, examples: str, rows: str) -> Point:
    """Seconds per round and MiB held, block by block."""
    use_host_devices(None)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        experiment = _experiment(out, recipe, examples, rows)
        supply: Supply = Streaming(experiment, out) if experiment.storage.streams else Resident(experiment)
        states = supply.init()
        states, _ = supply.advance(states, 0)
        held, seconds, checkpoints = [_held_mib()], [], Checkpoints(out)
        with _most_held() as most:
            for block in range(BLOCKS):
                start = time.perf_counter()
                for _ in range(ROUNDS // 10):
                    states, _ = supply.advance(states, 10)
                seconds.append((time.perf_counter() - start) / ROUNDS)
                checkpoints.save((block + 1) * ROUNDS, supply.whole(states), {})
                checkpoints.wait()
                held.append(_held_mib())
        checkpoints.close()
    return {'seconds': min(seconds), 'held_mib': held, 'most_mib': max(most)}


@contextlib.contextmanager
def _most_held() -> Iterator[list[float]]:
    """What the process holds, looked at fifty times a second."""
    found, done = [_held_mib()], threading.Event()

    def look() -> None:
        while not done.wait(0.02):
            found.append(_held_mib())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def _experiment(out: pathlib.Path, recipe: str, examples: str, rows: str) -> Experiment:
    rng, total = np.random.default_rng(0), CLIENTS * EACH
    labels = rng.integers(0, 10, total, np.int32)
    images = rng.integers(0, 256, (total, SIDE, SIDE, 1), np.uint8)
    np.savez(
        out / 'data.npz', train_images=images, train_labels=labels, test_images=images[:100], test_labels=labels[:100]
    )
    config = Config(
        recipe=recipe,
        scenario=f'npz:{out / "data.npz"}',
        data={'num_clients': CLIENTS},
        participation=COHORT / CLIENTS,
        model='logreg',
        rounds=BLOCKS * ROUNDS,
        eval_every=10,
        batch_size=EACH,
        local_epochs=1,
        examples=examples,
        rows=rows,
    )
    experiment = prepare(config)
    if examples != 'disk':
        return experiment
    federation = experiment.federation
    np.save(out / 'x.npy', federation.x)
    kept: Any = MappedRows(np.load(out / 'x.npy', mmap_mode='r'), np.arange(total))
    forget_federation()  # nobody holds the images any more
    return dataclasses.replace(experiment, federation=dataclasses.replace(federation, x=kept))


def _held_mib() -> float:
    text = pathlib.Path('/proc/self/status').read_text()
    found = re.search(r'RssAnon:\s+(\d+) kB', text)
    return int(found[1]) / 2**10 if found else float('nan')


def as_markdown(found: Mapping[str, Any]) -> str:
    """One line per recipe and storage."""
    about = (
        f'{CLIENTS:,} clients of {EACH} images of {SIDE}x{SIDE}, {COHORT} of them in a round, one epoch of logistic '
        f'regression; {BLOCKS} times {ROUNDS} rounds, the fastest block; MiB held by the process before them and after '
        'each block and its checkpoint, files not counted, and the most there was meanwhile. On the device a round '
        'also draws who takes part, a permutation of all clients, '
        'which is drawn before the first round otherwise: times compare ways of streaming, not these with the device'
    )
    rows = [
        [
            p['recipe'],
            p['examples'],
            p['rows'],
            f'{1e3 * p["seconds"]:.1f}',
            ', '.join(f'{mib:,.0f}' for mib in p['held_mib']),
            f'{p["most_mib"]:,.0f}',
        ]
        for p in found['points']
    ]
    head = ('recipe', 'examples', 'client rows', 'ms per round', 'MiB', 'most')
    return page('Examples and rows away from the device', about, found, table(head, rows))


def main() -> None:
    """Measure and write ``results/streaming.json`` and ``.md``."""
    out = results_folder(__doc__, measure)
    asked = [{'recipe': r, 'examples': e, 'rows': rows} for r in RECIPES for e, rows in STORES[r]]
    found = {'machine': machine(), 'points': [alone('benchmarks.engine.streaming', point) for point in asked]}
    write(out, 'streaming', found, as_markdown(found))


if __name__ == '__main__':
    main()
