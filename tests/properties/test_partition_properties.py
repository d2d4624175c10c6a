"""Partition schemes: every example goes to exactly one client, and the seed decides which."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedjax_fair.data import partition

SEEDS = st.integers(0, 2**32 - 1)
CLIENTS = st.integers(1, 6)
ALPHAS = st.floats(0.3, 100)
LABELS = hnp.arrays(np.int64, st.integers(24, 60), elements=st.integers(0, 3))


def assert_each_once(clients, count):
    np.testing.assert_array_equal(np.sort(np.concatenate(clients)), np.arange(count))


def assert_equal_clients(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        np.testing.assert_array_equal(one, other)


SCHEMES = {
    'iid': lambda labels, clients, alpha, seed: partition.iid(len(labels), clients, seed),
    'dirichlet': lambda labels, clients, alpha, seed: partition.dirichlet(labels, clients, alpha, seed),
    'capped_dirichlet': lambda labels, clients, alpha, seed: partition.capped_dirichlet(
        labels, clients, alpha, seed, min_size=1
    ),
    'quantity': lambda labels, clients, alpha, seed: partition.quantity_skew(len(labels), clients, alpha, seed),
    'power': lambda labels, clients, alpha, seed: partition.quantity_skew(
        len(labels), clients, min(alpha, 4), seed, law='power'
    ),
    'two_pools': lambda labels, clients, alpha, seed: partition.two_pools(labels, clients + 1, 1, alpha, seed),
    'site': lambda labels, clients, alpha, seed: partition.by_site(labels),
}


@pytest.mark.parametrize('name', SCHEMES)
@given(LABELS, CLIENTS, ALPHAS, SEEDS)
def test_every_example_goes_to_one_client_and_the_seed_decides(name, labels, clients, alpha, seed):
    found = SCHEMES[name](labels, clients, alpha, seed)
    assert_each_once(found, len(labels))
    assert_equal_clients(found, SCHEMES[name](labels, clients, alpha, seed))


@given(LABELS, CLIENTS, ALPHAS, SEEDS, st.integers(1, 3))
def test_no_client_is_smaller_than_asked(labels, clients, alpha, seed, least):
    for found in (
        partition.dirichlet(labels, clients, alpha, seed, least),
        partition.quantity_skew(len(labels), clients, alpha, seed, min_size=least),
    ):
        assert min(map(len, found)) >= least


@given(st.integers(1, 4), st.integers(1, 6), SEEDS)
def test_every_client_holds_exactly_k_classes(k, clients, seed):
    labels = np.arange(48) % 4
    found = partition.k_classes(labels, clients, k, seed)
    assert [len(np.unique(labels[client])) for client in found] == [k] * clients
    held = np.unique(np.concatenate([labels[client] for client in found]))
    assert_each_once([np.searchsorted(np.flatnonzero(np.isin(labels, held)), c) for c in found], 12 * len(held))
    holders = np.bincount(np.concatenate([np.unique(labels[client]) for client in found]), minlength=4)
    assert np.ptp(holders) <= 1


@given(hnp.arrays(np.int64, 40, elements=st.integers(0, 2)), st.integers(1, 3), SEEDS)
def test_clients_of_a_domain_hold_that_domain_alone(domains, clients_per_domain, seed):
    sizes = np.unique(domains, return_counts=True)[1]
    if sizes.min() < clients_per_domain:
        with pytest.raises(ValueError, match='asks for'):
            partition.by_domain(domains, clients_per_domain, seed)
        return
    found = partition.by_domain(domains, clients_per_domain, seed)
    assert_each_once(found, len(domains))
    assert all(len(np.unique(domains[client])) == 1 for client in found)
    assert len(found) == clients_per_domain * len(sizes)


@given(LABELS, CLIENTS, ALPHAS, SEEDS)
def test_truncated_clients_are_parts_of_equal_size(labels, clients, alpha, seed):
    whole = partition.dirichlet(labels, clients, alpha, seed)
    cut = partition.truncate(whole, seed)
    assert {len(client) for client in cut} == {min(map(len, whole))}
    assert all(set(part) <= set(client) for part, client in zip(cut, whole, strict=True))
