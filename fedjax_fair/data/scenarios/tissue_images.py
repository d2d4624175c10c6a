"""Procedural images of stained tissue: classes by how cells look, hospitals by how they stain and scan.

An image is a sheet of cells. Its severity, drawn around the centre of its class, sets how many nuclei it has, how
large, unequal, irregular and dark they are. Two stains colour it (Beer-Lambert: ``RGB = exp(-(h H + e E))``),
haematoxylin in the nuclei and eosin around them. A hospital has its own stain vectors and strengths, magnification,
contrast, illumination, blur and noise: all functions of its number and the seed. The pixels of nuclei are the mask.

The stain model follows Ruifrok and Johnston, Quantification of histochemical staining by color deconvolution, 2001.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from fedjax_fair.data.pool import Pool
from fedjax_fair.foreign import check_room

CLASSES = {2: ('normal', 'tumour'), 4: ('normal', 'grade 1', 'grade 2', 'grade 3')}
SPREAD = 0.12  # of severity around the centre of a class: neighbouring classes overlap
HAEMATOXYLIN, EOSIN = np.array([0.65, 0.70, 0.29]), np.array([0.27, 0.92, 0.28])


class Look(NamedTuple):
    """How one hospital's images differ from another's."""

    stains: np.ndarray  # [2, 3] optical densities of haematoxylin and eosin
    strength: np.ndarray  # [2]
    scale: float  # magnification
    gamma: float
    light: np.ndarray  # [2] slope of the illumination
    blur: float
    noise: float


MIDDLE = Look(
    stains=np.stack([HAEMATOXYLIN, EOSIN]) / np.linalg.norm([HAEMATOXYLIN, EOSIN], axis=1, keepdims=True),
    strength=np.array([1.25, 0.725]),
    scale=1.0,
    gamma=1.0,
    light=np.zeros(2),
    blur=0.65,
    noise=0.035,
)


def look_of(hospital: int, seed: int, shift: float = 1.0) -> Look:
    """The look of a hospital: the same for every image, whatever the other hospitals are.

    ``shift`` is how far it lies from a look in the middle: at 0 all hospitals look alike, at 1 they differ as drawn.
    """
    rng = np.random.default_rng([seed, 1, hospital])
    stains = np.stack([HAEMATOXYLIN, EOSIN]) + rng.normal(0, 0.13, (2, 3))
    stains = np.maximum(stains, 0.02)
    angle = rng.uniform(0, 2 * np.pi)
    own = Look(
        stains=stains / np.linalg.norm(stains, axis=1, keepdims=True),
        strength=rng.uniform([0.8, 0.35], [1.7, 1.1]),
        scale=rng.uniform(0.85, 1.2),
        gamma=rng.uniform(0.75, 1.35),
        light=rng.uniform(0, 0.35) * np.array([np.cos(angle), np.sin(angle)]),
        blur=rng.uniform(0.2, 1.1),
        noise=rng.uniform(0.01, 0.06),
    )
    return jax.tree.map(lambda middle, drawn: (1 - shift) * middle + shift * drawn, MIDDLE, own)


def draw(label: int, classes: int, look: Look, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One image ``[size, size, 3]`` uint8 and its mask ``[size, size]`` uint8."""
    from scipy.ndimage import gaussian_filter  # imported where it is needed: most runs draw nothing

    severity = float(np.clip(rng.normal((label + 0.5) / classes, SPREAD * 2 / classes), 0, 1))
    nuclei, mask = _nuclei(severity, look, size, rng)
    texture = gaussian_filter(rng.normal(size=(size, size)), 3.0, mode='wrap')
    fibres = gaussian_filter(rng.normal(size=(size, size)), (1.0, 4.0), mode='wrap')
    eosin = 0.55 + 0.12 * texture / texture.std() + 0.10 * fibres / fibres.std()
    amount = np.stack([nuclei + 0.08, np.clip(eosin, 0, None) * (1 - 0.5 * np.minimum(nuclei, 1))], axis=-1)
    density = (amount * look.strength) @ look.stains
    image = np.exp(-density)
    slope = np.linspace(-1, 1, size)
    image *= (1 - 0.15 + look.light[0] * slope[:, None] + look.light[1] * slope[None, :])[..., None]
    image = gaussian_filter(np.clip(image, 0, 1), (look.blur, look.blur, 0)) ** look.gamma
    image += rng.normal(0, look.noise, image.shape)
    return np.round(255 * np.clip(image, 0, 1)).astype(np.uint8), mask


