"""Partitions: disjoint, complete where promised, skewed as promised, reproducible, clear about impossible wishes."""

import numpy as np
import pytest

from fedjax_fair.data import partition
from fedjax_fair.data.partition import label_skew

LABELS = np.random.default_rng(7).integers(10, size=2000)
DOMAIN = np.repeat([0, 1, 2], [300, 500, 200])

COMPLETE = {
    'iid': lambda seed: partition.iid(2000, 7, seed),
    'dirichlet': lambda seed: partition.dirichlet(LABELS, 7, 0.3, seed),
    'capped_dirichlet': lambda seed: partition.capped_dirichlet(LABELS, 7, 0.3, seed),
    'k_classes': lambda seed: partition.k_classes(LABELS, 20, 2, seed),
    'by_domain': lambda seed: partition.by_domain(DOMAIN, 3, seed),
    'quantity': lambda seed: partition.quantity_skew(2000, 7, 0.5, seed),
    'power': lambda seed: partition.quantity_skew(2000, 7, 1.5, seed, law='power'),
}


def mixes(clients, labels=LABELS, num_classes=10):
    counts = np.stack([np.bincount(labels[c], minlength=num_classes) for c in clients])
    return counts / counts.sum(1, keepdims=True)


@pytest.mark.parametrize('name', COMPLETE)
def test_every_example_is_used_exactly_once(name):
    used = np.sort(np.concatenate(COMPLETE[name](0)))
    np.testing.assert_array_equal(used, np.arange(len(used)))
    assert len(used) in (1000, 2000)


@pytest.mark.parametrize('name', COMPLETE)
def test_seed_decides_and_global_state_does_not(name):
    np.random.seed(1)
    first = COMPLETE[name](3)
    np.random.seed(2)
    again, other = COMPLETE[name](3), COMPLETE[name](4)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_iid_parts_are_near_equal():
    assert {len(c) for c in partition.iid(2000, 7, 0)} == {285, 286}


def test_dirichlet_goes_from_one_mix_to_separate_classes():
    spread = [mixes(partition.dirichlet(LABELS, 5, alpha, 0)).std(0).mean() for alpha in (1000.0, 1.0, 0.1)]
    assert spread[0] < 0.01 < spread[1] < spread[2]


def test_dirichlet_shares_have_the_moments_of_the_distribution():
    alpha, clients, labels = 2.0, 4, np.zeros(1000, int)
    shares = np.array([len(partition.dirichlet(labels, clients, alpha, s)[1]) / 1000 for s in range(600)])
    variance = (1 / clients) * (1 - 1 / clients) / (clients * alpha + 1)
    assert shares.mean() == pytest.approx(0.25, abs=0.02)
    assert shares.var() == pytest.approx(variance, rel=0.2)


def test_dirichlet_redraws_until_the_smallest_client_is_large_enough():
    sizes = [len(c) for c in partition.dirichlet(LABELS, 10, 0.3, 0, min_size=60)]
    assert min(sizes) >= 60


@pytest.mark.parametrize(('clients', 'alpha'), [(50, 0.5), (5, 0.01)])
@pytest.mark.parametrize('seed', [0, 1])
def test_rare_partitions_of_two_classes_are_found(clients, alpha, seed, monkeypatch):
    """Good draws are one in hundreds or thousands; here almost all of them are of sizes alone."""
    monkeypatch.setattr(label_skew, 'WHOLE_DRAWS', 3)
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1], [1200, 3500]))
    found = partition.capped_dirichlet(labels, clients, alpha, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.arange(4700))
    first = np.array([(labels[client] == 0).sum() for client in found])
    sizes = np.array([len(client) for client in found])
    assert len(found) == clients and sizes.min() >= 10
    assert (sizes == first)[first >= 4700 / clients].all()  # who is full after the first class gets none of the second
    assert any(np.any(np.diff(client) < 0) for client in found)  # shuffled
    again = partition.capped_dirichlet(labels, clients, alpha, seed)
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


@pytest.mark.parametrize('cap', [np.inf, 60.0])
def test_sizes_alone_follow_the_law_of_whole_draws(cap, monkeypatch):
    monkeypatch.setattr(label_skew, 'SHARES_AT_ONCE', 80)
    labels = np.repeat([0, 1], [100, 200])
    shares = {}
    for draws in (1000, 0):
        monkeypatch.setattr(label_skew, 'WHOLE_DRAWS', draws)
        found = [label_skew._dirichlet_until(labels, 4, 0.7, seed, 5, cap) for seed in range(300)]
        shares[draws] = np.sort([[len(client) for client in clients] for clients in found], 1).mean(0)
    np.testing.assert_allclose(shares[0], shares[1000], rtol=0.12)


