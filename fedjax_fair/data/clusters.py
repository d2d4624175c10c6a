"""Clusters dealt out whole: examples of one slide or patient go to the same client.

A partition is drawn over clusters as if each were one example, and every client then gets all examples of its clusters.
Shares and counts (equal parts, Dirichlet shares, the least a client holds) are therefore of clusters, of patients and
not of their images. Examples that stand alone are dealt as if there were no clusters, bit for bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedjax_fair.data.partition import Clients
from fedjax_fair.data.pool import Pool

COUNTED = 'where examples belong together, groups of them (slides, patients) are counted and dealt out whole'


class Clusters(NamedTuple):
    """``C`` clusters of the examples ``rows``, in the order in which they appear.

    ``strata[C]`` is the class that most of its examples have, ``origin[C]`` the group of the first of them and
    ``sizes[C]`` how many they are; ``cluster_of`` is the cluster of every row.
    """

    strata: np.ndarray
    origin: np.ndarray
    sizes: np.ndarray
    cluster_of: np.ndarray

    def examples(self, clients: Clients) -> Clients:
        """The places among the rows of each client's clusters, cluster by cluster."""
        order, starts = np.argsort(self.cluster_of, kind='stable'), np.cumsum(self.sizes) - self.sizes

        def members(client: np.ndarray) -> np.ndarray:
            counts = self.sizes[client]
            before = np.cumsum(counts) - counts
            return order[np.repeat(starts[client] - before, counts) + np.arange(counts.sum())]

        return [members(client) for client in clients]

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Around a partition of clusters, whose complaints speak of examples: say what is counted."""
        try:
            yield
        except ValueError as error:
            if (self.sizes == 1).all():
                raise
            raise ValueError(f'{error}; {COUNTED}') from None


def clusters_of(pool: Pool, rows: np.ndarray, within_groups: bool = False) -> Clusters:
    """The clusters of some examples; ``within_groups`` a patient of two sites or domains is one in each of them."""
    cluster = np.arange(len(rows)) if pool.cluster_of is None else pool.cluster_of[rows]
    origin, strata = pool.origin[rows], pool.strata[rows]
    if within_groups:
        cluster = cluster.astype(np.int64) * (origin.max(initial=0) + 1) + origin
    _, first, inverse, sizes = np.unique(cluster, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    number = np.argsort(order)[inverse]
    return Clusters(_majority(strata, number, len(first)), origin[first[order]], sizes[order], number)


def _majority(strata: np.ndarray, cluster_of: np.ndarray, count: int) -> np.ndarray:
    """The most frequent class of every cluster, the lower of two that are equally frequent."""
    classes = int(strata.max(initial=0)) + 1
    pairs, times = np.unique(cluster_of * classes + strata, return_counts=True)
    order = np.lexsort((-pairs, times))  # the last of a cluster is its most frequent
    found = np.zeros(count, strata.dtype)
    found[pairs[order] // classes] = pairs[order] % classes
    return found
