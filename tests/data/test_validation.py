"""Validation sets: split off the training examples of every client, the same ones every time."""

import dataclasses

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


def test_slides_stay_whole():
    """Slides of four examples: as many as fit into the share, at least one, of each client."""
    slide = np.arange(len(FEDERATION.x)) // 4
    grouped = dataclasses.replace(FEDERATION, patient_of=slide)
    split = with_validation(grouped, 0.45, seed=1)  # room for 9, 3 and 4 examples
    examples = [set(slide[row[:n]]) for row, n in zip(FEDERATION.index, FEDERATION.sizes, strict=True)]
    for client, (row, n) in enumerate(zip(split.index, split.sizes, strict=True)):
        kept = set(slide[row[:n]])
        held = examples[client] - kept
        own = FEDERATION.index[client, : FEDERATION.sizes[client]]
        assert held and split.validation.mask[client].sum() == np.isin(slide[own], list(held)).sum()
        assert n + split.validation.mask[client].sum() == FEDERATION.sizes[client]
    assert split.validation.mask.sum(1)[0] == 8
    drawn = [with_validation(grouped, 0.45, seed).validation.x[0].tobytes() for seed in range(4)]
    assert len(set(drawn)) > 1


def test_examples_of_slides_of_one_are_drawn_as_without_slides():
    alone = dataclasses.replace(FEDERATION, patient_of=np.arange(len(FEDERATION.x)))
    for share, seed in ((0.3, 1), (0.5, 2)):
        one, other = (with_validation(data, share, seed) for data in (FEDERATION, alone))
        np.testing.assert_array_equal(one.index, other.index)
        np.testing.assert_array_equal(one.validation.x, other.validation.x)


def test_a_client_of_one_slide_has_none_to_validate_on():
    whole = dataclasses.replace(FEDERATION, patient_of=np.zeros(len(FEDERATION.x), int))
    with pytest.raises(ValueError, match=r'validation=0\.3: all 20 examples of client 0 are of one patient') as caught:
        with_validation(whole, 0.3)
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize('share', [0.1, 1.0])
def test_a_client_needs_examples_on_both_sides(share):
    with pytest.raises(ValueError, match=rf'validation={share} of the \d+ examples of client \d are \d+'):
        with_validation(FEDERATION, share)
