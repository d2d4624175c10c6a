"""Summaries of evaluations: two shapes, groups or none, the last k, and several seeds."""

import json
import math

import numpy as np
import pytest

from fedjax_fair import metrics

DOMAINS = ('photo', 'sketch', 'cartoon')
GROUP_OF = np.array([0, 0, 1, 2, 2])
SETS = {
    'accuracy': np.array([0.9, 0.6, 0.3], np.float32),
    'count': np.array([100, 50, 50]),
    'loss': np.array([0.2, 0.5, 1.1]),
    'auc_ovo': np.array([0.95, math.nan, 0.7]),
}


def approx(value):
    return None if value is None else pytest.approx(value, rel=1e-6)


def test_one_model_on_the_test_sets_of_domains():
    result = metrics.summarise(SETS, test_of=GROUP_OF, groups=DOMAINS, group_of=GROUP_OF)
    assert result['group_accuracy'] == approx([0.9, 0.6, 0.3])
    assert result['client_accuracy'] == approx([0.9, 0.9, 0.6, 0.3, 0.3])
    assert result['accuracy'] == approx((90 + 30 + 15) / 200)
    assert (result['avg'], result['std'], result['worst']) == approx((0.6, 0.3, 0.3))
    assert (result['group_std'], result['group_gap']) == approx((0.3, 0.6))
    assert (result['client_mean'], result['client_std']) == approx((0.6, np.std([0.9, 0.9, 0.6, 0.3, 0.3])))
    assert (result['client_worst'], result['client_worst_10pct'], result['client_gap']) == approx((0.3, 0.3, 0.6))
    assert result['loss'] == approx((0.2 + 0.5 + 1.1) / 3)
    assert result['auc_ovo'] == approx((0.95 + 0.7) / 2)


def test_a_model_per_client_sharing_test_sets():
    per_client = {'accuracy': [0.8, 1.0, 0.5, 0.2, 0.4], 'count': [100, 100, 50, 50, 50], 'loss': [1, 3, 2, 0, 4]}
    result = metrics.summarise(per_client, GROUP_OF, DOMAINS, GROUP_OF, per_client=True)
    assert result['group_accuracy'] == approx([0.9, 0.5, 0.3])
    assert result['accuracy'] == approx((90 + 25 + 15) / 200)  # each of the 200 examples counts once
    assert (result['avg'], result['worst'], result['client_worst']) == approx((1.7 / 3, 0.3, 0.2))
    assert result['loss'] == approx(2)


def test_both_shapes_agree_when_all_clients_use_one_model():
    shared = metrics.summarise(SETS, GROUP_OF, DOMAINS, GROUP_OF)
    repeated = {key: value[GROUP_OF] for key, value in SETS.items()}
    each = metrics.summarise(repeated, GROUP_OF, DOMAINS, GROUP_OF, per_client=True)
    assert shared.keys() == each.keys()
    assert all(shared[key] == approx(each[key]) for key in shared)


def test_without_groups_statistics_are_over_clients():
    result = metrics.summarise(SETS, test_of=[0, 1, 2, 2])
    assert (result['avg'], result['worst']) == approx((0.525, 0.3))
    assert result['std'] == result['client_std'] == approx(np.std([0.9, 0.6, 0.3, 0.3]))
    assert result['group_accuracy'] == []
    assert result['group_std'] is None


def test_clients_and_groups_without_test_data_are_left_out():
    sets = {'accuracy': [0.8, math.nan], 'count': [10, 0], 'loss': [0.5, math.nan]}
    result = metrics.summarise(sets, [0, 1], ('a', 'b'), [0, 1])
    assert result['group_accuracy'] == result['client_accuracy'] == [0.8, None]
    assert (result['accuracy'], result['avg'], result['loss']) == (0.8, 0.8, 0.5)
    assert result['std'] is None  # one group has no sample deviation
    json.dumps(result, allow_nan=False)


def test_a_diverged_loss_is_not_averaged_away():
    sets = {'accuracy': [0.8, 0.1], 'count': [10, 10], 'loss': [0.5, math.nan]}
    assert metrics.summarise(sets, [0, 1])['loss'] is None


def test_last_k_averages_accuracies_before_statistics():
    first = metrics.summarise(SETS, GROUP_OF, DOMAINS, GROUP_OF)
    swapped = SETS | {'accuracy': SETS['accuracy'][::-1]}
    second = metrics.summarise(swapped, GROUP_OF, DOMAINS, GROUP_OF)
    result = metrics.last_k([second, first, second], 2)
    assert result['group_accuracy'] == approx([0.6, 0.6, 0.6])
    assert (result['avg'], result['worst']) == approx((0.6, 0.6))
    assert result['std'] == pytest.approx(0, abs=1e-6)  # not the mean of the two deviations, 0.3
    assert result['accuracy'] == approx((first['accuracy'] + second['accuracy']) / 2)
    assert result['loss'] == approx(first['loss'])


def test_last_k_at_its_extremes():
    history = [metrics.summarise(SETS, test) for test in ([0, 1, 2], [2, 1, 1])]
    last = metrics.last_k(history, 1)
    assert all(last[key] == approx(history[-1][key]) for key in last)
    assert metrics.last_k(history, 5) == metrics.last_k(history, 2)
    with pytest.raises(ValueError, match='k must be at least 1, got 0'):
        metrics.last_k(history, 0)
    with pytest.raises(ValueError, match='at least one evaluation'):
        metrics.last_k([], 1)


def test_over_seeds_uses_the_population_deviation():
    seeds = [metrics.summarise(SETS | {'accuracy': SETS['accuracy'] + step}, [0, 1, 2]) for step in (0.0, 0.06)]
    result = metrics.over_seeds(seeds)
    assert result['avg'] == approx({'mean': 0.63, 'std': 0.03})
    assert result['client_accuracy']['mean'] == approx([0.93, 0.63, 0.33])
    assert result['client_accuracy']['std'] == pytest.approx([0.03] * 3, rel=1e-4)
    assert result['group_accuracy'] == {'mean': [], 'std': []}
    assert result['group_std'] == {'mean': None, 'std': None}
    json.dumps(result, allow_nan=False)


def test_a_number_undefined_for_one_seed_is_undefined_over_seeds():
    result = metrics.over_seeds([{'auc_ovo': 0.5}, {'auc_ovo': None}])
    assert result == {'auc_ovo': {'mean': None, 'std': None}}


@pytest.mark.parametrize(
    'arguments,message',
    [
        (({'accuracy': [1.0]}, [0]), r"per_set lacks \['count'\]"),
        ((SETS, [0, 3]), 'test_of names test set 3, but per_set has 3 test sets'),
        ((SETS, [0, 1], (), None, True), 'per_set has 3 rows for 2 clients'),
        ((SETS, [0, 1], DOMAINS, None), 'group_of must give a group for each of 2 clients, got None'),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.summarise(*arguments)
