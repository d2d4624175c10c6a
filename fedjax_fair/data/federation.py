"""A federation: examples stored once, and which client and which test set each of them belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Cohort, Tests


@dataclasses.dataclass(frozen=True)
class Federation:
    """Training examples of ``N`` clients and their test sets, all in host memory.

    Images are ``[T, H, W, C]`` (uint8 in 0..255, or floats used as they are), features ``[T, D]``.
    ``index[N, M]`` lists each client's examples, the first ``sizes[n]`` of a row being real. ``group_of[N]`` names
    each client's domain or site in ``groups``; both are empty where a federation has none.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    index: np.ndarray
    sizes: np.ndarray
    tests: Tests
    num_classes: int
    groups: tuple[str, ...] = ()
    group_of: np.ndarray | None = None
    class_names: tuple[str, ...] = ()
    description: str = ''

    @property
    def num_clients(self) -> int:
        return len(self.sizes)

    def cohort(self, ids, mask=None, x=None, y=None) -> Cohort:
        """The cohort of clients ``ids`` (``id == N`` is a padding slot); works on traced ids."""
        ids = jnp.asarray(ids, jnp.int32)
        mask = ids < self.num_clients if mask is None else jnp.asarray(mask) & (ids < self.num_clients)
        row = jnp.minimum(ids, self.num_clients - 1)
        sizes = jnp.where(mask, jnp.asarray(self.sizes, jnp.int32)[row], 0)
        ex_mask = jnp.arange(self.index.shape[1], dtype=jnp.int32) < sizes[:, None]
        x = jnp.asarray(self.x) if x is None else x
        y = jnp.asarray(self.y) if y is None else y
        return Cohort(ids, mask, x, y, jnp.asarray(self.index, jnp.int32)[row], ex_mask)


def index_table(clients: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Pad lists of example indices to one ``[N, M]`` table; returns the table and the sizes."""
    sizes = np.array([len(c) for c in clients], np.int32)
    table = np.zeros((len(clients), max(1, int(sizes.max(initial=0)))), np.int32)
    for row, chosen in zip(table, clients, strict=True):
        row[: len(chosen)] = chosen
    return table, sizes


def stack_tests(sets: Sequence[tuple[np.ndarray, np.ndarray]], test_of, names: Sequence[str]) -> Tests:
    """Pad test sets ``[(x, y), ...]`` to one stacked :class:`Tests`."""
    longest = max(1, max(len(y) for _, y in sets))

    def padded(a: np.ndarray) -> np.ndarray:
        return np.concatenate([a, np.zeros((longest - len(a), *a.shape[1:]), a.dtype)])

    mask = np.stack([np.arange(longest) < len(y) for _, y in sets])
    x, y = (np.stack([padded(s[k]) for s in sets]) for k in (0, 1))
    return Tests(x, y, mask, np.asarray(test_of, np.int32), tuple(names))
