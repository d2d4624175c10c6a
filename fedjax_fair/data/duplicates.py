"""Equal and nearly equal images, found by hashes and by nearest neighbours of small copies, not pair by pair."""

from __future__ import annotations

import hashlib

import numpy as np

from fedjax_fair.data.resize import triangle_weights

SIDE = 16  # of the small copies
IMAGES_AT_ONCE = 256  # images converted to floats at once
COARSE = 4  # side of still smaller ones, among which neighbours are looked for; the others confirm
NEIGHBOURS = 8  # that are confirmed or not
LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # the brightness of red, green and blue, which JPEG keeps best
FLAT = 2 / 255  # contrast, as a share of the range of values, below which a small copy says nothing
ALIKE = 0.998  # correlation of small copies: above that of any two digits of MNIST, and below that of a copy in JPEG


def digests(x: np.ndarray) -> np.ndarray:
    """A hash ``[T]`` of each example: equal examples have equal hashes, and different examples in practice never."""
    hashed = (hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=8).digest() for row in x)
    return np.frombuffer(b''.join(hashed), np.uint64)


def constant(x: np.ndarray) -> np.ndarray:
    """Which examples ``[T]`` are images of one colour."""
    return np.array([image.ndim == 3 and bool((image == image[0, 0]).all()) for image in x], bool)


def nearly_equal(x: np.ndarray, among: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of images: rows of ``wanted`` that look like a row of ``among``, and the one each looks like most.

    Images are compared by small grey copies, regardless of brightness and contrast. This finds a copy that was
    compressed or resized, but not one that was cropped or rotated. Images almost without contrast are never similar.
    """
    from scipy.spatial import cKDTree

    copies, clear = small_copies(x)
    among, wanted = among[clear[among]], wanted[clear[wanted]]
    if not len(among) or not len(wanted):
        return np.zeros(0, int), np.zeros(0, int)
    near = _coarse(copies)
    reach = np.sqrt(2 * (1 - ALIKE))  # of copies of length 1 with such a correlation
    count = min(NEIGHBOURS, len(among))
    _, places = cKDTree(near[among]).query(near[wanted], count, distance_upper_bound=reach * 1.001)
    places = places.reshape(len(wanted), count)
    at = np.minimum(places, len(among) - 1)  # a neighbour that is missing has the number after the last
    correlation = np.einsum('td,tkd->tk', copies[wanted], copies[among[at]]) - 2.0 * (places == len(among))
    best = correlation.argmax(1)
    alike = np.flatnonzero(correlation[np.arange(len(wanted)), best] >= ALIKE)
    return wanted[alike], among[at[alike, best[alike]]]


def small_copies(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Grey copies ``[T, SIDE * SIDE]`` of mean 0 and length 1, and which of the images have any contrast."""
    rows, columns = (triangle_weights(length, SIDE).astype(np.float32) for length in x.shape[1:3])
    copies = np.zeros((len(x), SIDE * SIDE), np.float32)
    for start in range(0, len(x), IMAGES_AT_ONCE):
        part = x[start : start + IMAGES_AT_ONCE].astype(np.float32)
        grey = part @ LUMA if part.shape[-1] == 3 else part.mean(-1)
        copies[start : start + IMAGES_AT_ONCE] = (rows @ grey @ columns.T).reshape(len(grey), -1)
    values = 255.0 if x.dtype == np.uint8 else float(x.max() - x.min())
    copies -= copies.mean(1, keepdims=True)
    clear = copies.std(1) > FLAT * values
    return copies / np.maximum(np.linalg.norm(copies, axis=1, keepdims=True), 1e-12), clear


def _coarse(copies: np.ndarray) -> np.ndarray:
    """Project copies to ``COARSE * COARSE`` numbers; distances between copies never grow."""
    block = SIDE // COARSE
    return copies.reshape(-1, COARSE, block, COARSE, block).sum((2, 4)).reshape(len(copies), -1) / block
