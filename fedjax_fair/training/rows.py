"""Client rows in host memory or on disk: the rows of a cohort come to the device for its round only."""

from __future__ import annotations

import concurrent.futures
import pathlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Array, PyTree
from fedjax_fair.publishing import CannotWrite, make_folder


class RowStore:
    """Tables ``[lanes, N, ...]`` of all clients' rows, in host memory or, with a ``folder``, in memory-mapped files.

    One thread does all reading and writing in the order of the requests, while the device computes. The rows of round
    ``t + 1`` are read before the rows of round ``t`` are written. A client that is in both cohorts therefore takes its
    row from the device.
    """

    def __init__(self, first: PyTree, clients: int, folder: pathlib.Path | None = None):
        """``first[lanes, rows, ...]``: rows at the start, which are all equal."""
        leaves, self._structure = jax.tree.flatten(jax.device_get(first))
        self._placement = [leaf.sharding for leaf in jax.tree.leaves(first)]  # other places would mean compiling again
        self._tables = [_table(leaf[:, :1], clients, folder, number) for number, leaf in enumerate(leaves)]
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._coming: tuple[np.ndarray, concurrent.futures.Future] | None = None
        self._going: tuple[np.ndarray, PyTree] | None = None
        self._written: concurrent.futures.Future | None = None

    def tables(self) -> PyTree:
        """All rows as they are now; waits until the last round is written."""
        self._finish_writing()
        return jax.tree.unflatten(self._structure, self._tables)

    def load(self, tables: PyTree) -> None:
        """Replace all rows, as after a restart."""
        self.tables()
        for table, new in zip(self._tables, jax.tree.leaves(tables), strict=True):
            table[:] = np.asarray(new)
        self._coming = self._going = None

    def bring(self, ids: np.ndarray, following: np.ndarray | None) -> PyTree:
        """Rows of clients ``ids[lanes, C]`` for the round that starts now; the ``following`` are read meanwhile."""
        if self._coming is None or not np.array_equal(self._coming[0], ids):
            self._going, self._coming = None, (ids, self._thread.submit(self._read, ids))
        rows = self._placed(self._coming[1].result())
        if self._going is not None:
            before, kept = self._going
            rows = self._placed(jax.tree.leaves(_patched(rows, kept, jnp.asarray(_places(ids, before)))))
        self._coming = None if following is None else (following, self._thread.submit(self._read, following))
        return rows

    def take(self, ids: np.ndarray) -> PyTree:
        """Rows of clients ``ids[lanes, C]`` outside of rounds."""
        self._finish_writing()
        return self._placed(self._thread.submit(self._read, ids).result())

    def keep(self, ids: np.ndarray, rows: PyTree) -> None:
        """Write the rows of a round, as soon as they are computed."""
        self._finish_writing()  # of the round before
        self._going = (ids, rows)
        self._written = self._thread.submit(self._write, ids, jax.tree.leaves(rows))

    def _finish_writing(self) -> None:
        """Wait until all rows are written; raises the error of the thread, if there was one."""
        if self._written is not None:
            self._written.result()

    def _placed(self, leaves: Sequence) -> PyTree:
        return jax.tree.unflatten(self._structure, jax.device_put(list(leaves), self._placement))

    def _read(self, ids: np.ndarray) -> list[np.ndarray]:
        return [
            np.stack([table[lane, np.minimum(own, table.shape[1] - 1)] for lane, own in enumerate(ids)])
            for table in self._tables
        ]

    def _write(self, ids: np.ndarray, leaves: Sequence[Array]) -> None:
        for table, leaf in zip(self._tables, leaves, strict=True):
            for lane, (own, rows) in enumerate(zip(ids, np.asarray(leaf), strict=True)):
                table[lane, own[own < table.shape[1]]] = rows[own < table.shape[1]]


def _table(first: np.ndarray, clients: int, folder: pathlib.Path | None, number: int) -> np.ndarray:
    shape = (first.shape[0], clients, *first.shape[2:])
    if folder is None:
        return np.broadcast_to(first, shape).copy()
    make_folder(folder)
    try:
        table = np.lib.format.open_memmap(folder / f'{number}.npy', 'w+', first.dtype, shape)
    except OSError as error:
        raise CannotWrite(folder, error) from None
    table[:] = first
    return table


def _places(ids: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Where each of ``ids[lanes, C]`` stands in ``before[lanes, C]``; -1 where it does not."""
    same = ids[:, :, None] == before[:, None, :]
    return np.where(same.any(2), same.argmax(2), -1).astype(np.int32)


@jax.jit
def _patched(rows: PyTree, newer: PyTree, places: Array) -> PyTree:
    """The rows, or the newer ones of the clients that stand at ``places`` of ``newer``."""

    def one(row: Array, new: Array, place: Array) -> Array:
        known = (place >= 0).reshape(-1, *[1] * (row.ndim - 1))
        return jnp.where(known, jnp.take(new, place, axis=0, mode='clip'), row)

    return jax.vmap(lambda row, new, place: jax.tree.map(lambda r, n: one(r, n, place), row, new))(rows, newer, places)
