"""Arrays of one's own in an npz file: a table of images at three sites that tests change."""

import pathlib

import numpy as np

RNG = np.random.default_rng(0)


def images(count, *shape):
    return RNG.integers(0, 256, size=(count, *shape)).astype(np.uint8)


def save(path: pathlib.Path, **arrays) -> str:
    np.savez(path, **arrays)
    return str(path)


def of_three_sites(folder: pathlib.Path):
    """A path and 60 grey images of three classes at sites 0, 1, 2, every fourth for testing."""
    rows = np.arange(60)
    return {
        'path': folder / 'sites.npz',
        'images': images(60, 8, 8),
        'labels': (rows % 3).astype(np.int64),
        'site': rows // 20,
        'is_test': (rows % 4 == 0).astype(int),
    }
