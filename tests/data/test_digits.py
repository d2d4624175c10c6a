"""The embedded digits: shapes, disjointness, looks, seeds and readable images."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedjax_fair import foreign
from fedjax_fair.data import class_counts, make_scenario
from fedjax_fair.data.scenarios.digit_images import DOMAINS, digit_domains, handwriting, handwritten_digits
from fedjax_fair.data.scenarios.glyphs import CELL, FONTS, SIZE, glyph_masks, warp


@pytest.fixture(scope='module')
def domains():
    return make_scenario('digits_domains')


def test_twenty_clients_of_four_domains_in_mixed_order(domains):
    assert domains.x.shape == (1100, 32, 32, 3) and domains.x.dtype == np.uint8 and domains.groups == DOMAINS
    assert np.bincount(domains.group_of).tolist() == [5, 5, 5, 5]
    assert domains.group_of.tolist() != sorted(domains.group_of.tolist())
    np.testing.assert_array_equal(domains.sizes, np.array([60, 30, 90, 40])[domains.group_of])
    assert domains.tests.names == DOMAINS and domains.tests.mask.sum(1).tolist() == [200] * 4
    np.testing.assert_array_equal(domains.tests.test_of, domains.group_of)


def test_every_training_image_has_one_owner_and_none_is_tested(domains):
    owned = np.concatenate([row[:n] for row, n in zip(domains.index, domains.sizes, strict=True)])
    np.testing.assert_array_equal(np.sort(owned), np.arange(len(domains.x)))
    trained = {image.tobytes() for image in domains.x}
    tested = [image.tobytes() for image in domains.tests.x.reshape(-1, 32, 32, 3)]
    # The collection itself holds no two equal digits, so any overlap would be a leak.
    assert not trained & set(tested)


def test_domains_look_different(domains):
    """Brightness tells handwriting from print, colour tells street numbers, local noise tells synthetic digits."""
    images = domains.tests.x.astype(float) / 255
    bright = images.mean((1, 2, 3, 4))
    colour = (images.max(-1) - images.min(-1)).mean((1, 2, 3))
    noise = np.abs(np.diff(images, axis=3)).mean((1, 2, 3, 4))
    assert bright[0] < 0.4 < 0.7 < bright[1]
    assert colour[0] == 0 and colour[2] == colour.max()
    assert noise[3] == noise.max() and noise[3] > 1.5 * noise[2]


def test_rendered_digits_are_recognisable_across_draws():
    """The nearest image of one draw of clean print names the digits of another draw far above chance."""
    draws = [digit_domains((1, 600, 1, 1), 1, seed) for seed in (0, 1)]
    (x, y), (x_test, y_test) = ((d.x[d.site_of == 1, ..., 0].reshape(601, -1), d.y[d.site_of == 1]) for d in draws)
    x, x_test = ((a < a.max(1, keepdims=True) / 2).astype(np.float32) for a in (x, x_test))
    nearest = (x_test @ x.T / np.linalg.norm(x, axis=1)).argmax(1)
    assert (y[nearest] == y_test).mean() > 0.75


def test_seed_decides_and_options_scale(domains):
    again, other = make_scenario('digits_domains'), make_scenario('digits_domains', data_seed=1)
    np.testing.assert_array_equal(domains.x, again.x)
    np.testing.assert_array_equal(domains.index, again.index)
    assert not np.array_equal(domains.x, other.x)
    small = make_scenario('digits_domains', num_clients=8, client_sizes=[4, 5, 6, 7], test_size=11)
    assert small.num_clients == 8 and set(small.sizes.tolist()) == {4, 5, 6, 7} and small.tests.mask.sum() == 44
    equal = make_scenario(
        'digits_domains', clients_per_domain=1, client_sizes=[9, 5, 6, 7], test_size=11, truncate=True
    )
    assert equal.sizes.tolist() == [5] * 4


def test_images_that_do_not_fit_into_memory_are_not_drawn(monkeypatch):
    monkeypatch.setattr(foreign, 'free_memory', lambda: 24 * SIZE**2 * 100)
    with pytest.raises(ValueError, match=r'street with 120 images needs .* of memory are free'):
        make_scenario('digits_domains', clients_per_domain=1, client_sizes=(5, 5, 100, 5), test_size=20)


def test_handwriting_is_the_real_collection_enlarged():
    images, labels = handwriting(32)
    original = load_digits()
    np.testing.assert_array_equal(labels, original.target)
    blocks = images[:, 4:28, 4:28].reshape(-1, 8, 3, 8, 3).mean((2, 4)) / 255 * 16
    assert np.corrcoef(blocks.ravel(), original.images.ravel())[0, 1] > 0.97


def test_glyphs_are_centred_upright_and_distinct():
    for font in FONTS:
        masks = glyph_masks(font)
        assert masks.shape == (10, CELL, CELL) and masks.min() >= 0 and masks.max() > 0.9
        assert masks[:, [0, -1], :].max() < 0.05 and masks[:, :, [0, -1]].max() < 0.05  # nothing is cut off
        assert len({mask.tobytes() for mask in masks}) == 10


def test_warp_moves_and_turns_as_told():
    blob = np.zeros((1, CELL, CELL), np.float32)
    blob[:, 10:14, 30:34] = 1  # above the centre

    def centre(angle, shift):
        image = warp(blob, np.array([angle]), np.ones(1), np.zeros(1), np.array([shift], float))[0]
        return np.array([np.average(np.arange(SIZE), weights=image.sum(axis)) for axis in (1, 0)]) - (SIZE - 1) / 2

    at_rest = centre(0.0, (0, 0))
    np.testing.assert_allclose(at_rest, [-10, 0], atol=0.1)
    np.testing.assert_allclose(centre(0.0, (3, -2)), at_rest + np.array([3, -2]), atol=0.1)
    assert np.linalg.norm(centre(np.pi / 2, (0, 0))) == pytest.approx(10, abs=0.2)
    np.testing.assert_allclose(centre(np.pi, (0, 0)), -at_rest, atol=0.1)


def test_label_skew_over_a_hundred_clients():
    skewed = make_scenario('digits_labels')
    assert skewed.num_clients == 100 and skewed.x.shape[1:] == (28, 28, 1) and skewed.group_of is None
    counts = class_counts(skewed)
    assert ((counts > 0).sum(1) == 2).all() and counts.sum() == len(skewed.x)
    for n in range(100):
        tested = skewed.tests.y[n][skewed.tests.mask[n]]
        assert set(tested) == set(np.flatnonzero(counts[n])) and len(tested) == 40


def test_more_clients_than_test_digits_of_a_class():
    assert make_scenario('digits_labels', num_clients=400).tests.mask.sum(1).tolist() == [40] * 400


def test_dirichlet_clients_are_tested_on_their_own_mix():
    skewed = make_scenario('digits_labels', alpha=0.5, num_clients=10)
    counts = class_counts(skewed)
    for n in range(10):
        tested = np.bincount(skewed.tests.y[n][skewed.tests.mask[n]], minlength=10)
        np.testing.assert_allclose(tested / tested.sum(), counts[n] / counts[n].sum(), atol=0.06)


def test_handwritten_split_is_stratified():
    pool = handwritten_digits(0)
    shares = [pool.held_out[pool.y == d].mean() for d in range(10)]
    np.testing.assert_allclose(shares, 0.3, atol=0.01)


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        ({'client_sizes': [1, 2]}, 'client_sizes=1,2'),
        ({'client_sizes': [400]}, 'handwritten digits, but there are 1797'),
        ({'num_clients': 10}, 'num_clients=10 is not 4 domains'),
        ({'num_clients': 8, 'clients_per_domain': 3}, 'choose 12'),
        ({'clients_per_domain': 0}, 'clients_per_domain=0 must be at least 1'),
        ({'alpha': 1.0}, 'alpha=1.0 does not apply to scenario=digits_domains'),
    ],
)
def test_impossible_domains_say_why(options, words):
    with pytest.raises(ValueError, match=words):
        make_scenario('digits_domains', **options)
