"""Images of digits that need no download: four domains, of which one is real handwriting."""

from __future__ import annotations

import functools

import numpy as np

from fedjax_fair.data.pool import Pool
from fedjax_fair.data.scenarios import glyphs
from fedjax_fair.errors import UserError
from fedjax_fair.foreign import check_room

DIGITS = tuple(str(d) for d in range(10))
DOMAINS = ('handwritten', 'printed', 'street', 'synthetic')
CLIENT_SIZES = (60, 30, 90, 40)  # training examples per client of each domain: unequal, yet trained in seconds
HANDWRITTEN_TEST = 0.3
BYTES_OF_PIXEL = 3 * 8  # while it is drawn: three numbers of 64 bits
LOOKS = {'printed': glyphs.printed, 'street': glyphs.street, 'synthetic': glyphs.synthetic}


@functools.cache
def handwriting(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The 1797 real handwritten 8x8 digits of scikit-learn, smoothly enlarged: ``[1797, size, size]`` uint8, labels.

    Enlarged by cubic splines inside a dark border of an eighth of the image, white on black as MNIST.

    Reference: Alpaydin and Kaynak, "Optical recognition of handwritten digits", UCI repository, 1998.
    """
    # Imported where they are needed: they take a second that runs on other data need not pay.
    from scipy import ndimage
    from sklearn.datasets import load_digits

    bunch = load_digits()
    border = size // 8
    zoom = (size - 2 * border) / 8
    large = ndimage.zoom(bunch.images.astype(np.float32), (1, zoom, zoom), order=3, grid_mode=True, mode='nearest')
    large = np.pad(large, ((0, 0), (border, border), (border, border)))
    return np.round(np.clip(large / 16.0, 0, 1) * 255).astype(np.uint8), bunch.target.astype(np.int32)


def _draw_domain(domain: str, train: int, test: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """``train + test`` images ``[T, 32, 32, 3]`` and labels of one domain; fresh draws, or distinct real digits."""
    if domain in LOOKS:
        check_room(BYTES_OF_PIXEL * (train + test) * glyphs.SIZE**2, f'{domain} with {train + test} images')
        labels = rng.integers(10, size=train + test).astype(np.int32)
        return LOOKS[domain](labels, rng), labels
    images, labels = handwriting(glyphs.SIZE)
    if train + test > len(labels):
        raise UserError(
            f'`client_sizes` and `test_size` ask for {train + test} handwritten digits, but there are {len(labels)}'
        )
    chosen = rng.permutation(len(labels))[: train + test]
    return np.repeat(images[chosen][..., None], 3, axis=-1), labels[chosen]


def digit_domains(train: tuple[int, ...], test: int, seed: int) -> Pool:
    """Digits in four looks, 32x32x3 uint8: ``train[d]`` training and ``test`` test images of each of :data:`DOMAINS`.

    Handwritten digits are real; print, street numbers and noisy synthetic digits are drawn from matplotlib's fonts.
    Test images are disjoint from training: other handwritten digits, fresh draws of everything else.
    """
    drawn = [
        _draw_domain(d, n, test, np.random.default_rng([seed, k]))
        for k, (d, n) in enumerate(zip(DOMAINS, train, strict=True))
    ]
    held_out = np.concatenate([np.arange(n + test) >= n for n in train])
    site_of = np.repeat(np.arange(len(DOMAINS)), [n + test for n in train]).astype(np.int32)
    x, y = (np.concatenate([d[k] for d in drawn]) for k in (0, 1))
    return Pool(x, y, held_out, site_of, DOMAINS, DIGITS)


def handwritten_digits(seed: int) -> Pool:
    """Real handwritten digits as 28x28x1 uint8, 30 % of each class held out for testing.

    The shape is that of MNIST, so that the usual MLP of 784 inputs fits.
    """
    images, labels = handwriting(28)
    order = np.random.default_rng(seed).permutation(len(labels))
    held_out = np.zeros(len(labels), bool)
    for digit in range(10):
        of_digit = order[labels[order] == digit]
        held_out[of_digit[: round(HANDWRITTEN_TEST * len(of_digit))]] = True
    return Pool(images[..., None], labels, held_out, class_names=DIGITS)
