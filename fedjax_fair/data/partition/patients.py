"""Patients are dealt out whole: all examples of one patient go to the same client.

A partition scheme deals patients as if each were one example, and every client then gets all examples of its patients.
Shares and counts (equal parts, Dirichlet shares, the least a client holds) are therefore of patients and not of their
images. Where patients are not known, every example is a patient of its own, and the partition is bit for bit that of
single examples.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedjax_fair.data.partition.quantities import Clients
from fedjax_fair.data.pool import Pool
from fedjax_fair.errors import UserError

COUNTED = 'counts are of patients or slides, which are never divided between clients'


class Patients(NamedTuple):
    """``P`` patients of some examples, in the order in which they appear; this is what a partition scheme deals out.

    ``labels[P]`` is the class that most examples of a patient have, ``site_of[P]`` the site of the first of them and
    ``sizes[P]`` how many they are; ``patient_of`` is the patient of every example.
    """

    labels: np.ndarray
    site_of: np.ndarray
    sizes: np.ndarray
    patient_of: np.ndarray

    def examples(self, clients: Clients) -> Clients:
        """The places of the examples of each client's patients, patient by patient."""
        order, starts = np.argsort(self.patient_of, kind='stable'), np.cumsum(self.sizes) - self.sizes

        def members(client: np.ndarray) -> np.ndarray:
            counts = self.sizes[client]
            before = np.cumsum(counts) - counts
            return order[np.repeat(starts[client] - before, counts) + np.arange(counts.sum())]

        return [members(client) for client in clients]

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Around a partition scheme, whose error messages speak of examples: say that patients are counted."""
        try:
            yield
        except UserError as error:
            if (self.sizes == 1).all():
                raise
            raise UserError(f'{error.message}; {COUNTED}') from None


def patients_of(pool: Pool, rows: np.ndarray, within_sites: bool = False) -> Patients:
    """The patients of some examples; ``within_sites`` a patient with examples of two sites is one patient in each."""
    patient = np.arange(len(rows)) if pool.patient_of is None else pool.patient_of[rows]
    site_of, strata = pool.site_index[rows], pool.strata[rows]
    if within_sites:
        patient = patient.astype(np.int64) * (site_of.max(initial=0) + 1) + site_of
    _, first, inverse, sizes = np.unique(patient, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    number = np.argsort(order)[inverse]
    return Patients(_majority(strata, number, len(first)), site_of[first[order]], sizes[order], number)


def _majority(strata: np.ndarray, patient_of: np.ndarray, count: int) -> np.ndarray:
    """The most frequent class of every patient, the lower of two that are equally frequent."""
    classes = int(strata.max(initial=0)) + 1
    pairs, times = np.unique(patient_of * classes + strata, return_counts=True)
    order = np.lexsort((-pairs, times))  # the last of a patient is its most frequent class
    labels = np.zeros(count, strata.dtype)
    labels[pairs[order] // classes] = pairs[order] % classes
    return labels
