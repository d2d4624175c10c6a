"""Fairness statistics against NumPy, with values that are missing."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedjax_fair import metrics

ACCURACIES = st.integers(0, 1000).map(lambda correct: correct / 1000)
VALUES = hnp.arrays(np.float64, st.integers(0, 12), elements=ACCURACIES | st.just(math.nan))
SOME = st.lists(ACCURACIES, min_size=1, max_size=12)


@given(VALUES)
def test_statistics_are_those_of_numpy_over_the_defined_values(values):
    defined = values[~np.isnan(values)]
    for ours, theirs in (
        (metrics.mean, np.mean),
        (metrics.std, np.std),
        (metrics.worst, np.min),
        (metrics.best_worst_gap, np.ptp),
    ):
        expected = theirs(defined) if defined.size else math.nan
        assert ours(values) == pytest.approx(expected, nan_ok=True, abs=1e-12)
    sample = np.std(defined, ddof=1) if defined.size > 1 else math.nan
    assert metrics.std(values, ddof=1) == pytest.approx(sample, nan_ok=True, abs=1e-12)


@given(SOME, st.floats(0.01, 1))
def test_the_worst_share_lies_between_the_worst_and_the_mean(values, share):
    found = metrics.worst_share(values, share)
    assert min(values) - 1e-12 <= found <= np.mean(values) + 1e-12
    assert metrics.worst_share(values, 1) == pytest.approx(np.mean(values))
    assert metrics.worst_share(values, 1e-9) == min(values)


@given(SOME)
@example(np.array([1e-167]))
def test_jains_index_lies_between_one_nth_and_one(values):
    found = metrics.jain_index(values)
    assert 1 / len(values) - 1e-9 <= found <= 1 + 1e-9


@given(st.floats(1e-3, 1), st.integers(1, 12))
def test_jains_index_knows_equality_and_monopoly(value, count):
    assert metrics.jain_index([value] * count) == pytest.approx(1)
    assert metrics.jain_index([value] + [0.0] * (count - 1)) == pytest.approx(1 / count)


@given(VALUES, st.data())
def test_means_of_groups_are_those_of_their_clients(values, data):
    group_of = data.draw(hnp.arrays(np.int64, len(values), elements=st.integers(0, 2)))
    found = metrics.group_means(values, group_of, 3)
    for group in range(3):
        own = values[(group_of == group) & ~np.isnan(values)]
        assert found[group] == pytest.approx(own.mean() if own.size else math.nan, nan_ok=True, abs=1e-12)


@given(hnp.arrays(np.int64, (3, 2, 2), elements=st.integers(0, 9)))
def test_fairness_over_classes_of_a_client(confusions):
    mean, spread, sigma = metrics.client_data_fairness(confusions)
    for client, found in zip(confusions, sigma, strict=True):
        held = client.sum(1) > 0
        accuracy = client.diagonal()[held] / client.sum(1)[held]
        assert found == pytest.approx(accuracy.std() if held.any() else math.nan, nan_ok=True, abs=1e-12)
    defined = sigma[~np.isnan(sigma)]
    assert mean == pytest.approx(defined.mean() if defined.size else math.nan, nan_ok=True, abs=1e-12)
    assert spread == pytest.approx(defined.std() if defined.size else math.nan, nan_ok=True, abs=1e-12)
