"""Which clients take part in a round: pure functions of a key and the round number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Array

Sampler = Callable[[Array, Array], Array]  # (key, round) -> ids[C]
SAMPLERS = ('uniform', 'size', 'schedule')


def cohort_size(num_clients: int, participation: float) -> int:
    """``max(round(participation * N), 1)``."""
    if not 0 < participation <= 1:
        raise ValueError(f'--participation={participation} must be above 0 and at most 1')
    return max(round(participation * num_clients), 1)


def uniform(num_clients: int, cohort: int) -> Sampler:
    """``cohort`` different clients, all equally likely; everybody, in order, when that is all of them."""
    if cohort == num_clients:
        return lambda key, round: jnp.arange(num_clients, dtype=jnp.int32)
    return lambda key, round: jax.random.permutation(key, num_clients)[:cohort].astype(jnp.int32)


def by_size(sizes: np.ndarray, cohort: int) -> Sampler:
    """``cohort`` different clients, drawn with chances proportional to their examples (Gumbel top-k)."""
    logs = jnp.log(jnp.asarray(np.maximum(sizes, 0), jnp.zeros(0).dtype))

    def sample(key, round):
        noise = jax.random.gumbel(key, logs.shape, logs.dtype)
        return jax.lax.top_k(logs + noise, cohort)[1].astype(jnp.int32)

    return sample


def by_schedule(table: Any) -> Sampler:
    """The clients of round ``t`` are row ``t mod R`` of ``table[R, C]``; an id of ``N`` leaves a slot empty."""
    table = jnp.asarray(table, jnp.int32)
    return lambda key, round: table[round % table.shape[0]]


def survivors(key: Array, ids: Array, dropout: Any) -> Array:
    """``[C]`` True for sampled clients that do not drop out; each client tosses its own coin."""
    coins = jax.vmap(lambda i: jax.random.uniform(jax.random.fold_in(key, i)))(ids)
    return coins >= dropout


def make_sampler(kind: str, sizes: np.ndarray, participation: float, schedule: Any = None) -> Sampler:
    """The sampler named on the command line."""
    cohort = cohort_size(len(sizes), participation)
    if kind == 'uniform':
        return uniform(len(sizes), cohort)
    if kind == 'size':
        return by_size(sizes, cohort)
    if kind == 'schedule':
        return by_schedule(_checked_schedule(schedule, len(sizes)))
    raise ValueError(f'--sampler={kind!r} is not one of {", ".join(SAMPLERS)}')


def _checked_schedule(schedule: Any, num_clients: int) -> np.ndarray:
    if schedule is None:
        raise ValueError('--sampler=schedule needs --schedule: client ids per round, such as "0,1;2,3"')
    rows = [list(row) for row in schedule]
    ids = [client for row in rows for client in row]
    if len({len(row) for row in rows}) != 1 or not ids or min(ids) < 0 or max(ids) >= num_clients:
        raise ValueError(
            f'--schedule={_written(rows)} must hold equally many client ids from 0 to {num_clients - 1} for every round'
        )
    for row in rows:
        if len(set(row)) < len(row):
            raise ValueError(f'--schedule={_written(rows)} names a client twice in one round: {_written([row])}')
    return np.array(rows, np.int32)


def _written(rows: list[list[int]]) -> str:
    return ';'.join(','.join(map(str, row)) for row in rows)
