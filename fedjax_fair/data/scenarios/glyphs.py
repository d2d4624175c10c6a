"""Images of digits drawn from the fonts that come with matplotlib: masks, affine warps and three looks."""

from __future__ import annotations

import functools
import pathlib

import numpy as np

FONTS = (
    'DejaVuSans',
    'DejaVuSans-Bold',
    'DejaVuSans-Oblique',
    'DejaVuSansMono',
    'DejaVuSerif',
    'DejaVuSerif-BoldItalic',
    'STIXGeneral',
    'STIXGeneralBol',
    'STIXGeneralItalic',
    'cmr10',
    'cmss10',
    'cmtt10',
)
SIZE = 32  # pixels of a drawn image
CELL = 64  # pixels of a glyph's mask: twice the image, so that warps stay smooth


@functools.cache
def glyph_masks(font: str) -> np.ndarray:
    """Ink masks ``[10, CELL, CELL]`` in 0..1 of the ten digits of one of :data:`FONTS`, all of the same height."""
    # Imported where they are needed: runs on other data need not pay for them.
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

    path = pathlib.Path(matplotlib.get_data_path(), 'fonts', 'ttf', f'{font}.ttf')
    figure = Figure(figsize=(10, 1), dpi=CELL)
    canvas = FigureCanvasAgg(figure)
    for digit in range(10):
        x = (digit + 0.5) / 10
        figure.text(x, 0.5, str(digit), ha='center', va='center', fontproperties=FontProperties(fname=path, size=58))
    canvas.draw()
    ink = 1.0 - np.asarray(canvas.buffer_rgba())[..., 0].astype(np.float32) / 255.0
    return np.stack(np.split(ink, 10, axis=1))


def _blur(image: np.ndarray, sigma: tuple[float, ...], mode: str = 'reflect') -> np.ndarray:
    from scipy import ndimage

    return ndimage.gaussian_filter(image, sigma, mode=mode)


def warp(masks: np.ndarray, angle: np.ndarray, scale: np.ndarray, shear: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Rotate (radians), scale, shear and move (pixels, ``[B, 2]``) masks ``[B, CELL, CELL]`` to ``[B, SIZE, SIZE]``.

    Bilinear sampling at the inverse of the affine map; ``scale`` 1 makes a cell fill the image.
    """
    axis = np.arange(SIZE) - (SIZE - 1) / 2
    y, x = axis[None, :, None] - shift[:, 0, None, None], axis[None, None, :] - shift[:, 1, None, None]
    cos, sin = (f(angle)[:, None, None] for f in (np.cos, np.sin))
    ratio = (CELL / SIZE / scale)[:, None, None]
    row = (cos * y - sin * x) * ratio + (CELL - 1) / 2
    column = (sin * y + cos * x + shear[:, None, None] * y) * ratio + (CELL - 1) / 2
    return _bilinear(masks, row, column)


def _bilinear(masks: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Values of ``masks`` at real coordinates; zero outside."""
    padded = np.pad(masks, ((0, 0), (1, 1), (1, 1)))
    row, column = (np.clip(v + 1, 0, CELL + 0.999) for v in (row, column))
    r, c = row.astype(int), column.astype(int)
    fr, fc = row - r, column - c
    image = np.arange(len(masks))[:, None, None]
    top = padded[image, r, c] * (1 - fc) + padded[image, r, c + 1] * fc
    bottom = padded[image, r + 1, c] * (1 - fc) + padded[image, r + 1, c + 1] * fc
    return (top * (1 - fr) + bottom * fr).astype(np.float32)


def _ink(digits: np.ndarray, rng: np.random.Generator, turn: float, scales, move: float, offset=0.0) -> np.ndarray:
    """Warped masks ``[B, SIZE, SIZE, 1]`` of ``digits`` in random fonts; ``offset[B]`` moves them sideways."""
    n = len(digits)
    fonts = np.stack([glyph_masks(font) for font in FONTS])
    masks = fonts[rng.integers(len(FONTS), size=n), digits]
    shift = rng.uniform(-move, move, (n, 2)) + np.stack([np.zeros(n), np.broadcast_to(offset, n)], 1)
    angle = np.deg2rad(rng.uniform(-turn, turn, n))
    return warp(masks, angle, rng.uniform(scales[0], scales[1], n), rng.uniform(-0.15, 0.15, n), shift)[..., None]


def _cloth(n: int, grain: float, rng: np.random.Generator) -> np.ndarray:
    """Smooth random fields ``[n, SIZE, SIZE, 1]``, each scaled to 0..1; ``grain`` is the size of a blotch in pixels."""
    field = _blur(rng.normal(size=(n, SIZE, SIZE)), (0, grain, grain), 'wrap')
    low, high = (f(field, axis=(1, 2), keepdims=True) for f in (np.min, np.max))
    return ((field - low) / (high - low))[..., None]


def _to_uint8(image: np.ndarray) -> np.ndarray:
    return np.round(np.clip(image, 0.0, 1.0) * 255.0).astype(np.uint8)


def printed(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Clean print: dark ink on bright paper, nearly upright. ``[B]`` digits to ``[B, SIZE, SIZE, 3]`` uint8."""
    ink = _ink(digits, rng, turn=8, scales=(0.75, 1.0), move=2)
    paper, colour = (rng.uniform(low, high, (len(digits), 1, 1, 3)) for low, high in ((0.88, 1.0), (0.0, 0.25)))
    return _to_uint8(paper * (1 - ink) + colour * ink + rng.normal(0, 0.02, (*ink.shape[:3], 3)))


def street(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """House numbers: any two colours, uneven light, other digits at both edges, blur. Shapes as :func:`printed`."""
    n = len(digits)
    ink = _ink(digits, rng, turn=12, scales=(0.75, 1.15), move=2.5)
    for side in (-1, 1):
        neighbour = _ink(rng.integers(10, size=n), rng, 12, (0.75, 1.15), 2.5, side * rng.uniform(14, 19, n))
        ink = np.maximum(ink, neighbour * (rng.random((n, 1, 1, 1)) < 0.75))
    back = rng.uniform(0.15, 0.85, (n, 1, 1, 3))
    contrast = rng.uniform(0.18, 0.6, (n, 1, 1, 1)) * np.where(back.mean(-1, keepdims=True) > 0.5, -1, 1)
    front = back + contrast + rng.uniform(-0.12, 0.12, (n, 1, 1, 3))
    light = 1 + 0.5 * (_cloth(n, 7, rng) - 0.5)
    image = (back * (1 - ink) + front * ink) * light
    blurred = [_blur(i, (s, s, 0)) for i, s in zip(image, rng.uniform(0.3, 1.4, n), strict=True)]
    return _to_uint8(np.stack(blurred) + rng.normal(0, 0.03, image.shape))


def synthetic(digits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noisy synthetic: textured ground, weak contrast of either sign, strong noise. Shapes as :func:`printed`."""
    n = len(digits)
    ink = _ink(digits, rng, turn=15, scales=(0.8, 1.15), move=2)
    tint = rng.uniform(0.6, 1.0, (n, 1, 1, 3))
    sign = rng.choice([-1.0, 1.0], (n, 1, 1, 1))
    ground = 0.5 - 0.15 * sign + 0.3 * (_cloth(n, 2.0, rng) - 0.5)
    image = (ground + sign * rng.uniform(0.3, 0.6, (n, 1, 1, 1)) * ink) * tint
    return _to_uint8(image + rng.normal(0, 0.07, image.shape))
