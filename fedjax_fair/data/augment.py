"""Augmentation on the device: pure functions ``(key, x[B, H, W, C]) -> x``, every example drawing from its own key.

>>> augment = make_augment('crop+flip')
>>> augment(jax.random.key(0), jnp.zeros((8, 32, 32, 3))).shape
(8, 32, 32, 3)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax import lax

from fedjax_fair.core.types import Array
from fedjax_fair.errors import UserError
from fedjax_fair.options import above, between, not_one_of
from fedjax_fair.registry import augmentations as AUGMENTATIONS
from fedjax_fair.registry import register

Augment = Callable[[Array, Array], Array]
Degrees = Annotated[float, 'largest angle in degrees', between(0, 360)]
Translate = Annotated[float, 'largest shift, as a share of height and width', between(0, 1)]
Area = Annotated[float, 'area of the window, as a share of the image', above(0, at_most=2)]
RATIOS, TRIES = (3 / 4, 4 / 3), 10  # of a resized crop: width to height, draws before it gives up


def crop_at(image: Array, offset: Array, padding: int) -> Array:
    """Pad ``image[H, W, C]`` with zeros on every side and cut a window of its size at ``offset[2]``."""
    padded = jnp.pad(image, ((padding, padding), (padding, padding), (0, 0)))
    return lax.dynamic_slice(padded, (offset[0], offset[1], jnp.zeros((), offset.dtype)), image.shape)


def warp(image: Array, angle: Array, shift: Array) -> Array:
    """Turn ``image[H, W, C]`` about its centre by ``angle`` (radians), then move it by ``shift[2]`` pixels.

    Every pixel of the result takes the nearest pixel of the source, or 0 where that lies outside. A positive angle
    turns the row axis towards the column axis.
    """
    height, width, _ = image.shape
    rows, cols = jnp.meshgrid(*(jnp.arange(n, dtype=angle.dtype) - (n - 1) / 2 for n in (height, width)), indexing='ij')
    rows, cols = rows - shift[0], cols - shift[1]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    row = jnp.round(cos * rows + sin * cols + (height - 1) / 2).astype(jnp.int32)
    col = jnp.round(cos * cols - sin * rows + (width - 1) / 2).astype(jnp.int32)
    inside = (row >= 0) & (row < height) & (col >= 0) & (col < width)
    picked = image[jnp.clip(row, 0, height - 1), jnp.clip(col, 0, width - 1)]
    return jnp.where(jnp.broadcast_to(inside[..., None], image.shape), picked, jnp.zeros_like(picked))


def _per_example(one: Callable[[Array, Array], Array]) -> Augment:
    def augment(key: Array, x: Array) -> Array:
        if x.ndim != 4:
            raise ValueError(f'x has shape {x.shape}; augmentation takes images [B, H, W, C]')
        return jax.vmap(one)(jax.random.split(key, x.shape[0]), x)

    return augment


@register.augmentation('crop')
def random_crop(padding: Annotated[int, 'zeros added on every side', between(0, 512)] = 4) -> Augment:
    """Zero-pad by ``padding`` and crop back to size at a random place; 0 is the identity."""
    return _per_example(lambda key, image: crop_at(image, jax.random.randint(key, (2,), 0, 2 * padding + 1), padding))


@register.augmentation('flip')
def random_flip() -> Augment:
    """Mirror left and right with probability one half."""
    return _per_example(lambda key, image: jnp.where(jax.random.bernoulli(key), image[:, ::-1], image))


@register.augmentation('affine')
def random_affine(degrees: Degrees = 10.0, translate: Translate = 0.1) -> Augment:
    """Turn by up to ``degrees`` either way and move by up to the fraction ``translate`` of height and width.

    Angles and shifts are uniform; nearest pixels, zeros outside. Both 0 is the identity.
    """

    def one(key: Array, image: Array) -> Array:
        angle, rows, cols = jax.random.uniform(key, (3,), jnp.float32, -1, 1)
        shift = translate * jnp.stack([rows * image.shape[0], cols * image.shape[1]])
        return warp(image, angle * jnp.deg2rad(jnp.float32(degrees)), shift)

    return _per_example(one)


@register.augmentation('rotate')
def random_rotation(degrees: Degrees = 10.0) -> Augment:
    """Turn by up to ``degrees`` either way; 0 is the identity."""
    return random_affine(degrees, 0.0)


@register.augmentation('symmetries')
def random_symmetry() -> Augment:
    """One of the eight quarter turns and mirrorings of a square, each as likely; of the four of another rectangle."""

    def one(key: Array, image: Array) -> Array:
        swapped, upside_down, mirrored = jax.random.bernoulli(key, shape=(3,))
        if image.shape[0] == image.shape[1]:
            image = jnp.where(swapped, image.swapaxes(0, 1), image)
        image = jnp.where(upside_down, image[::-1], image)
        return jnp.where(mirrored, image[:, ::-1], image)

    return _per_example(one)


def resample(image: Array, offset: Array, size: Array) -> Array:
    """Cut ``size[2]`` rows and columns of ``image[H, W, C]`` at ``offset[2]`` and stretch them over its whole size.

    Bilinear between the centres of pixels; the cut's outermost pixels go on beyond it.
    """
    for axis in (0, 1):
        length, start, last = image.shape[axis], offset[axis], size[axis] - 1
        place = (jnp.arange(length, dtype=jnp.float32) + 0.5) * size[axis].astype(jnp.float32) / length - 0.5
        place = jnp.clip(place, 0, last.astype(jnp.float32))
        low = jnp.floor(place)
        share = jnp.expand_dims((place - low).astype(image.dtype), [other for other in range(3) if other != axis])
        near = start + low.astype(jnp.int32)
        pixels, following = (jnp.take(image, i, axis=axis) for i in (near, jnp.minimum(near + 1, start + last)))
        image = pixels * (1 - share) + following * share
    return image


def draw_window(key: Array, shape: Sequence[int], scale: tuple[float, float]) -> tuple[Array, Array]:
    """Offset and size of a random window of an image, by torchvision's rule.

    Its area is a share in ``scale`` of the image's, its ratio of width to height lies between 3/4 and 4/3 (uniform in
    the logarithm). Of ten draws the first that fits in is taken, else the largest window of such a ratio in the centre.
    """
    height, width = shape
    areas, ratios, places = jax.random.split(key, 3)
    area = height * width * jax.random.uniform(areas, (TRIES,), jnp.float32, *scale)
    ratio = jnp.exp(jax.random.uniform(ratios, (TRIES,), jnp.float32, *(math.log(r) for r in RATIOS)))
    sizes = jnp.round(jnp.sqrt(jnp.stack([area / ratio, area * ratio], -1))).astype(jnp.int32)
    limit = jnp.array([height, width])
    fits = ((sizes > 0) & (sizes <= limit[None])).all(-1)
    size = sizes[jnp.argmax(fits)]
    offset = jax.random.randint(places, (2,), 0, jnp.maximum(limit - size, 0) + 1)
    fallback = jnp.array([min(height, round(width / RATIOS[0])), min(width, round(height * RATIOS[1]))])
    return jnp.where(fits.any(), offset, (limit - fallback) // 2), jnp.where(fits.any(), size, fallback)


@register.augmentation('resized_crop', blends=True)  # of Retina in SSL-FL and FedLD
def random_resized_crop(smallest: Area = 0.6, largest: Area = 1.0) -> Augment:
    """Stretch a random window (:func:`draw_window`) over the whole image."""
    if smallest > largest:
        raise UserError(f'`resized_crop.smallest`={smallest} must be at most `resized_crop.largest`={largest}')
    return _per_example(lambda key, image: resample(image, *draw_window(key, image.shape[:2], (smallest, largest))))


@register.augmentation('resized_crop_covid', blends=True)  # of COVID-FL there
def random_resized_crop_covid() -> Augment:
    """:func:`random_resized_crop` of 0.8 to 1.2 of the area."""
    return random_resized_crop(0.8, 1.2)


def blends(name: str) -> bool:
    """Whether an augmentation mixes neighbouring pixels, which masks do not allow."""
    return bool(AUGMENTATIONS.entry(name).notes.get('blends'))


def chain(*augments: Augment) -> Augment:
    """Apply augmentations one after another, each with its own key; none at all is the identity."""

    def augment(key: Array, x: Array) -> Array:
        for i, step in enumerate(augments):
            x = step(jax.random.fold_in(key, i), x)
        return x

    return augment


def make_augment(names: str, options: Mapping[str, Mapping[str, Any]] | None = None) -> Augment:
    """Build augmentations joined by ``+``, applied from left to right: ``'crop'``, ``'crop+flip'``.

    ``options`` are those of some of them, by name: ``{'crop': {'padding': 2}}``.
    """
    for name in names.split('+'):
        if name not in AUGMENTATIONS:
            raise UserError(f'`augment`={names}: {name!r} {not_one_of(name, AUGMENTATIONS)}')
    return chain(*(AUGMENTATIONS.make(name, **(options or {}).get(name, {})) for name in names.split('+')))
