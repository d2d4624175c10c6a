"""How many clients run at once on an accelerator: the compiler's numbers decide.

All at once is right for small dense networks and wrong for many convolutional ones, whose kernels differ by client, and
activations of many clients may not fit. So up to three programs are compiled: all clients of a device at once, one by
one, and some in between. Those that do not fit into the memory are left out. Of the others the cheapest is taken, by
the time of two local steps where the devices are there, else by the cycles that the compiler estimates.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.platform import Platform
from fedjax_fair.core.types import FedState
from fedjax_fair.data.federation import Examples
from fedjax_fair.data.stream import Streamed, gathered, in_memory, room_for
from fedjax_fair.errors import UserError
from fedjax_fair.options import AUTO
from fedjax_fair.sizes import in_words
from fedjax_fair.training.compiled import Compiled, compiled_round, everywhere, is_too_large, places_of
from fedjax_fair.training.setup import Experiment, prepare
from fedjax_fair.training.storage import Place

MARGIN = 0.95  # of the memory of a device, that a program may take
TIMED_STEPS, TIMED_ROUNDS = 2, 3  # the fastest of these rounds counts
CHOSEN_AMONG = ', chosen among '  # in the note of a choice, before all that was tried


class Candidate(NamedTuple):
    """``chunk`` clients at once: bytes of temporaries (None: not known), and what a round costs.

    The cost is None if the program does not fit, and 0 where nothing tells it.
    """

    chunk: int
    temporaries: int | None
    cost: float | None

    def describe(self, unit: str) -> str:
        if self.cost is None:
            return f'{self.chunk} (does not fit)'
        return f'{self.chunk} ({self.cost:.3g} {unit})' if self.cost else f'{self.chunk} (fits)'


def settled(experiment: Experiment) -> Experiment:
    """The experiment with the number of clients at once chosen, where the settings leave that open.

    The choice becomes the setting ``chunk``, so that config.json repeats it. On CPU clients run one by one on each
    core. Of equal costs the largest number is taken.
    """
    config, platform = experiment.config, experiment.platform
    is_open = config.client_map == AUTO and config.chunk is None and not config.deterministic
    most = -(-experiment.cohort // experiment.client_map.devices)
    if platform.name == 'cpu' or not is_open or most == 1:
        return experiment
    is_here = _is_here(platform)
    tried: list[Candidate] = []
    for chunk in (most, 1, None):
        chunk = _between(tried, most, platform.memory) if chunk is None else chunk
        if chunk is not None:
            tried.append(_candidate(experiment, chunk, is_here))
    fitting = [one for one in tried if one.cost is not None]
    if not fitting:
        raise UserError(_too_large(tried[-1], platform.memory))
    best = min(fitting, key=lambda one: one.cost or 0.0)
    unit = f's for {TIMED_STEPS} steps' if is_here else 'cycles a round'
    told = '; '.join(one.describe(unit) for one in sorted(tried, reverse=True))
    chosen = _with_chunk(experiment, best.chunk)
    note = f'{best.chunk} clients at once on a device{CHOSEN_AMONG}{told}'
    return dataclasses.replace(chosen, notes=(*chosen.notes, note))


def _is_here(platform: Platform) -> bool:
    """Whether programs for a platform can run: its devices are there, and no others stand in for them."""
    first = platform.devices[0]
    return first.platform == platform.name and first in jax.devices()


def _with_chunk(experiment: Experiment, chunk: int, **changes: int) -> Experiment:
    config = experiment.config.changed(chunk=chunk, **changes)
    return prepare(config, experiment.points, experiment.platform, experiment.federation)


def _candidate(experiment: Experiment, chunk: int, is_here: bool) -> Candidate:
    """Compile a round with so many clients at once, and time it if its devices are there."""
    limit = experiment.platform.memory
    tried = _with_chunk(experiment, chunk, **{'local_steps': TIMED_STEPS} if is_here else {})
    program = compiled_round(tried)
    total = None if program.temporaries is None else program.temporaries + program.arguments
    if not program.fits or (limit is not None and total is not None and total > MARGIN * limit):
        return Candidate(chunk, program.temporaries, None)
    return Candidate(chunk, program.temporaries, _seconds(tried, program) if is_here else program.work.cycles)


def _seconds(tried: Experiment, program: Compiled) -> float | None:
    """The time of the fastest round; None if it does not fit after all."""
    times: list[float] = []
    run: Any = program.run
    try:
        states, data = _first(tried)
        given = (tried.lanes, states, data, jnp.int32(1))  # in their places before the clock starts
        lanes, states, data, n = jax.device_put(given, (*places_of(tried), everywhere(tried)))
        for _ in range(TIMED_ROUNDS):
            begun = time.perf_counter()
            states, _ = jax.block_until_ready(run(lanes, states, data, n))
            times.append(time.perf_counter() - begun)
    except jax.errors.JaxRuntimeError as error:
        if not is_too_large(error):
            raise
        return None
    return min(times)


def _first(experiment: Experiment) -> tuple[FedState, Examples | Streamed]:
    """The states at the start, and examples: all of them, or those of one cohort."""
    federation, program, lanes = experiment.federation, experiment.program, experiment.lanes
    if not experiment.storage.streams:
        return program.init(lanes), experiment.examples()
    ids, rows_away = np.arange(experiment.cohort, dtype=np.int32), experiment.storage.rows is not Place.DEVICE
    one = gathered(federation, in_memory(federation), ids, room_for(federation.sizes, len(ids)))
    one = one._replace(places=ids if rows_away else None)
    data = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * len(lanes.seed)), one)
    return program.init(lanes, len(ids)) if rows_away else program.init(lanes), data


def _between(tried: list[Candidate], most: int, limit: int | None) -> int | None:
    """A number of clients between one and all: as many as fit, or where all fit about their square root."""
    everybody, one = tried
    middle = math.isqrt(most)
    if everybody.cost is None and None not in (everybody.temporaries, one.temporaries, limit) and one.cost is not None:
        each = max(1.0, (everybody.temporaries - one.temporaries) / (most - 1))  # type: ignore[operator]
        middle = min(most - 1, 1 + int((MARGIN * limit - one.temporaries) / each))  # type: ignore[operator]
    return middle if 1 < middle < most and one.cost is not None else None


def _too_large(one: Candidate, limit: int | None) -> str:
    needs = '' if one.temporaries is None else f' needs {in_words(one.temporaries)} and'
    there = '' if limit is None else f' of {in_words(limit)}'
    return (
        f'a round with one client at a time{needs} does not fit into the memory{there} of a device; '
        'choose a smaller `batch_size`, `precision`=bfloat16 or `remat`'
    )
