"""FedISM's sweep of q, six values times three seeds, as one program beside eighteen runs one after another.

``python -m benchmarks.engine.grid --rounds=5``. No compilation cache; both ways run in this process, in turn.
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from benchmarks.engine.session import page, program
from benchmarks.tables import table
from fedjax_fair.training import Config, run, use_host_devices

VALUES, SEEDS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0), (0, 1, 2)
CONFIG = Config(
    recipe='fedism',
    scenario='quality_shift:digits',
    model='cnn',
    model_options={'widths': (16, 32)},
    batch_size=32,
    local_optimizer='adam',
    lr=0.001,
    checkpoint_every=0,
    last_k=1,
)


def timed(config: Config, points: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Seconds of rounds and of compilation, and how often the program of rounds was compiled."""
    compiled: list[str] = []

    def listen(event: str, duration_secs: float, **facts: Any) -> None:
        if event == '/jax/core/compile/backend_compile_duration' and facts.get('fun_name') == 'jit(advance)':
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    with tempfile.TemporaryDirectory() as folder:
        found = run(config, pathlib.Path(folder) / 'out', points=points, quiet=True)
    jax.monitoring.unregister_event_duration_listener(listen)
    seconds = sum(summary['seconds'] for summary in found)
    return {'seconds': seconds, 'compile': found[0]['compile_seconds'], 'programs': len(compiled)}


def measure(rounds: int) -> dict[str, Any]:
    """One sweep, then every lane of it as a run of its own."""
    use_host_devices(None)
    config = dataclasses.replace(CONFIG, rounds=rounds, eval_every=rounds)
    points = [{'fedism.q': value} for value in VALUES]
    together = timed(dataclasses.replace(config, seeds=SEEDS), points)
    alone = [timed(dataclasses.replace(config, seeds=(seed,)), [point]) for point in points for seed in SEEDS]
    total = {name: sum(one[name] for one in alone) for name in together}
    return {'together': together, 'alone': alone, 'total': total}


def as_markdown(found: Mapping[str, Any]) -> str:
    """Both ways and their ratio."""
    ways = {'one program of 18 lanes': found['together'], '18 runs': found['total']}
    rows = [
        (name, f'{one["programs"]:.0f}', f'{one["compile"]:.1f}', f'{one["seconds"]:.1f}') for name, one in ways.items()
    ]
    ratio = found['together']['seconds'] / found['total']['seconds']
    about = f'{found["rounds"]} rounds of FedISM on the digits with a quality shift, six values of q times three seeds'
    head = ('how', 'programs of rounds compiled', 'seconds of compilation', 'seconds of rounds')
    return page(
        'A sweep of FedISM',
        about,
        found,
        table(head, rows),
        [f'\nRounds of the sweep over rounds of the runs: {ratio:.2f}.'],
    )


if __name__ == '__main__':
    program('grid', __doc__, measure, as_markdown, rounds=5)
