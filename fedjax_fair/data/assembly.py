"""From a pool of examples and a partition of it to a federation."""

from __future__ import annotations

import dataclasses

import numpy as np

from fedjax_fair.core.types import Tests
from fedjax_fair.data.federation import Federation, Partition, index_table, padded_rows, stack_tests
from fedjax_fair.data.partition.dealing import deal
from fedjax_fair.data.partition.file import fingerprint, read_partition
from fedjax_fair.data.partition.quantities import Clients
from fedjax_fair.data.partition.split import Split
from fedjax_fair.data.pool import Pool


def federate(
    pool: Pool,
    name: str,
    split: Split,
    seed: int = 0,
    own_tests: int | None = None,
    test_size: int | None = None,
    partition_file: str | None = None,
    description: str = '',
) -> Federation:
    """The federation of a split of the examples (see :func:`~.dealing.deal`), or of the partition in a file."""
    if partition_file:
        dealt = read_partition(partition_file, pool)
    else:
        dealt = deal(pool, name, split, seed, own_tests, test_size)
    return assemble(pool, name, dealt, description=description)


def assemble(pool: Pool, name: str, dealt: Partition, tests: Tests | None = None, description: str = '') -> Federation:
    """The federation in which each client holds the examples that a partition gives it.

    ``tests`` are the test sets where these are not simply the examples that the partition names.
    """
    if tests is None:
        sets = [(pool.x[rows], pool.targets[rows]) for rows in dealt.tests]
        tests = stack_tests(sets, dealt.test_of, dealt.test_names)
    used, table, sizes = _compact(dealt.clients, len(pool.y))
    num_classes, train = pool.num_classes, pool.take(used)
    made = Federation(
        name,
        train.x,
        train.targets,
        table,
        sizes,
        tests,
        num_classes,
        dealt.groups,
        dealt.group_of,
        train.class_names,
        description,
        train.task,
        labels=None if train.targets is train.y else train.y,
        patient_of=train.patient_of,
        test_patient_of=None if pool.patient_of is None else padded_rows([pool.patient_of[r] for r in dealt.tests], -1),
    )
    return dataclasses.replace(made, partition=dealt._replace(examples=len(pool.y), examples_sha256=fingerprint(pool)))


def _compact(clients: Clients, total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which examples any client holds, and the table and sizes of their places among those."""
    used = np.zeros(total, bool)
    used[np.concatenate(clients)] = True
    place = np.cumsum(used) - 1
    return used, *index_table([place[client] for client in clients])
