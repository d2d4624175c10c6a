"""Which clients take part in a round: pure functions of a key and the round number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Array, default_float
from fedjax_fair.errors import UserError
from fedjax_fair.options import above, not_one_of
from fedjax_fair.parsing import whole_number
from fedjax_fair.registry import register
from fedjax_fair.registry import samplers as SAMPLERS

Sampler = Callable[[Array, Array], Array]  # (key, round) -> ids[C]
Participation = Annotated[float, 'share of clients sampled each round', above(0, at_most=1)]


def cohort_size(num_clients: int, participation: float) -> int:
    """``max(round(participation * N), 1)``."""
    if not 0 < participation <= 1:
        raise UserError(f'`participation`={participation} must be above 0 and at most 1')
    return max(round(participation * num_clients), 1)


def uniform(num_clients: int, cohort: int) -> Sampler:
    """``cohort`` different clients, all equally likely; everybody, in order, when that is all of them."""
    if cohort == num_clients:
        return lambda key, round: jnp.arange(num_clients, dtype=jnp.int32)
    return lambda key, round: jax.random.permutation(key, num_clients)[:cohort].astype(jnp.int32)


def by_size(sizes: np.ndarray, cohort: int) -> Sampler:
    """``cohort`` different clients, drawn with chances proportional to their examples (Gumbel top-k)."""
    logs = jnp.log(jnp.asarray(np.maximum(sizes, 0), default_float()))

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


@register.sampler('uniform')
def uniform_sampler(sizes: np.ndarray, participation: Participation = 1.0) -> Sampler:
    """All clients are equally likely."""
    return uniform(len(sizes), cohort_size(len(sizes), participation))


@register.sampler('size')
def size_sampler(sizes: np.ndarray, participation: Participation = 1.0) -> Sampler:
    """The chance of a client is proportional to the number of its examples."""
    return by_size(sizes, cohort_size(len(sizes), participation))


@register.sampler('schedule')
def schedule_sampler(
    sizes: np.ndarray, schedule: Annotated[Any, 'client ids per round, such as 0,1;2,3'] = None
) -> Sampler:
    """The clients of every round are given in advance."""
    return by_schedule(_checked_schedule(schedule, len(sizes)))


def make_sampler(
    kind: str, sizes: np.ndarray, participation: float = 1.0, schedule: Any = None, **options: Any
) -> Sampler:
    """A sampler by name; it gets the settings that it reads, and options of its own."""
    if kind not in SAMPLERS:
        raise UserError(f'`sampler`={kind} {not_one_of(kind, SAMPLERS)}')
    settings = {'participation': participation, 'schedule': schedule}
    read = {name: value for name, value in settings.items() if name in SAMPLERS.options(kind)}
    return SAMPLERS.make(kind, sizes, **read, **options)


def parse_schedule(text: str) -> list[list[int]] | None:
    """The clients of every round as a user writes them; None for no text.

    >>> parse_schedule('0,1;2,3')
    [[0, 1], [2, 3]]
    """
    try:
        return [[whole_number(one) for one in row.split(',')] for row in text.split(';')] if text else None
    except ValueError:
        raise UserError(f'`schedule`={text!r} must be client ids per round, such as 0,1;2,3') from None


def _checked_schedule(schedule: Any, num_clients: int) -> np.ndarray:
    if schedule is None:
        raise UserError('`sampler`=schedule needs `schedule`: client ids per round, such as "0,1;2,3"')
    rows = [list(row) for row in schedule]
    ids = [client for row in rows for client in row]
    if len({len(row) for row in rows}) != 1 or not ids or min(ids) < 0 or max(ids) >= num_clients:
        raise UserError(
            f'`schedule`={_written(rows)} must hold equally many client ids from 0 to {num_clients - 1} for every round'
        )
    for row in rows:
        if len(set(row)) < len(row):
            raise UserError(f'`schedule`={_written(rows)} names a client twice in one round: {_written([row])}')
    return np.array(rows, np.int32)


def _written(rows: list[list[int]]) -> str:
    return ';'.join(','.join(map(str, row)) for row in rows)
