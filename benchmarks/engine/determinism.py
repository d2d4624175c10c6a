"""How far one device and two drift apart, and what it costs that they do not.

``python -m benchmarks.engine.determinism``. FedAvg on the demo's data, side by side: as usual and deterministic, on one
device and on two.
"""

from __future__ import annotations

import argparse
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from benchmarks.engine.session import RESULTS, Session, in_turn, page, write
from benchmarks.tables import machine, table
from fedjax_fair.training import Config, use_host_devices

SHOWN = (1, 2, 5, 10, 15, 20)
WAYS = {'as usual': False, 'deterministic': True}
DEVICES = {'1 device': 1, '2 devices': 2}


def measure(config: Config) -> dict[str, Any]:
    """Seconds and CPU seconds of every round, and after each how far parameters on one device and on two are apart."""
    sessions = {
        (way, where): Session(config.changed(deterministic=deterministic, devices=devices))
        for way, deterministic in WAYS.items()
        for where, devices in DEVICES.items()
    }
    cpu: dict[str, list[float]] = {', '.join(name): [] for name in sessions}
    apart: dict[str, list[float]] = {way: [] for way in WAYS}

    def round_of(name: tuple[str, str]) -> None:
        start = time.process_time()
        sessions[name].round()
        cpu[', '.join(name)].append(time.process_time() - start)

    def compare() -> None:
        for way in WAYS:
            apart[way].append(_difference(*(sessions[way, where] for where in DEVICES)))

    tasks = {', '.join(name): lambda name=name: round_of(name) for name in sessions}
    seconds = in_turn({**tasks, 'compare': compare}, config.rounds - 1)
    return {'apart': apart, 'seconds': {name: seconds[name] for name in tasks}, 'cpu_seconds': cpu}


def _difference(one: Session, two: Session) -> float:
    models = (jax.tree.leaves(jax.device_get(session.states.variables['params'])) for session in (one, two))
    return max(float(np.max(np.abs(a - b))) for a, b in zip(*models, strict=True))


def as_markdown(found: Mapping[str, Any]) -> str:
    """Differences by round, and the cheapest rounds."""
    about = (
        f'FedAvg on {found["scenario"]}: the largest difference between parameters of the global model on one device '
        'and on two, and the fastest and the cheapest round; both devices are cores of the same processor'
    )
    drift = [[str(n), *(f'{found["apart"][way][n - 1]:.0e}'.replace('0e+00', '0') for way in WAYS)] for n in SHOWN]
    least = {name: [min(found[kind][name]) for kind in ('seconds', 'cpu_seconds')] for name in found['seconds']}
    times = [[name, *(f'{1e3 * seconds:.0f}' for seconds in both)] for name, both in least.items()]
    wall, cpu = (two / one for one, two in zip(*(least[f'{way}, 2 devices'] for way in WAYS), strict=True))
    return page(
        'One device and two',
        about,
        found,
        table(('after round', *WAYS), drift),
        ['\n## What a round costs\n'],
        table(('how', 'ms', 'CPU ms'), times),
        [f'\nOn two devices a deterministic round takes {wall:.2f} times the time and {cpu:.2f} times the CPU time.'],
    )


def main() -> None:
    """Measure and write ``results/determinism.json`` and ``.md``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS)
    args, host = parser.parse_args(), machine()
    use_host_devices(2, deterministic=True)
    config = Config(rounds=SHOWN[-1], eval_every=1, checkpoint_every=0)
    found = {'machine': host, 'scenario': config.scenario, **measure(config)}
    write(args.out, 'determinism', found, as_markdown(found))


if __name__ == '__main__':
    main()
