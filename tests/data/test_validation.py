"""Validation sets: split off the training examples of every client, the same ones every time."""

import numpy as np
import pytest

from fedjax_fair.data.validation import with_validation
from fedjax_fair.testing import tiny_federation

FEDERATION = tiny_federation((20, 7, 11))


def test_every_example_is_on_one_side():
    split = with_validation(FEDERATION, 0.3, seed=1)
    np.testing.assert_array_equal(split.validation.mask.sum(1), [6, 2, 3])
    np.testing.assert_array_equal(split.sizes, [14, 5, 8])
    np.testing.assert_array_equal(split.validation.test_of, [0, 1, 2])
    for client, (before, size) in enumerate(zip(FEDERATION.index, FEDERATION.sizes, strict=True)):
        kept = FEDERATION.x[split.index[client, : split.sizes[client]]]
        held = split.validation.x[client][split.validation.mask[client]]
        both = np.concatenate([kept, held])
        np.testing.assert_array_equal(np.sort(both, 0), np.sort(FEDERATION.x[before[:size]], 0))
    assert split.tests is FEDERATION.tests and split.x is FEDERATION.x


def test_the_draw_depends_on_seed_and_client_alone():
    first, again, other = (with_validation(FEDERATION, 0.3, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.index, again.index)
    assert not np.array_equal(first.index, other.index)
    assert not np.array_equal(with_validation(FEDERATION, 0.5, seed=1).validation.x[0][:6], first.validation.x[0][:6])


@pytest.mark.parametrize('share', [0.1, 1.0])
def test_a_client_needs_examples_on_both_sides(share):
    with pytest.raises(ValueError, match=rf'--validation={share} of the \d+ examples of client \d are \d+'):
        with_validation(FEDERATION, share)
