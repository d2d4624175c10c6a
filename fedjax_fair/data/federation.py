"""A federation: examples stored once, and which client and which test set each of them belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Array, Cohort, Tests


class Partition(NamedTuple):
    """Who holds what: indices of a source's examples.

    ``clients`` are the training examples of every client and ``tests`` those of every test set, named by
    ``test_names``; ``test_of[N]`` is each client's test set, ``group_of[N]`` its group in ``groups`` (see
    :class:`Federation`). The source has ``examples`` examples, whose fingerprint is ``examples_sha256``. ``split`` is
    the scheme that dealt them, with all its options, and ``tests_drawn`` says that test examples were drawn at random;
    a partition that was read from a file has neither.
    """

    clients: list[np.ndarray]
    tests: list[np.ndarray]
    test_of: np.ndarray
    test_names: tuple[str, ...]
    groups: tuple[str, ...] = ()
    group_of: np.ndarray | None = None
    examples: int = 0
    examples_sha256: str = ''
    split: Mapping[str, Any] | None = None
    tests_drawn: bool = False


@dataclasses.dataclass(frozen=True)
class Federation:
    """Training examples of ``N`` clients and their test sets, all in host memory.

    Images are ``[T, H, W, C]`` (uint8 in 0..255, or floats used as they are), features ``[T, D]``. ``index[N, M]``
    lists each client's examples; the first ``sizes[n]`` of a row are real. Fairness is measured between ``groups`` of
    clients, such as sites or qualities of images; ``group_of[N]`` is each client's group. Both are empty where a
    federation has no groups. ``y`` holds what ``task`` learns: classes ``[T]``, labels ``[T, K]`` or masks ``[T, H,
    W]``; ``labels[T]`` are the classes of examples with masks, which ``class_names`` names then. ``validation`` holds
    a test set for every client, by which models are chosen. Examples of one patient have the same number in
    ``patient_of[T]``, where patients are known, and in ``test_patient_of[G, M]``, by test set and example.
    ``partition`` says which examples of a source these are, where there is a source.
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
    task: str = 'classification'
    labels: np.ndarray | None = None
    validation: Tests | None = None
    patient_of: np.ndarray | None = None
    test_patient_of: np.ndarray | None = None
    partition: Partition | None = None

    @property
    def num_clients(self) -> int:
        return len(self.sizes)

    def arrays(self) -> Examples:
        """The training data on device, to be passed to a compiled program as an argument."""
        return Examples(*(jnp.asarray(a) for a in (self.x, self.y, self.index, self.sizes)))

    def cohort(self, ids, mask=None) -> Cohort:
        """The cohort of clients ``ids``; ``id == N`` is a padding slot."""
        return cohort_of(self.arrays(), jnp.asarray(ids, jnp.int32), mask)


class Examples(NamedTuple):
    """The training side of a federation on device."""

    x: Array
    y: Array
    index: Array  # type: ignore[assignment]  # nobody asks a tuple for its index
    sizes: Array


def cohort_of(data: Examples, ids: Array, mask: Array | None = None) -> Cohort:
    """The cohort of clients ``ids[C]``, which may be traced; no example is copied."""
    clients = data.sizes.shape[0]
    mask = ids < clients if mask is None else jnp.asarray(mask) & (ids < clients)
    row = jnp.minimum(ids, clients - 1)
    sizes = jnp.where(mask, data.sizes[row], 0)
    ex_mask = jnp.arange(data.index.shape[1], dtype=sizes.dtype)[None] < sizes[:, None]
    return Cohort(ids, mask, data.x, data.y, data.index[row], ex_mask)


def index_table(clients: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Pad lists of example indices to one ``[N, M]`` table; returns the table and the sizes."""
    sizes = np.array([len(c) for c in clients], np.int32)
    table = np.zeros((len(clients), max(1, int(sizes.max(initial=0)))), np.int32)
    for row, chosen in zip(table, clients, strict=True):
        row[: len(chosen)] = chosen
    return table, sizes


def padded_rows(rows: Sequence[np.ndarray], fill: int) -> np.ndarray:
    """Rows of unequal length as one table.

    >>> padded_rows([np.array([4, 5]), np.array([6])], -1).tolist()
    [[4, 5], [6, -1]]
    """
    table = np.full((len(rows), max(1, *map(len, rows), 0)), fill, np.int64)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


def stack_tests(sets: Sequence[tuple[np.ndarray, np.ndarray]], test_of, names: Sequence[str]) -> Tests:
    """Pad test sets ``[(x, y), ...]`` to one stacked :class:`Tests`."""
    longest = max(1, max(len(y) for _, y in sets))

    def padded(a: np.ndarray) -> np.ndarray:
        return np.concatenate([a, np.zeros((longest - len(a), *a.shape[1:]), a.dtype)])

    mask = np.stack([np.arange(longest) < len(y) for _, y in sets])
    x, y = (np.stack([padded(s[k]) for s in sets]) for k in (0, 1))
    return Tests(x, y, mask, np.asarray(test_of, np.int32), tuple(names))
