"""What a model scores that answers one class, against numbers by hand."""

import numpy as np
import pytest

from fedjax_fair.metrics import chance_levels

LABELS = np.array([[0, 0, 0, 1], [1, 1, 2, 9]])  # the 9 is padding
MASK = np.array([[True] * 4, [True, True, True, False]])


def test_accuracy_of_the_best_single_answer_and_of_the_best_answer_for_every_set():
    found = chance_levels('accuracy', LABELS, MASK, test_of=[0, 1, 1])
    # answer 0: (3/4 + 0 + 0) / 3; answer 1: (1/4 + 2/3 + 2/3) / 3
    assert found['global'] == pytest.approx((1 / 4 + 4 / 3) / 3)
    assert found['own'] == pytest.approx((3 / 4 + 4 / 3) / 3)


def test_groups_count_the_same_as_in_avg():
    found = chance_levels('accuracy', LABELS, MASK, [0, 1, 1], ('a', 'b'), np.array([0, 1, 1]))
    assert found['global'] == pytest.approx((1 / 4 + 2 / 3) / 2)
    assert found['own'] == pytest.approx((3 / 4 + 2 / 3) / 2)


def test_clients_of_one_class_each_do_not_make_guessing_perfect():
    """A global model gives everybody the same answer; only models of their own could be right everywhere."""
    labels = np.repeat(np.arange(4), 5).reshape(4, 5)
    found = chance_levels('accuracy', labels, np.ones_like(labels, bool), range(4))
    assert found == {'global': 0.25, 'own': 1.0}


def test_balanced_accuracy_is_one_over_the_number_of_classes():
    labels = np.array([[0, 0, 0, 1, 2], [2, 2, 2, 1, 0]])
    found = chance_levels('balanced_accuracy', labels, np.ones_like(labels, bool), [0, 1])
    assert found == pytest.approx({'global': 1 / 3, 'own': 1 / 3})


def test_an_empty_test_set_counts_nowhere():
    mask = np.array([[True] * 4, [False] * 4])
    assert chance_levels('accuracy', LABELS, mask, [0, 1])['own'] == pytest.approx(3 / 4)


def test_an_auc_is_a_half_and_dice_that_of_no_foreground():
    assert chance_levels('auc', np.zeros((1, 2, 3)), np.ones((1, 2), bool), [0]) == {'global': 0.5, 'own': 0.5}
    masks = np.zeros((1, 2, 4, 4), int)
    masks[0, 1, 0, 0] = 1  # one of two images has foreground
    assert chance_levels('dice', masks, np.ones((1, 2), bool), [0]) == {'global': 0.5, 'own': 0.5}
    assert chance_levels('dice_with_background', masks, np.ones((1, 2), bool), [0]) is None
