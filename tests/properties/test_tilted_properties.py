"""Tilted means lie between the smallest and the largest value, grow with the tilt and start at the mean."""

import numpy as np
import pytest
from draws import arrays, masks, numbers, on_device
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedjax_fair.ops import tilted_consensus, tilted_mean, two_level_tilted_loss

EXAMPLES, CLASSES = 6, 3
tilted = on_device(lambda x, t, mask: tilted_mean(x, t, mask=mask))
two_level = on_device(
    lambda x, labels, tau, lam, mask: two_level_tilted_loss(x, labels, num_classes=CLASSES, tau=tau, lam=lam, mask=mask)
)
consensus = on_device(lambda models, start, q, mask: tilted_consensus(models, start, q, mask=mask))
TILTS = numbers(-50, 50) | st.sampled_from([-np.inf, 0.0, np.inf])
LOSSES = arrays(EXAMPLES, low=0, high=60)
LABELS = hnp.arrays(np.int32, EXAMPLES, elements=st.integers(0, CLASSES - 1))
MASKS = masks(EXAMPLES)
ROUNDING = 2e-5


def close(value):
    return pytest.approx(value, rel=ROUNDING, abs=ROUNDING)


@given(LOSSES, TILTS, MASKS)
def test_a_tilted_mean_lies_between_the_smallest_and_the_largest(losses, t, mask):
    found, live = float(tilted(losses, np.float32(t), mask)), losses[mask]
    slack = ROUNDING * (1 + live.max())
    assert live.min() - slack <= found <= live.max() + slack


@given(LOSSES, TILTS, TILTS, MASKS)
def test_a_tilted_mean_grows_with_the_tilt(losses, t, other, mask):
    low, high = (float(tilted(losses, np.float32(v), mask)) for v in sorted((t, other)))
    assert low <= high + ROUNDING * (1 + losses.max())


@given(LOSSES, MASKS, numbers(-(2.0**-20), 2.0**-20))
def test_a_small_tilt_is_the_mean(losses, mask, t):
    assert float(tilted(losses, np.float32(t), mask)) == pytest.approx(losses[mask].mean(), rel=2e-3, abs=1e-5)
    assert float(tilted(losses, np.float32(0), mask)) == close(losses[mask].mean())


@given(LOSSES, TILTS, MASKS, numbers(-8, 8))
def test_a_shift_of_all_losses_shifts_the_mean(losses, t, mask, shift):
    moved = tilted((losses + np.float32(shift)).astype(np.float32), np.float32(t), mask)
    assert float(moved) == pytest.approx(float(tilted(losses, np.float32(t), mask)) + shift, rel=1e-4, abs=1e-4)


@given(LOSSES, LABELS, TILTS, TILTS, MASKS)
def test_losses_of_two_levels_lie_between_the_smallest_and_the_largest(losses, labels, tau, lam, mask):
    found, live = float(two_level(losses, labels, np.float32(tau), np.float32(lam), mask)), losses[mask]
    slack = ROUNDING * (1 + live.max())
    assert live.min() - slack <= found <= live.max() + slack


@given(LOSSES, LABELS, numbers(-5, 5), MASKS)
def test_equal_tilts_are_one_tilt_over_all_examples(losses, labels, t, mask):
    found = float(two_level(losses, labels, np.float32(t), np.float32(t), mask))
    assert found == pytest.approx(float(tilted(losses, np.float32(t), mask)), rel=1e-4, abs=1e-4)


@given(arrays(4, 3), arrays(3), numbers(-2, 2), masks(4))
def test_a_consensus_is_a_convex_combination_and_the_mean_without_tilt(models, start, q, mask):
    found = consensus(models, start, np.float32(q), mask)
    assert np.all(found >= models[mask].min(0) - 1e-4) and np.all(found <= models[mask].max(0) + 1e-4)
    np.testing.assert_allclose(consensus(models, start, np.float32(0), mask), models[mask].mean(0), atol=1e-5)
