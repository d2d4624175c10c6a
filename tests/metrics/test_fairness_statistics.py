"""Fairness statistics against hand computation and golden vectors."""

import math

import numpy as np
import pytest
from lab import GOLDEN

from fedjax_fair import metrics

NAN = math.nan


def test_statistics_by_hand_skip_undefined_values():
    values = [0.2, NAN, 0.6, 1.0]
    assert metrics.mean(values) == pytest.approx(0.6)
    assert metrics.std(values) == pytest.approx(math.sqrt(0.32 / 3))
    assert metrics.std(values, ddof=1) == pytest.approx(0.4)
    assert metrics.worst(values) == pytest.approx(0.2)
    assert metrics.best_worst_gap(values) == pytest.approx(0.8)
    assert metrics.jain_index(values) == pytest.approx(1.8**2 / (3 * 1.4))


@pytest.mark.parametrize('count,kept', [(5, 1), (10, 1), (11, 2), (30, 3), (100, 10)])
def test_worst_share_takes_the_ceiling(count, kept):
    values = np.random.default_rng(0).permutation(count).astype(float)
    assert metrics.worst_share(values, 0.1) == pytest.approx(np.arange(kept).mean())
    assert metrics.worst_share(values, 1.0) == pytest.approx(values.mean())


def test_jain_index_at_its_extremes():
    assert metrics.jain_index([0.3] * 4) == pytest.approx(1)
    assert metrics.jain_index([0, 0, 0, 0.9]) == pytest.approx(1 / 4)
    assert metrics.jain_index([0, 0]) == 1


def test_no_values_are_undefined():
    for statistic in (metrics.mean, metrics.std, metrics.worst, metrics.best_worst_gap, metrics.jain_index):
        assert math.isnan(statistic([]))
        assert math.isnan(statistic([NAN]))
    assert math.isnan(metrics.worst_share([]))
    assert math.isnan(metrics.std([0.5], ddof=1))


def test_share_outside_its_range_is_refused():
    with pytest.raises(ValueError, match='share must lie in'):
        metrics.worst_share([1.0], 0)


def confusions_from(correct, total):
    """Confusion matrices whose mistakes all go to the next class."""
    count, classes = correct.shape
    matrices = np.zeros((count, classes, classes))
    for k in range(classes):
        matrices[:, k, k] = correct[:, k]
        matrices[:, k, (k + 1) % classes] = total[:, k] - correct[:, k]
    return matrices


def test_golden_metrics_of_fedtilt():
    golden = np.load(GOLDEN / 'fedtilt_metrics.npz')
    confusions = confusions_from(golden['correct'], golden['total'])
    mu, sigma, each = metrics.client_data_fairness(confusions)
    np.testing.assert_allclose(100 * each, golden['sigma_n'], rtol=1e-10)
    np.testing.assert_allclose([100 * mu, 100 * sigma], [golden['mu_sigma'], golden['sigma_sigma']], rtol=1e-10)

    count = golden['total'].sum(1)
    per_set = {'accuracy': golden['correct'].sum(1) / count, 'count': count, 'confusion': confusions}
    result = metrics.summarise(per_set, test_of=np.arange(6))
    np.testing.assert_allclose(100 * np.array(result['client_accuracy']), golden['client_acc'])
    for ours, theirs in [
        ('accuracy', 'test_acc_pooled'),
        ('avg', 'test_acc_mean_over_clients'),
        ('std', 'sigma'),
        ('mu_sigma', 'mu_sigma'),
        ('sigma_sigma', 'sigma_sigma'),
    ]:
        np.testing.assert_allclose(100 * result[ours], golden[theirs], rtol=1e-10)


def test_data_fairness_of_one_class_is_zero_and_of_no_data_undefined():
    one_class, empty = np.zeros((3, 3)), np.zeros((3, 3))
    one_class[1] = [2, 5, 0]
    mu, sigma, each = metrics.client_data_fairness(np.stack([one_class, empty]))
    assert (mu, sigma, each[0]) == (0, 0, 0)
    assert math.isnan(each[1])
