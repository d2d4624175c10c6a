"""Updates in client space: Gram matrices, principal axes and conflicts."""

import numpy as np
import pytest
from draws import CLIENTS, arrays, masks, numbers, on_device
from hypothesis import assume, given
from hypothesis import strategies as st

from fedjax_fair.ops import (
    gram,
    harmonized_coefficients,
    leave_out,
    principal_axes,
    principal_coefficients,
    project_conflicts,
)

DIMENSION = 6
products = on_device(gram)
axes = on_device(principal_axes)
harmonized = on_device(harmonized_coefficients)
projected, left_out = on_device(project_conflicts), on_device(leave_out)
coefficients = on_device(lambda g, w, keep, mask: principal_coefficients(g, w, keep=keep, mask=mask))
UPDATES = arrays(CLIENTS, DIMENSION)
EVERYONE = np.ones(CLIENTS, bool)
EQUAL = np.full(CLIENTS, 1 / CLIENTS, np.float32)
KEEP = numbers(0.125, 1)


@given(UPDATES, masks())
def test_a_gram_matrix_is_symmetric_and_positive_and_zero_where_masked(updates, mask):
    found = products({'a': updates[:, :2], 'b': updates[:, 2:].reshape(CLIENTS, 2, 2)}, mask)
    kept = np.where(mask[:, None], updates, 0)
    np.testing.assert_allclose(found, kept @ kept.T, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(found, found.T)
    assert np.linalg.eigvalsh(found.astype(np.float64)).min() >= -1e-3
    assert not found[~mask].any() and not found[:, ~mask].any()


@given(UPDATES, KEEP, masks())
def test_principal_axes_are_orthonormal_and_rebuild_the_matrix(updates, keep, mask):
    matrix = products(updates, mask)
    values, vectors, kept = axes(matrix, np.float32(keep), mask)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(CLIENTS), atol=1e-4)
    np.testing.assert_allclose(vectors * values @ vectors.T, matrix, atol=1e-3 * max(1, matrix.max()))
    assert np.all(np.diff(values) <= 0) and values.min() >= 0
    assert kept.sum() <= max(1, np.floor(keep * mask.sum() + 1e-4))


@given(arrays(DIMENSION), st.integers(0, CLIENTS - 1), KEEP)
def test_the_principal_update_of_one_client_is_its_own(update, client, keep):
    assume(np.abs(update).max() > 0.125)
    mask = np.arange(CLIENTS) == client
    updates = np.where(mask[:, None], update, 1).astype(np.float32)
    found = coefficients(products(updates, mask), mask.astype(np.float32), np.float32(keep), mask)
    np.testing.assert_allclose(found, mask, atol=1e-4)


@given(arrays(DIMENSION), masks(), KEEP)
def test_the_principal_update_of_equal_clients_is_their_mean(update, mask, keep):
    assume(np.abs(update).max() > 0.125)
    updates = np.tile(update, (CLIENTS, 1))
    weights = (mask / mask.sum()).astype(np.float32)
    found = coefficients(products(updates, mask), weights, np.float32(keep), mask)
    np.testing.assert_allclose(found @ updates, update, rtol=1e-3, atol=1e-3)
    assert not found[~mask].any()


@given(UPDATES, KEEP, st.sampled_from([0.25, 4.0, 1024.0]))
def test_principal_coefficients_do_not_depend_on_the_scale(updates, keep, scale):
    matrix = products(updates, EVERYONE)
    found = coefficients(matrix, EQUAL, np.float32(keep), EVERYONE)
    scaled = coefficients((matrix * np.float32(scale)).astype(np.float32), EQUAL, np.float32(keep), EVERYONE)
    np.testing.assert_array_equal(scaled, found)


@given(arrays(2, DIMENSION))
def test_two_harmonized_updates_no_longer_conflict(pair):
    updates = np.concatenate([pair, np.zeros((CLIENTS - 2, DIMENSION), np.float32)])
    found = harmonized(products(updates)) @ updates
    assert found[0] @ found[1] >= -1e-4 * (1 + np.sum(pair**2))
    if pair[0] @ pair[1] >= 1e-3:
        np.testing.assert_array_equal(found, updates)


@given(UPDATES, st.permutations(range(CLIENTS)), masks())
def test_conflicts_are_projected_for_present_clients_alone(updates, order, mask):
    nobody = np.zeros(CLIENTS, bool)
    rows = projected(products(updates), np.array(order), mask, nobody)
    np.testing.assert_array_equal(rows[~mask], np.eye(CLIENTS)[~mask])
    assert not rows[np.ix_(mask, ~mask)].any()
    np.testing.assert_array_equal(projected(products(updates), np.array(order), mask, ~nobody), np.eye(CLIENTS))


@given(UPDATES, masks())
def test_what_leaves_a_group_out_is_orthogonal_to_those_it_conflicted_with(updates, group):
    overlap = products(updates)
    found = left_out(EQUAL, overlap, group)
    against = group & (overlap @ EQUAL < 0)
    before = EQUAL @ overlap @ against
    if before >= 0:
        np.testing.assert_array_equal(found, EQUAL)
    else:
        assert found @ overlap @ against == pytest.approx(0, abs=1e-3 * (1 + np.abs(overlap).max()))