def _nuclei(severity: float, look: Look, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """How much haematoxylin every pixel holds, and which pixels belong to a nucleus."""
    amount, mask = np.zeros((size, size)), np.zeros((size, size), np.uint8)
    count = rng.poisson((size / 64) ** 2 * (11 + 9 * severity) / look.scale**2)
    for _ in range(count):
        radius = look.scale * (2.9 + 1.5 * severity) * np.exp(rng.normal(0, 0.12 + 0.18 * severity))
        long = np.exp(abs(rng.normal(0, 0.15 + 0.15 * severity)))
        turn, centre = rng.uniform(0, np.pi), rng.uniform(0, size, 2)
        waves = (0.03 + 0.14 * severity) * rng.normal(size=2) / np.array([2, 3])
        phases = rng.uniform(0, 2 * np.pi, 2)
        reach = int(np.ceil(2.2 * radius * long))
        low, high = (np.clip(np.round(centre) + s * reach, 0, size).astype(int) for s in (-1, 1))
        y, x = np.mgrid[low[0] : high[0], low[1] : high[1]].astype(float)
        y, x = y - centre[0], x - centre[1]
        along, across = (x * np.cos(turn) + y * np.sin(turn)) / long, (y * np.cos(turn) - x * np.sin(turn)) * long
        angle = np.arctan2(across, along)
        edge = radius * (1 + waves[0] * np.cos(2 * angle + phases[0]) + waves[1] * np.cos(3 * angle + phases[1]))
        inside = edge - np.hypot(along, across)
        dark = np.clip(rng.normal(0.85 + 0.25 * severity, 0.12), 0.4, 1.5)
        speckle = 1 + (0.08 + 0.12 * severity) * rng.normal(size=inside.shape)
        part = np.s_[low[0] : high[0], low[1] : high[1]]
        amount[part] = np.maximum(amount[part], dark * speckle / (1 + np.exp(-2 * np.clip(inside, -20, 20))))
        mask[part] |= (inside > 0).astype(np.uint8)
    return amount, mask


def check_images(count: int, side: int, what: str) -> None:
    """Refuse to draw more images than the memory holds; ``what`` begins the error message."""
    check_room(4 * count * side**2, f'{what} with {count} images of {side}x{side}')  # three colours and the mask


def tissue_pool(
    sizes: Sequence[int], test_size: int, image_size: int, classes: int, seed: int, shift: float = 1.0
) -> Pool:
    """Hospitals with ``sizes`` training images each and ``test_size`` for testing, classes equally frequent.

    An image depends on the seed, the hospital and its number there, so that more images or hospitals add to what there
    was and change none of it.
    """
    x, y, masks, held_out, site_of = [], [], [], [], []
    for hospital, size in enumerate(sizes):
        look = look_of(hospital, seed, shift)
        for kind, count in enumerate((size, test_size)):
            for number in range(count):
                rng = np.random.default_rng([seed, 2, hospital, kind, number])
                image, mask = draw(number % classes, classes, look, image_size, rng)
                x.append(image)
                masks.append(mask)
                y.append(number % classes)
                held_out.append(kind == 1)
                site_of.append(hospital)
    names = tuple(f'hospital {h + 1}' for h in range(len(sizes)))
    return Pool(
        np.stack(x), np.array(y, np.int32), np.array(held_out), np.array(site_of, np.int32), names, CLASSES[classes],
        np.stack(masks),
    )  # fmt: skip
