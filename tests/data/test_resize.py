"""Resizing: against an independent formula, and what must stay as it is."""

import numpy as np
import pytest

from fedjax_fair.data.resize import resize_images, triangle_weights, with_channels


@pytest.mark.parametrize('new', [13, 16, 24])
def test_enlarging_is_linear_interpolation(new):
    signal = np.random.default_rng(0).normal(size=8)
    centres = (np.arange(new) + 0.5) * 8 / new - 0.5
    np.testing.assert_allclose(triangle_weights(8, new) @ signal, np.interp(centres, np.arange(8), signal), atol=1e-12)


def test_shrinking_averages_so_that_fine_stripes_turn_grey():
    stripes = np.tile([0, 200], 32)[None, :, None, None].repeat(64, axis=2).astype(np.uint8)
    small = resize_images(stripes, (16, 16))
    assert small.dtype == np.uint8 and np.abs(small[0, 2:-2].astype(int) - 100).max() <= 8


@pytest.mark.parametrize('dtype', [np.uint8, np.float32])
def test_constant_images_stay_constant(dtype):
    image = np.full((2, 9, 9, 3), 7, dtype)
    for size in (4, 9, 30):
        resized = resize_images(image, (size, size))
        assert resized.dtype == dtype and resized.shape == (2, size, size, 3)
        np.testing.assert_allclose(resized, 7, rtol=1e-6)


def test_other_aspect_ratios_are_centred_on_zeros():
    tall = np.full((1, 8, 4, 1), 5, np.uint8)
    out = resize_images(tall, (16, 16))[0, :, :, 0]
    np.testing.assert_array_equal(out[:, 4:12], 5)
    assert out[:, :4].sum() == 0 and out[:, 12:].sum() == 0


def test_images_of_the_right_size_are_not_touched():
    image = np.zeros((1, 5, 6, 1), np.float32)
    assert resize_images(image, (5, 6)) is image


def test_grey_is_repeated():
    grey = np.arange(8, dtype=np.uint8).reshape(2, 2, 2)
    assert with_channels(grey, 1).shape == (2, 2, 2, 1)
    assert (with_channels(grey, 3) == grey[..., None]).all()
