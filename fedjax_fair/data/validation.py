"""A validation set for every client, split off its training examples."""

from __future__ import annotations

import dataclasses

import numpy as np

from fedjax_fair.data.federation import Federation, index_table, stack_tests
from fedjax_fair.errors import UserError


def with_validation(federation: Federation, share: float, seed: int = 0) -> Federation:
    """Keep ``floor(share n)`` of each client's ``n`` training examples, drawn by its number, to validate on.

    Where patients are known, whole patients are drawn: as many as fit into that number, at least one. No test
    example is touched.
    """
    train, held = [], []
    for client, (row, size) in enumerate(zip(federation.index, federation.sizes, strict=True)):
        count = int(share * size + 1e-9)  # 0.29 of 100 are 29
        if not 0 < count < size:
            raise UserError(
                f'`validation`={share} of the {size} examples of client {client} are {count}; each client needs at '
                f'least one to validate on and one to train on'
            )
        own = row[:size]
        patients = np.arange(size) if federation.patient_of is None else federation.patient_of[own]
        chosen = _drawn(patients, count, np.random.default_rng([seed, client]))
        if chosen.all():
            raise UserError(
                f'`validation`={share}: all {size} examples of client {client} are of one patient, '
                'which cannot be both validated and trained on; choose `validation`=0 or clients of more patients'
            )
        train.append(own[~chosen])
        held.append(own[chosen])
    index, sizes = index_table(train)
    names = [f'client {n}' for n in range(len(held))]
    sets = stack_tests([(federation.x[rows], federation.y[rows]) for rows in held], np.arange(len(held)), names)
    return dataclasses.replace(federation, index=index, sizes=sizes, validation=sets)


def _drawn(patients: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Which examples are of the first patients, in a random order, that have at most ``count`` examples together."""
    _, patient, sizes = np.unique(patients, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    fitting = int(np.sum(np.cumsum(sizes[order]) <= count))
    return np.isin(patient, order[: max(1, fitting)])
