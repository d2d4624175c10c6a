"""Cohorts that are brought to the device one at a time: examples stay in host memory or on disk."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Array, Cohort
from fedjax_fair.data.federation import Federation

Take = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # rows -> their x and y


class Streamed(NamedTuple):
    """The examples of the clients of one cohort, flat as in :class:`~fedjax_fair.data.federation.Examples`.

    ``places`` say where the clients' rows stand, as in :class:`~fedjax_fair.core.types.Cohort`.
    """

    ids: Any
    sizes: Any
    indices: Any
    x: Any
    y: Any
    places: Any = None


def room_for(sizes: np.ndarray, cohort: int) -> int:
    """How many examples the largest cohort of so many clients can have; all cohorts get that much room.

    >>> room_for(np.array([3, 9, 5]), cohort=2)
    14
    """
    return int(np.sort(sizes)[::-1][:cohort].sum())


def on_disk(federation: Federation, folder: pathlib.Path) -> Take:
    """The federation's examples written to an array_record file in this folder, whatever it held before."""
    from fedjax_fair.data.records import Records, write_records  # a library for those who have examples on disk

    shutil.rmtree(folder, ignore_errors=True)
    write_records(folder, federation.x, federation.y)
    return Records(folder).take


def in_memory(federation: Federation) -> Take:
    """The federation's examples, which stay in memory."""
    return lambda rows: (federation.x[rows], federation.y[rows])


def gathered(federation: Federation, take: Take, ids: np.ndarray, room: int) -> Streamed:
    """The examples of clients ``ids[C]``, one client after another; an id of ``N`` is an empty slot."""
    row = np.minimum(ids, federation.num_clients - 1)
    sizes = np.where(ids < federation.num_clients, federation.sizes[row], 0).astype(np.int32)
    inside = np.arange(federation.index.shape[1]) < sizes[:, None]
    x, y = take(federation.index[row][inside])
    index = np.minimum((np.cumsum(sizes) - sizes)[:, None] + np.arange(inside.shape[1]), room - 1)
    return Streamed(ids, sizes, index.astype(np.int32), _padded(x, room), _padded(y, room))


def _padded(values: np.ndarray, room: int) -> np.ndarray:
    out = np.zeros((room, *values.shape[1:]), values.dtype)
    out[: len(values)] = values
    return out


def streamed_cohort(data: Streamed, mask: Array | None, num_clients: int) -> Cohort:
    """The cohort that holds these examples."""
    here = data.ids < num_clients
    mask = here if mask is None else mask & here
    sizes = jnp.where(mask, data.sizes, 0)
    ex_mask = jnp.arange(data.indices.shape[1], dtype=sizes.dtype)[None] < sizes[:, None]
    return Cohort(data.ids, mask, data.x, data.y, data.indices, ex_mask, data.places)
