"""Holding out test examples: shares, strata and clusters."""

import numpy as np
import pytest

from fedjax_fair.data.pool import Pool, kept_tests, kept_training, stratified_split


def test_every_class_of_every_group_gives_a_fifth():
    y = np.tile(np.repeat([0, 1], [50, 30]), 2)
    group = np.repeat([0, 1], 80)
    held = stratified_split(y, 0, group)
    counts = [[int(held[(group == g) & (y == c)].sum()) for c in (0, 1)] for g in (0, 1)]
    assert counts == [[10, 6], [10, 6]]


def test_clusters_never_straddle_the_split():
    rng = np.random.default_rng(0)
    cluster = np.array([f'slide {i}' for i in rng.integers(60, size=400)])
    held = stratified_split(rng.integers(3, size=400), 0, None, cluster)
    assert all(len(set(held[cluster == c])) == 1 for c in np.unique(cluster))
    assert 0.12 < held.mean() < 0.28


def test_small_groups_still_get_a_test_and_a_training_example():
    y, group = np.array([0, 1, 0, 1, 2]), np.array([0, 0, 1, 1, 1])
    held = stratified_split(y, 3, group)
    for g in (0, 1):
        assert 0 < held[group == g].sum() < (group == g).sum()


def test_one_large_cluster_stays_in_training():
    assert not stratified_split(np.zeros(10, int), 0, None, np.zeros(10, int)).any()


def test_seed_decides():
    y = np.arange(100) % 4
    np.testing.assert_array_equal(stratified_split(y, 1), stratified_split(y, 1))
    assert not np.array_equal(stratified_split(y, 1), stratified_split(y, 2))


def test_each_group_keeps_so_many_tests():
    held = np.tile([True, True, False], 20)
    group = np.repeat([0, 1], [45, 15]).astype(np.int32)
    pool = Pool(np.arange(60.0)[:, None], np.zeros(60, np.int32), held, group, ('a', 'b'))
    kept = kept_tests(pool, 12, 0)
    assert np.bincount(group[kept]).tolist() == [12, 10] and held[kept].all()
    assert kept_tests(pool, None, 0) is held
    with pytest.raises(ValueError, match='test_size=0 must be at least 1'):
        kept_tests(pool, 0, 0)


def test_each_group_keeps_so_many_training_examples():
    held = np.tile([True, False, False], 20)
    group = np.repeat([0, 1], [45, 15]).astype(np.int32)
    pool = Pool(np.arange(60.0)[:, None], np.zeros(60, np.int32), held, group, ('a', 'b'))
    kept = kept_training(pool, 12, 0)
    assert np.bincount(group[kept]).tolist() == [12, 10] and not held[kept].any()
    assert not np.array_equal(kept, kept_training(pool, 12, 1)) and kept_training(pool, None, 0).sum() == 40
    with pytest.raises(ValueError, match='train_size=0 must be at least 1'):
        kept_training(pool, 0, 0)