def test_partitions_stay_what_they_were():
    """Draws that once succeeded come from the same random numbers ever after: recorded results depend on it."""
    labels = np.arange(60) % 3
    second = partition.capped_dirichlet(labels, 3, 0.5, 0)  # of two draws
    assert [client[:4].tolist() for client in second] == [[3, 13, 28, 19], [48, 37, 54, 12], [30, 17, 44, 40]]
    later = partition.dirichlet(labels, 6, 0.2, 1, min_size=4)  # of 29
    assert [client[:2].tolist() for client in later] == [[24, 30], [16, 58], [0, 26], [9, 50], [56, 53], [40, 1]]


def test_capped_dirichlet_closes_full_clients():
    """After a client holds T/N it gets no later class, so at most one class can carry it past that point."""
    clients, cap = 8, len(LABELS) / 8
    for client in partition.capped_dirichlet(LABELS, clients, 0.2, 5):
        held = np.cumsum(np.bincount(LABELS[client], minlength=10))
        full = np.flatnonzero(held >= cap)
        assert full.size == 0 or held[-1] == held[full[0]]
        assert len(client) >= 10


def test_capped_dirichlet_survives_a_tiny_alpha():
    clients = partition.capped_dirichlet(LABELS, 3, 1e-4, 0, min_size=1)
    assert sum(map(len, clients)) == len(LABELS)


@pytest.mark.parametrize(('clients', 'k', 'classes'), [(100, 2, 10), (7, 3, 10), (13, 4, 5), (4, 10, 10)])
def test_slots_are_distinct_and_shared_evenly(clients, k, classes):
    slots = partition.class_slots(range(classes), clients, k, 0)
    assert all(len(set(row)) == k for row in slots.tolist())
    held = np.bincount(slots.ravel(), minlength=classes)
    assert held.max() - held.min() <= 1


def test_k_classes_gives_exactly_k_classes_and_near_equal_shards():
    clients = partition.k_classes(LABELS, 50, 2, 0)
    counts = np.stack([np.bincount(LABELS[c], minlength=10) for c in clients])
    assert ((counts > 0).sum(1) == 2).all()
    for label in range(10):
        shards = counts[counts[:, label] > 0, label]
        assert len(shards) == 10 and shards.max() - shards.min() <= 1


def test_k_classes_cuts_the_test_set_with_the_same_classes():
    test_labels = np.repeat(np.arange(10), 30)
    train = partition.k_classes(LABELS, 50, 2, 0)
    test = partition.tests_by_class(LABELS, train, test_labels, 0)
    np.testing.assert_array_equal(np.sort(np.concatenate(test)), np.arange(300))
    for a, b in zip(train, test, strict=True):
        assert set(LABELS[a]) == set(test_labels[b])


def cut_tests(test_labels):
    return partition.tests_by_class(LABELS, partition.k_classes(LABELS, 20, 2, 0), test_labels, 0)


def test_so_many_examples_of_each_class_are_kept_of_the_shards():
    whole, few = (partition.k_classes(LABELS, 20, 2, 0, size) for size in (None, 7))
    for client, own in zip(whole, few, strict=True):
        assert np.isin(own, client).all()
        assert np.unique(LABELS[own], return_counts=True)[1].tolist() == [7, 7]


def test_fixed_classes_go_round():
    clients = partition.k_classes(LABELS, 12, 3, 0, fixed=True)
    held = [np.unique(LABELS[client]).tolist() for client in clients]
    assert held[:5] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 1, 9], [2, 3, 4]]
    assert held[10] == held[0] and len(np.unique(np.concatenate(clients))) == len(LABELS)


def test_whole_tests_are_all_test_examples_of_a_clients_classes():
    test_labels = np.random.default_rng(8).integers(10, size=500)
    clients = partition.k_classes(LABELS, 20, 2, 0)
    for client, own in zip(clients, partition.whole_tests(LABELS, clients, test_labels), strict=True):
        held = np.unique(LABELS[client])
        np.testing.assert_array_equal(own, np.flatnonzero((test_labels == held[0]) | (test_labels == held[1])))


def test_matched_tests_have_the_mix_of_the_training_examples():
    clients = partition.dirichlet(LABELS, 6, 0.5, 0)
    test_labels = np.repeat(np.arange(10), 500)
    chosen = partition.matched_tests(LABELS, clients, test_labels, 400, 0)
    assert all(len(set(c.tolist())) == len(c) for c in chosen)
    np.testing.assert_allclose(mixes(chosen, test_labels), mixes(clients), atol=0.005)


