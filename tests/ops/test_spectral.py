"""Amplitude spectra: against HarmoFL's own code and its equations, and what normalisation keeps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import GOLDEN

from fedjax_fair.ops import amplitude_normalize, mean_amplitude

AUTHORS = np.load(GOLDEN / 'harmofl_ampnorm_authors.npz')
PAPER = np.load(GOLDEN / 'harmofl_ampnorm_paper_eq.npz')
SHAPES = [(8, 8), (7, 10), (10, 7), (5, 5), (1, 4), (3, 1)]


def nhwc(array):
    """Channels last; PyTorch has them before height and width."""
    return jnp.moveaxis(jnp.asarray(array), -3, -1)


def images(shape, count=4, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(0.3, 1, (count, *shape, 2)), jnp.float32)


def by_definition(x, amplitude, inside):
    spectrum = np.fft.fft2(np.asarray(x, np.float64), axes=(1, 2))
    size = np.where(inside[None, :, :, None], np.asarray(amplitude, np.float64)[None], np.abs(spectrum))
    return np.fft.ifft2(size * np.exp(1j * np.angle(spectrum)), axes=(1, 2)).real


def test_the_mean_amplitude_is_that_of_the_authors():
    np.testing.assert_allclose(mean_amplitude(nhwc(AUTHORS['x'][0])), nhwc(AUTHORS['running_amp'][0]), atol=1e-5)
    np.testing.assert_allclose(mean_amplitude(nhwc(AUTHORS['x_odd'])), nhwc(AUTHORS['running_amp_odd']), atol=1e-5)
    with jax.enable_x64(True):
        each = mean_amplitude(nhwc(AUTHORS['x'][2]).astype(jnp.float64))
        np.testing.assert_allclose(each, nhwc(AUTHORS['extract_amp']).mean(0), atol=1e-6)


def test_the_zero_frequency_is_replaced_as_the_authors_do():
    for batch in range(3):
        y = amplitude_normalize(nhwc(AUTHORS['x'][batch]), nhwc(AUTHORS['running_amp'][batch]), band='dc')
        np.testing.assert_allclose(y, nhwc(AUTHORS['y'][batch]), atol=1e-6)
    y = amplitude_normalize(nhwc(AUTHORS['x'][0]), nhwc(AUTHORS['fixed_amp']), band='dc')
    np.testing.assert_allclose(y, nhwc(AUTHORS['y_fixed']), atol=1e-6)
    odd = amplitude_normalize(nhwc(AUTHORS['x_odd']), nhwc(AUTHORS['running_amp_odd']), band='dc')
    np.testing.assert_allclose(odd, nhwc(AUTHORS['y_odd']), atol=1e-6)


@pytest.mark.parametrize('width', [0.0, 0.1, 0.25, 0.5])
def test_bands_are_those_of_the_authors(width):
    with jax.enable_x64(True):
        x, amplitude = (nhwc(AUTHORS[k]).astype(jnp.float64) for k in ('x', 'fixed_amp'))
        y = jax.jit(lambda band: amplitude_normalize(x[2], amplitude, band=band))(width)  # a band may be traced
        np.testing.assert_allclose(y, nhwc(AUTHORS[f'normalize_L{width}']), atol=1e-6)
        np.testing.assert_allclose(amplitude_normalize(x[2], amplitude, band=width), y, atol=1e-12)


@pytest.mark.parametrize('seed', ['zero', 'first_batch'])
def test_the_whole_spectrum_is_replaced_as_the_equations_say(seed):
    with jax.enable_x64(True):
        for batch in range(3):
            amplitude = nhwc(PAPER[f'running_amp_{seed}'][batch])
            y = amplitude_normalize(nhwc(PAPER['x'][batch]), amplitude)
            np.testing.assert_allclose(y, nhwc(PAPER[f'y_full_{seed}'][batch]), atol=1e-10)


@pytest.mark.parametrize('shape', SHAPES)
def test_any_height_and_width(shape):
    x, amplitude = images(shape), mean_amplitude(images(shape, seed=1))
    spectrum = np.fft.fft2(np.asarray(images(shape, seed=1), np.float64), axes=(1, 2))
    np.testing.assert_allclose(amplitude, np.abs(spectrum).mean(0), atol=1e-4)
    rows, columns = (np.arange(n) - n // 2 for n in shape)
    for band in (0.0, 0.2, 0.5):
        reach = int(min(shape) * band)
        square = np.maximum(abs(rows)[:, None], abs(columns)[None]) <= reach  # in the middle, as a picture shows it
        expected = by_definition(x, amplitude, np.fft.ifftshift(square))
        np.testing.assert_allclose(amplitude_normalize(x, amplitude, band=band), expected, atol=2e-5)
    expected = by_definition(x, amplitude, np.ones(shape, bool))
    found = amplitude_normalize(x, amplitude, band='full')
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(mean_amplitude(found), amplitude, atol=1e-4)
    for one in x:  # an image's own amplitude gives the image back
        own = mean_amplitude(one[None])
        for band in ('full', 'dc', 0.3):
            np.testing.assert_allclose(amplitude_normalize(one[None], own, band=band)[0], one, atol=1e-5)


def test_an_amplitude_of_no_real_image_gives_the_real_part():
    x, amplitude = images((5, 6)), jnp.abs(images((5, 6), 1, seed=2))[0]
    expected = by_definition(x, amplitude, np.ones((5, 6), bool))
    np.testing.assert_allclose(amplitude_normalize(x, amplitude), expected, atol=1e-5)


def test_the_phase_of_nothing_is_zero():
    """A black image becomes the one with all phases 0; so does a grey one, but for its mean."""
    amplitude = mean_amplitude(images((7, 9)))
    still = np.fft.ifft2(amplitude, axes=(0, 1)).real
    for grey in (0.0, 0.1, 0.7):
        found = amplitude_normalize(jnp.full((1, 7, 9, 2), grey), amplitude)[0]
        np.testing.assert_allclose(found, still, atol=1e-5)
    zeros = amplitude_normalize(jnp.zeros((1, 7, 9, 2)), amplitude, band='dc')[0]
    np.testing.assert_allclose(zeros, np.broadcast_to(amplitude[0, 0] / 63, zeros.shape), rtol=1e-6)


def test_a_mean_that_is_rounding_alone_counts_as_positive():
    """Whatever its sign, and the same in both ways to replace the zero frequency."""
    x = images((7, 9))
    x = x - x.mean((1, 2), keepdims=True)
    x = jnp.concatenate([x, -x])
    assert 0 < float(jnp.max(jnp.abs(x.mean((1, 2))))) < 1e-6
    amplitude = mean_amplitude(images((7, 9), seed=1))
    found = amplitude_normalize(x, amplitude, band='dc')
    np.testing.assert_allclose(found, amplitude_normalize(x, amplitude, band=0.0), atol=1e-5)
    np.testing.assert_allclose(found.mean((1, 2)), np.broadcast_to(amplitude[0, 0] / 63, (8, 2)), rtol=1e-4)


def test_masked_images_do_not_count():
    x = images((6, 5))
    mask = jnp.array([True, False, True, False])
    spoiled = x.at[1].set(jnp.nan)
    np.testing.assert_allclose(mean_amplitude(spoiled, mask), mean_amplitude(x[::2]), rtol=1e-5, atol=1e-5)
    assert not np.any(mean_amplitude(spoiled, jnp.zeros(4, bool)))


def test_gradients_are_stopped_unless_asked_for():
    x, amplitude = images((4, 6), 1), mean_amplitude(images((4, 6), 3, seed=3))
    x = x.at[..., 1].set(0.5)  # a channel whose coefficients are mostly zero

    def loss(x, amplitude, stop):
        return jnp.sum(amplitude_normalize(x, amplitude, stop_gradient=stop) ** 3)

    for gradient in jax.grad(loss, (0, 1))(x, amplitude, True):
        assert not np.any(gradient)
    by_x, by_amplitude = jax.grad(loss, (0, 1))(x, amplitude, False)
    assert np.all(np.isfinite(by_x)) and np.any(by_amplitude)
    step = 1e-2 * jnp.asarray(np.random.default_rng(5).normal(size=x.shape), jnp.float32).at[..., 1].set(0)
    change = (loss(x + step, amplitude, False) - loss(x - step, amplitude, False)) / 2
    np.testing.assert_allclose(jnp.vdot(by_x, step), change, rtol=0.05)


def test_vmap_over_clients_equals_one_by_one():
    x = jnp.stack([images((6, 6), seed=s) for s in range(3)])
    amplitudes = jax.vmap(mean_amplitude)(x)
    together = jax.jit(jax.vmap(amplitude_normalize))(x, amplitudes)
    for one, amplitude, y in zip(x, amplitudes, together, strict=True):
        np.testing.assert_allclose(amplitude_normalize(one, amplitude), y, atol=1e-6)


def test_what_is_refused():
    x = images((4, 4))
    for band in ('low', 0.6, -0.1, '0.7'):
        with pytest.raises(ValueError, match=r"'full', 'dc' or a number from 0 to 0\.5"):
            amplitude_normalize(x, mean_amplitude(x), band=band)
    with pytest.raises(ValueError, match=r'\(4, 4\)'):
        amplitude_normalize(x, jnp.ones((4, 4)))
    with pytest.raises(ValueError, match='uint8'):
        mean_amplitude(jnp.zeros((1, 4, 4, 3), jnp.uint8))
