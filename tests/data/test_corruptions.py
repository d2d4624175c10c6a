"""Corruptions against direct NumPy readings of their definitions."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.data.corruptions import CORRUPTIONS, add_noise, blur_along, corrupt_images, make_corruption

RNG = np.random.default_rng(0)
IMAGES = RNG.uniform(size=(3, 12, 10, 3)).astype(np.float32)
KEY = jax.random.key(4)
EVERY = [(name, severity) for name in CORRUPTIONS for severity in range(1, 6)]


def image_keys():
    return jax.random.split(KEY, len(IMAGES))


@pytest.mark.parametrize(('severity', 'sigma'), [*enumerate((0.08, 0.12, 0.18, 0.26, 0.38), 1)])
def test_gaussian_noise(severity, sigma):
    noise = np.stack([jax.random.normal(key, IMAGES[0].shape) for key in image_keys()])
    expected = np.minimum(np.maximum(IMAGES + sigma * noise, 0), 1)
    np.testing.assert_allclose(
        make_corruption('gaussian_noise', severity)(KEY, jnp.asarray(IMAGES)), expected, atol=1e-6
    )


@pytest.mark.parametrize(('severity', 'photons'), [*enumerate((60, 25, 12, 5, 3), 1)])
def test_shot_noise(severity, photons):
    """Counts of photons: whole numbers with the mean and the variance of a Poisson variable."""
    flat = jnp.full((64, 16, 16, 1), 0.3)
    seen = np.asarray(make_corruption('shot_noise', severity)(KEY, flat), np.float64)
    counts = seen * photons
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-4)
    rate, most = 0.3 * photons, photons
    chance = np.array([math.exp(-rate) * rate**k / math.factorial(k) for k in range(most)])
    chance = np.append(chance, 1 - chance.sum())  # more photons than white has are cut off
    mean = (chance * np.arange(most + 1)).sum()
    variance = (chance * np.arange(most + 1) ** 2).sum() - mean**2
    assert counts.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / counts.size))
    assert counts.var() == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize(('severity', 'share'), [*enumerate((0.4, 0.3, 0.2, 0.1, 0.05), 1)])
def test_contrast(severity, share):
    expected = np.empty_like(IMAGES)
    for b in range(len(IMAGES)):
        for c in range(3):
            mean = IMAGES[b, :, :, c].mean()
            expected[b, :, :, c] = (IMAGES[b, :, :, c] - mean) * share + mean
    np.testing.assert_allclose(make_corruption('contrast', severity)(KEY, jnp.asarray(IMAGES)), expected, atol=1e-6)


def trail(image, angle, radius, sigma):
    """ImageMagick's motion blur, pixel by pixel."""
    taps = 2 * radius + 1
    kernel = [math.exp(-(i * i) / (2 * sigma * sigma)) for i in range(taps)]
    down, right = (taps * f(math.radians(angle)) for f in (math.sin, math.cos))
    steps = [
        (math.ceil(i * down / math.hypot(down, right) - 0.5), math.ceil(i * right / math.hypot(down, right) - 0.5))
        for i in range(taps)
    ]
    height, width, _ = image.shape
    out = np.zeros(image.shape)
    for r in range(height):
        for c in range(width):
            for k, (dr, dc) in zip(kernel, steps, strict=True):
                out[r, c] += k / sum(kernel) * image[min(max(r + dr, 0), height - 1), min(max(c + dc, 0), width - 1)]
    return out


@pytest.mark.parametrize(
    ('severity', 'radius', 'sigma'), [(1, 10, 3), (2, 15, 5), (3, 15, 8), (4, 15, 12), (5, 20, 15)]
)
def test_motion_blur(severity, radius, sigma):
    angles = [float(jax.random.uniform(key, (), minval=-45, maxval=45)) for key in image_keys()]
    assert len(set(angles)) == 3
    expected = [trail(image, angle, radius, sigma) for image, angle in zip(IMAGES, angles, strict=True)]
    np.testing.assert_allclose(make_corruption('motion_blur', severity)(KEY, jnp.asarray(IMAGES)), expected, atol=1e-5)


def test_a_level_trail_is_the_mean_of_what_lies_to_the_right():
    image = jnp.zeros((3, 9, 1)).at[1, 6, 0].set(1.0)
    seen = np.asarray(blur_along(image, jnp.asarray(0.0), radius=1, sigma=1e6))[..., 0]
    np.testing.assert_allclose(seen[1], [0, 0, 0, 0, 1 / 3, 1 / 3, 1 / 3, 0, 0], atol=1e-6)
    assert not seen[[0, 2]].any()


@pytest.mark.parametrize(('name', 'severity'), EVERY)
def test_images_stay_in_range_and_worsen(name, severity):
    seen = np.asarray(make_corruption(name, severity)(KEY, jnp.asarray(IMAGES)))
    assert seen.min() >= 0 and seen.max() <= 1
    assert np.abs(seen - IMAGES).mean() > 0.01


def test_stored_images_keep_their_type_and_do_not_depend_on_their_number():
    stored = (IMAGES.repeat(30, 0) * 255).astype(np.uint8)
    seen = corrupt_images(stored, 'gaussian_noise', 3, seed=5)
    assert seen.dtype == np.uint8 and seen.shape == stored.shape
    np.testing.assert_array_equal(corrupt_images(stored[:70], 'gaussian_noise', 3, seed=5), seen[:70])
    assert not np.array_equal(seen[0], seen[1])  # the same image, other noise
    assert not np.array_equal(corrupt_images(stored, 'gaussian_noise', 3, seed=6), seen)
    np.testing.assert_allclose(
        corrupt_images(IMAGES, 'contrast', 1, 0), make_corruption('contrast', 1)(KEY, IMAGES), atol=1e-6
    )


def test_bytes_are_cut_off_not_rounded():
    """As the published noise is stored: 0.5 + 0.18 n in 255ths, towards zero."""
    grey = np.full((1, 64, 64, 1), 128, np.uint8)
    seen = corrupt_images(grey, 'gaussian_noise', 3, seed=0).astype(float)
    key = jax.random.split(jax.random.fold_in(jax.random.key(0), 0), 64)[0]
    exact = np.asarray(add_noise(jnp.full((64, 64, 1), 128 / 255), jax.random.normal(key, (64, 64, 1)), 0.18)) * 255
    assert ((exact - seen[0] > -1e-3) & (exact - seen[0] < 1 + 1e-3)).all()
    assert (exact - seen[0]).mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: make_corruption('fog'), 'corruption=fog is not one of gaussian_noise'),
        (lambda: make_corruption('contrast', 6), 'severity=6 is not one of 1, 2, 3, 4, 5'),
        (lambda: corrupt_images(np.zeros((4, 7), np.float32), 'contrast', 1, 0), 'needs images'),
        (lambda: corrupt_images(IMAGES * 3, 'contrast', 1, 0), r'values in \[0, 1\]'),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(ValueError, match=message):
        call()
