"""Image files for tests, of any name, size and mode."""

import pathlib

import numpy as np
from PIL import Image


def save(path: pathlib.Path, size: tuple[int, int] = (6, 6), mode: str = 'RGB', seed: int = 0) -> np.ndarray:
    """Write a random image of this (height, width) and give its pixels."""
    channels = {'RGB': (3,), 'RGBA': (4,), 'LA': (2,), 'CMYK': (4,)}.get(mode, ())
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, *channels), dtype=np.uint8)
    return save_pixels(path, pixels, mode)


def save_pixels(path: pathlib.Path, pixels: np.ndarray, mode: str | None = None) -> np.ndarray:
    """Write these pixels, in the mode that they look like or in the one that is named."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(pixels)
    (image if mode in (None, image.mode) else image.convert(mode)).save(path)
    return pixels


def save_all(root: pathlib.Path, names: str, count: int = 1) -> None:
    """Write ``count`` images into each of the folders that ``names`` lists."""
    for place, folder in enumerate(names.split()):
        for number in range(count):
            save(root / folder / f'{number}.png', seed=1000 * place + number)


def save_picture(path: pathlib.Path, value: int = 0, side: int = 8) -> None:
    """Write an RGB image of one grey value, by which it can be told from others."""
    save_pixels(path, np.full((side, side, 3), value, np.uint8))
