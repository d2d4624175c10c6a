"""Figures, files and grids of images."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedjax_fair.publishing import published
from fedjax_fair.viz.style import OUTLINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this many inches; it needs no display."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout='constrained')


def save(figure: Figure, path: str | os.PathLike, dpi: int = 120) -> pathlib.Path:
    """Write a PNG, whatever the name of the file."""
    with published(path) as draft:
        figure.savefig(draft, format='png', dpi=dpi, facecolor='white', metadata={'Software': None})
    return pathlib.Path(path)


def image_grid(
    names: Sequence[str], columns: int, rows_each: int = 1, inches: float = 0.62
) -> tuple[Figure, np.ndarray]:
    """A figure of empty places for images, ``[rows, columns]``; every name stands before ``rows_each`` rows."""
    rows = len(names) * rows_each
    figure = new_figure(1.6 + inches * columns, 0.5 + inches * rows)
    figure.set_layout_engine('constrained', w_pad=0.01, h_pad=0.01, wspace=0.02, hspace=0.02)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.ravel():
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for axes, name in zip(grid[::rows_each, 0], names, strict=True):
        axes.set_ylabel(name, rotation=0, ha='right', va='center', fontsize=9)
    return figure, grid


def draw_image(axes: Axes, image: np.ndarray, mask: np.ndarray | None = None) -> None:
    """One image; floats are stretched to their range, channels after the third dropped, masks outlined."""
    image = image[..., :3] if image.shape[-1] >= 3 else image[..., 0]
    if image.dtype != np.uint8:
        image = (image - image.min()) / max(1e-12, float(image.max() - image.min()))
    axes.imshow(image, cmap='gray', vmin=0, vmax=255 if image.dtype == np.uint8 else 1)
    if mask is not None and 0 < (mask > 0).mean() < 1:
        axes.contour(mask > 0, [0.5], colors=OUTLINE, linewidths=0.5)
