"""Corruptions of images: pure functions ``(key, x[B, H, W, C]) -> x`` on values in [0, 1], each image from its own key.

>>> corrupt = make_corruption('gaussian_noise', severity=3)
>>> corrupt(jax.random.key(0), jnp.full((2, 8, 8, 3), 0.5)).shape
(2, 8, 8, 3)

Parameters of the five severities are those of Hendrycks and Dietterich, Benchmarking Neural Network Robustness to
Common Corruptions and Perturbations, ICLR 2019, for images of 224x224; they are not scaled to smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedjax_fair.core.types import Array
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of

Corruption = Callable[[Array, Array], Array]
SEVERITIES = (1, 2, 3, 4, 5)
BATCH = 64  # images corrupted at once


def add_noise(image: Array, noise: Array, sigma: Array | float) -> Array:
    """``clip(image + sigma noise)``."""
    return jnp.clip(image + sigma * noise, 0, 1)


def gaussian_noise(sigma: float) -> Callable[[Array, Array], Array]:
    """Independent noise of deviation ``sigma`` on every value; 0 changes nothing."""
    return lambda key, image: add_noise(image, jax.random.normal(key, image.shape, image.dtype), sigma)


def shot_noise(photons: float) -> Callable[[Array, Array], Array]:
    """``Poisson(photons x) / photons``: the fewer photons, the noisier."""
    return lambda key, image: jnp.clip(
        jax.random.poisson(key, image * photons, dtype=jnp.int32).astype(image.dtype) / photons, 0, 1
    )


def contrast(share: float) -> Callable[[Array, Array], Array]:
    """Keep a ``share`` of every channel's distance to its mean; 1 changes nothing, 0 leaves a flat image."""

    def of_image(key: Array, image: Array) -> Array:
        mean = jnp.mean(image, axis=(0, 1), keepdims=True)
        return jnp.clip((image - mean) * share + mean, 0, 1)

    return of_image


def blur_along(image: Array, angle: Array, radius: int, sigma: float) -> Array:
    """A one-sided Gaussian trail of ``2 radius + 1`` pixels at ``angle`` degrees, edges continued.

    ``sum_i k_i image[row + ceil(i sin - 1/2), col + ceil(i cos - 1/2)]`` with ``k_i ~ exp(-i^2 / 2 sigma^2)``: what
    ImageMagick's motion blur does.
    """
    height, width, _ = image.shape
    taps = 2 * radius + 1
    kernel = np.exp(-(np.arange(taps) ** 2) / (2 * sigma**2))
    weights = jnp.asarray(kernel / kernel.sum(), image.dtype)
    turn = jnp.deg2rad(angle)
    rows, cols = jnp.arange(height), jnp.arange(width)

    def add(i, total):
        down, right = (jnp.ceil(i.astype(turn.dtype) * f(turn) - 0.5).astype(rows.dtype) for f in (jnp.sin, jnp.cos))
        moved = image[jnp.clip(rows + down, 0, height - 1)[:, None], jnp.clip(cols + right, 0, width - 1)[None, :]]
        return total + weights[i] * moved

    return lax.fori_loop(0, taps, add, jnp.zeros_like(image))


def motion_blur(radius: int, sigma: float) -> Callable[[Array, Array], Array]:
    """:func:`blur_along` a direction drawn between -45 and 45 degrees for every image."""

    def of_image(key: Array, image: Array) -> Array:
        angle = jax.random.uniform(key, (), image.dtype, -45, 45)
        return jnp.clip(blur_along(image, angle, radius, sigma), 0, 1)

    return of_image


# What makes a corruption of one image, and its arguments for severities 1 to 5.
CORRUPTIONS: dict[str, tuple[Callable[..., Callable], tuple[tuple[Any, ...], ...]]] = {
    'gaussian_noise': (gaussian_noise, ((0.08,), (0.12,), (0.18,), (0.26,), (0.38,))),
    'motion_blur': (motion_blur, ((10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0))),
    'shot_noise': (shot_noise, ((60.0,), (25.0,), (12.0,), (5.0,), (3.0,))),
    'contrast': (contrast, ((0.4,), (0.3,), (0.2,), (0.1,), (0.05,))),
}


def make_corruption(name: str, severity: int = 3) -> Corruption:
    """A corruption of :data:`CORRUPTIONS` by name, for a batch of images."""
    if name not in CORRUPTIONS:
        raise UserError(f'`corruption`={name} {not_one_of(name, CORRUPTIONS)}')
    if severity not in SEVERITIES:
        raise UserError(f'`severity`={severity} {not_one_of(str(severity), map(str, SEVERITIES))}')
    make, arguments = CORRUPTIONS[name]
    one = make(*arguments[severity - 1])
    return lambda key, x: jax.vmap(one)(jax.random.split(key, x.shape[0]), x)


def corrupt_images(x: np.ndarray, name: str, severity: int, seed: int) -> np.ndarray:
    """A corrupted copy of stored images ``x[T, H, W, C]``, of the same type: uint8 (cut off, not rounded) or [0, 1].

    An image depends on the seed and its number only, not on how many there are.
    """
    corrupt = make_corruption(name, severity)
    if x.ndim != 4:
        raise UserError(f'`corruption`={name} needs images, not inputs of shape {x.shape[1:]}')
    if x.dtype != np.uint8 and len(x) and not (x.min() >= 0 and x.max() <= 1):
        raise UserError(f'`corruption`={name} needs images of uint8 or values in [0, 1], not {x.min()} to {x.max()}')
    scale = 255 if x.dtype == np.uint8 else 1
    key = jax.random.key(seed)

    @jax.jit
    def of_batch(number: Array, batch: Array) -> Array:
        return corrupt(jax.random.fold_in(key, number), batch.astype(jnp.float32) / scale) * scale

    done = np.empty_like(x)
    for start in range(0, len(x), BATCH):
        batch = x[start : start + BATCH]
        padded = np.concatenate([batch, np.zeros((BATCH - len(batch), *x.shape[1:]), x.dtype)])
        done[start : start + BATCH] = np.asarray(of_batch(start // BATCH, padded))[: len(batch)].astype(x.dtype)
    return done
