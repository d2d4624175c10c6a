"""Amplitude spectra of images: their mean, and images given another one."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Array
from fedjax_fair.errors import UserError

Band = str | float | Array


def mean_amplitude(images: Array, mask: Array | None = None) -> Array:
    """The mean over images ``[B, H, W, C]`` of ``|fft2|``, each channel by itself: ``[H, W, C]``.

    Frequencies stand where :func:`jnp.fft.fft2` puts them, the mean of the image (times ``H W``) at ``[0, 0]``. Images
    whose ``mask[B]`` is False do not count; where none counts the amplitude is 0.

    >>> mean_amplitude(jnp.stack([jnp.full((2, 2, 1), 1.0), jnp.full((2, 2, 1), 3.0)]))[:, :, 0].tolist()
    [[8.0, 0.0], [0.0, 0.0]]
    """
    _check(images)
    sizes = jnp.abs(jnp.fft.rfft2(images, axes=(1, 2)))
    mask = jnp.ones(images.shape[0], bool) if mask is None else mask
    weights = mask.astype(sizes.dtype) / jnp.maximum(jnp.sum(mask.astype(sizes.dtype)), 1)
    counted = jnp.where(mask[:, None, None, None], sizes, 0)
    return _whole(jnp.sum(weights[:, None, None, None] * counted, 0), images.shape[2]).astype(images.dtype)


def amplitude_normalize(images: Array, amplitude: Array, *, band: Band = 'full', stop_gradient: bool = True) -> Array:
    """Images ``[B, H, W, C]`` with the amplitude spectrum ``[H, W, C]`` in place of their own, and their own phase.

    ``ifft2(A exp(i angle(fft2(x))))`` where ``A`` is the new amplitude inside the ``band`` and the old one outside:
    ``'full'`` everywhere, ``'dc'`` in the zero frequency alone (only the mean of each channel changes), a number ``L``
    from 0 to 0.5 in the square of frequencies up to ``floor(min(H, W) L)`` along both axes. ``L = 0`` is ``'dc'``, and
    ``L = 0.5`` is ``'full'`` where the image is a square. An image's own amplitude gives the image back.

    The phase of a coefficient that is zero, but for the rounding of the transform, is 0. The result is real: of an
    amplitude that no real image has, the part that is symmetric in the sign of the frequency counts. Nothing is
    clipped.

    No gradient flows to images or amplitude, as in the published layer; ``stop_gradient=False`` lets it, through a
    phase whose derivative grows as coefficients vanish (none flows through those that count as zero).

    >>> dark = jnp.arange(4.0).reshape(1, 2, 2, 1)
    >>> amplitude_normalize(dark, mean_amplitude(dark + 1), band='dc').ravel().tolist()
    [1.0, 2.0, 3.0, 4.0]

    Reference: Jiang et al., HarmoFL: Harmonizing Local and Global Drifts in Federated Learning on Heterogeneous Medical
    Images, AAAI 2022, Eq. 4 (``'full'``); the published code replaces ``'dc'`` alone.
    """
    _check(images)
    if amplitude.shape != images.shape[1:]:
        raise ValueError(f'amplitude has shape {amplitude.shape}, but images of {images.shape[1:]} need the same')
    amplitude = amplitude.astype(images.dtype)
    normalised = _with_mean(images, amplitude[0, 0]) if _only_dc(band) else _with_band(images, amplitude, band)
    return jax.lax.stop_gradient(normalised) if stop_gradient else normalised


def checked_band(band: Band, label: str = 'band') -> Band:
    """``'full'``, ``'dc'`` or a number from 0 to 0.5, which may be written as a string; ``label`` is whose it is."""
    if isinstance(band, str) and band in ('full', 'dc'):
        return band
    try:
        width = float(band) if isinstance(band, (str, float, int)) else 0.0  # a traced number is taken on trust
    except ValueError:
        width = math.nan
    if not 0 <= width <= 0.5:
        raise UserError(f"`{label}`={band!r} is not one of 'full', 'dc' or a number from 0 to 0.5")
    return width if isinstance(band, (str, int)) else band


def _check(images: Array) -> None:
    if images.ndim != 4 or not jnp.issubdtype(images.dtype, jnp.floating):
        raise ValueError(f'images must be floats [B, H, W, C], got {images.dtype} of shape {images.shape}')


def _only_dc(band: Band) -> bool:
    return isinstance(band, str) and checked_band(band) == 'dc'


def _whole(half: Array, width: int) -> Array:
    """``[H, W, C]`` from what ``rfft2`` keeps of a spectrum with ``A(-k) = A(k)``."""
    rest = jnp.flip(half[:, 1 : (width + 1) // 2], (0, 1))
    return jnp.concatenate([half, jnp.roll(rest, 1, axis=0)], axis=1)


def _half(amplitude: Array) -> Array:
    """What ``rfft2`` keeps of the symmetric part of an amplitude."""
    mirrored = jnp.roll(jnp.flip(amplitude, (0, 1)), (1, 1), axis=(0, 1))
    return ((amplitude + mirrored) / 2)[:, : amplitude.shape[1] // 2 + 1]


def _with_mean(images: Array, amplitude: Array) -> Array:
    """The mean of every channel replaced, keeping its sign: what a new zero frequency comes to."""
    pixels = images.shape[1] * images.shape[2]
    mean = jnp.mean(images, axis=(1, 2), keepdims=True)
    new = (amplitude / pixels)[None, None, None]
    return images - mean + jnp.where(pixels * mean < -_rounding(images), -new, new)


def _rounding(images: Array) -> Array:
    """How large a coefficient that is zero may come out: ``[B, 1, 1, C]``."""
    return jnp.finfo(images.dtype).eps * jnp.sum(jnp.abs(images), axis=(1, 2), keepdims=True)


def _with_band(images: Array, amplitude: Array, band: Band) -> Array:
    height, width = images.shape[1:3]
    spectrum = jnp.fft.rfft2(images, axes=(1, 2))
    # Squares: the absolute value of complex numbers guards against overflow, which costs time.
    square = jnp.square(spectrum.real) + jnp.square(spectrum.imag)
    zero = square <= jnp.square(_rounding(images))
    safe = jnp.where(zero, 1, spectrum)
    factor = _half(amplitude)[None] / jnp.sqrt(jnp.where(zero, 1, square))
    replaced = jax.lax.complex(safe.real * factor, safe.imag * factor)
    inside = _inside(height, width, band)
    if inside is not None:
        replaced = jnp.where(inside[None, :, :, None], replaced, spectrum)
    return jnp.fft.irfft2(replaced, (height, width), axes=(1, 2)).astype(images.dtype)


def _inside(height: int, width: int, band: Band) -> Array | None:
    """Which of the frequencies ``rfft2`` keeps are replaced; None for all."""
    band = checked_band(band)
    if isinstance(band, str):
        return None
    side = min(height, width)
    reach = math.floor(side * band) if isinstance(band, float) else jnp.floor(side * band)
    rows, columns = np.abs(np.fft.fftfreq(height, 1 / height)), np.arange(width // 2 + 1)
    return jnp.asarray(np.maximum(rows[:, None], columns[None]), jnp.float32) <= reach
