"""Weights of clients: they lie on the simplex, absent clients have none and change none."""

import numpy as np
import pytest
from draws import CLIENTS, arrays, masks, numbers, of_some_clients, on_device
from hypothesis import example, given
from hypothesis import strategies as st

from fedjax_fair.core.server import masked_softmax
from fedjax_fair.ops import minimize_on_simplex, project_simplex, sharpness_weights

project, minimize = on_device(project_simplex), on_device(minimize_on_simplex)
softmax, by_sharpness = on_device(masked_softmax), on_device(sharpness_weights)


def assert_on_simplex(weights, mask):
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, abs=2e-5)
    assert not weights[~mask].any()


@given(of_some_clients())
def test_a_projection_is_on_the_simplex_and_stays_there(drawn):
    point, mask = drawn
    found = project(point, mask)
    assert_on_simplex(found, mask)
    np.testing.assert_allclose(project(found, mask), found, atol=2e-6)


@given(arrays(CLIENTS), masks(), numbers(-8, 8))
def test_a_projection_ignores_a_shift_of_all_entries_and_the_masked_ones(point, mask, shift):
    changed = np.where(mask, point + np.float32(shift), -point).astype(np.float32)
    np.testing.assert_allclose(project(changed, mask), project(point, mask), atol=1e-5)


@given(arrays(CLIENTS), masks(), arrays(CLIENTS, low=0.0, high=1.0))
def test_no_point_of_the_simplex_is_nearer_than_the_projection(point, mask, other):
    other = np.where(mask, other + 1e-3, 0)
    other = other / other.sum()
    nearest = np.sum((project(point, mask) - point)[mask] ** 2)
    assert nearest <= np.sum((other - point)[mask] ** 2) + 1e-4


@given(arrays(CLIENTS, CLIENTS, low=-2, high=2), masks(), arrays(CLIENTS, low=0.0, high=1.0))
def test_no_point_of_the_simplex_has_a_smaller_quadratic_form(root, mask, other):
    quadratic = (root @ root.T).astype(np.float32)
    found = minimize(quadratic, mask)
    assert_on_simplex(found, mask)
    other = np.where(mask, other + 1e-3, 0)
    other = other / other.sum()
    assert found @ quadratic @ found <= other @ quadratic @ other + 1e-4


@given(of_some_clients(-80, 80))
def test_softmax_over_a_mask_is_that_of_the_entries_alone(drawn):
    scores, mask = drawn
    found = softmax(scores, mask)
    assert_on_simplex(found, mask)
    odds = np.exp(scores[mask].astype(np.float64) - scores[mask].max())
    np.testing.assert_allclose(found[mask], odds / odds.sum(), rtol=1e-4, atol=1e-6)


@given(masks(), st.sampled_from([-np.inf, np.nan]))
def test_scores_that_say_nothing_weigh_all_the_same(mask, nothing):
    found = softmax(np.full(CLIENTS, nothing, np.float32), mask)
    np.testing.assert_allclose(found, mask / mask.sum(), rtol=1e-6)


@given(arrays(CLIENTS, low=-1, high=8), numbers(0, 20), masks(), arrays(CLIENTS))
@example(np.zeros(CLIENTS, np.float32), 2.0, np.ones(CLIENTS, bool), np.ones(CLIENTS, np.float32))
def test_sharpness_weights_sum_to_one_and_ignore_absent_clients(sharpness, q, mask, noise):
    found = by_sharpness(sharpness, np.float32(q), mask)
    assert_on_simplex(found, mask)
    np.testing.assert_array_equal(by_sharpness(np.where(mask, sharpness, noise), np.float32(q), mask), found)
    order = np.argsort(sharpness[mask], kind='stable')
    assert np.all(np.diff(found[mask][order]) >= -1e-6)  # a sharper client never counts less


@given(of_some_clients(-1, 8))
def test_sharpness_to_the_power_of_zero_weighs_all_the_same(drawn):
    sharpness, mask = drawn
    np.testing.assert_allclose(by_sharpness(sharpness, np.float32(0), mask), mask / mask.sum(), rtol=1e-5)
