"""Small image files for tests."""

import pathlib

import numpy as np
from PIL import Image


def save_picture(path: pathlib.Path, value: int = 0, side: int = 8) -> None:
    """An RGB image of one grey value, in folders that are made where needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((side, side, 3), value, np.uint8)).save(path)