def test_domains_get_equal_counts_of_clients_in_shuffled_order():
    clients = partition.by_domain(DOMAIN, 5, 0)
    domains = [set(DOMAIN[c].tolist()) for c in clients]
    assert all(len(d) == 1 for d in domains)
    order = [d.pop() for d in domains]
    assert [order.count(d) for d in range(3)] == [5, 5, 5] and order != sorted(order)


def test_domains_may_give_clients_different_sizes():
    clients = partition.by_domain(DOMAIN, 4, 0, sizes=[10, 40, 50])
    assert {(int(DOMAIN[c[0]]), len(c)) for c in clients} == {(0, 10), (1, 40), (2, 50)}
    assert len(np.unique(np.concatenate(clients))) == 4 * (10 + 40 + 50)


def test_one_client_per_site():
    site = np.array([3, 1, 1, 3, 8])
    assert [c.tolist() for c in partition.by_site(site)] == [[1, 2], [0, 3], [4]]


def test_quantity_skew_sizes_follow_the_power_law_and_labels_stay_iid():
    labels = np.random.default_rng(0).integers(2, size=60000)
    clients = partition.quantity_skew(60000, 5, 1.0, 0, law='power', min_size=0)
    sizes = np.sort([len(c) for c in clients])[::-1]
    np.testing.assert_allclose(sizes / sizes.sum(), (1 / np.arange(1, 6)) / sum(1 / r for r in range(1, 6)), atol=1e-4)
    np.testing.assert_allclose(mixes(clients, labels, 2), 0.5, atol=0.02)


def test_quantity_skew_is_even_for_a_large_alpha_and_keeps_the_minimum():
    even = [len(c) for c in partition.quantity_skew(1000, 4, 1e6, 0)]
    skewed = [len(c) for c in partition.quantity_skew(1000, 20, 0.05, 0, min_size=3)]
    assert max(even) - min(even) <= 4 and min(skewed) >= 3 and max(skewed) > 200


def test_truncate_makes_sizes_equal_and_keeps_owners():
    clients = partition.quantity_skew(1000, 5, 0.3, 0, min_size=10)
    cut = partition.truncate(clients, 0)
    assert {len(c) for c in cut} == {min(map(len, clients))}
    assert all(set(a) <= set(b) for a, b in zip(cut, clients, strict=True))


@pytest.mark.parametrize(
    ('call', 'words'),
    [
        (lambda: partition.iid(5, 6, 0), 'num_clients=6'),
        (lambda: partition.iid(5, 0, 0), 'num_clients=0 must be at least 1'),
        (lambda: partition.dirichlet(LABELS, 5, 0.0, 0), 'alpha=0.0 must be a positive number'),
        (lambda: partition.dirichlet(LABELS, 5, float('nan'), 0), 'alpha=nan must be a positive number'),
        (lambda: partition.dirichlet(LABELS, 5, -1.0, 0), 'alpha=-1.0 must'),
        (lambda: partition.dirichlet(LABELS[:40], 40, 0.01, 0), 'larger alpha or fewer clients'),
        (lambda: partition.capped_dirichlet(LABELS[:50], 6, 1.0, 0), 'at least 10 each needs 60 examples'),
        (
            lambda: partition.k_classes(LABELS, 5, 11, 0),
            'classes_per_client=11 must be between 1 and the 10 classes present',
        ),
        (lambda: partition.k_classes(LABELS, 5, 0, 0), 'classes_per_client=0 must'),
        (lambda: partition.k_classes(LABELS, 5, 11, 0, fixed=True), 'classes_per_client=11 must'),
        (lambda: partition.k_classes(np.arange(10).repeat(9), 20, 2, 0, size=3), 'examples_per_class=3: 4 clients'),
        (lambda: partition.k_classes(np.arange(10).repeat(3), 20, 2, 0), 'take fewer clients'),
        (lambda: cut_tests(np.arange(10)), '1 test examples'),
        (lambda: partition.by_domain(DOMAIN, 0, 0), 'clients_per_domain=0 must be at least 1'),
        (lambda: partition.by_domain(DOMAIN, 2, 0, [1, 2]), 'one number for each of the 3 domains'),
        (lambda: partition.by_domain(DOMAIN, 2, 0, [1, 2, 101]), 'domain 2 has 200 examples'),
        (lambda: partition.quantity_skew(10, 2, 1.0, 0, law='zipf'), "'dirichlet' or 'power', got 'zipf'"),
        (lambda: partition.quantity_skew(10, 4, 1.0, 0, min_size=3), 'needs 12 examples'),
    ],
)
def test_impossible_partitions_say_why_in_one_line(call, words, monkeypatch):
    monkeypatch.setattr(label_skew, 'MAX_SHARES', 10_000)
    with pytest.raises(ValueError, match=r'^[^\n]+$') as caught:
        call()
    assert words in str(caught.value)
