"""Test images with the outlines of what they hold and of what a model sees in them."""

from __future__ import annotations

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import FedState
from fedjax_fair.data.federation import Federation

OVERLAYS = 'overlays.png'
ABOUT = 'test images with the outlines of the truth (white) and of the prediction (yellow)'
SETS, IMAGES = 8, 4  # at most this many test sets, and images of each


def draw_overlays(federation: Federation, predict, state: FedState, folder: pathlib.Path) -> dict[str, str]:
    """Write ``overlays.png``, a row per test set, a column per image; returns what was drawn, for the summary.

    ``predict(state, x)`` gives classes. Federations whose labels are not images have nothing to draw.
    """
    if federation.y.ndim != 3:
        return {}
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # imported here: most runs draw nothing
    from matplotlib.figure import Figure

    tests = federation.tests
    sets, count = min(SETS, len(tests.x)), min(IMAGES, int(tests.mask.sum(1).min()))
    said = np.asarray(jax.jit(predict)(state, jnp.asarray(tests.x[:sets, :count].reshape(-1, *tests.x.shape[2:]))))
    said = said.reshape(sets, count, *tests.y.shape[2:])
    figure = Figure(figsize=(1.2 + 1.7 * count, 1.75 * sets), layout='constrained')
    FigureCanvasAgg(figure)
    grid = figure.subplots(sets, count, squeeze=False)
    for row, name in enumerate(tests.names[:sets]):
        grid[row, 0].set_ylabel(name, rotation=0, ha='right', va='center', fontsize=9)
        for place, axes in enumerate(grid[row]):
            axes.set(xticks=[], yticks=[])
            axes.imshow(_visible(tests.x[row, place]))
            for classes, colour in ((tests.y[row, place], 'white'), (said[row, place], '#ffd60a')):
                levels = np.arange(classes.max()) + 0.5
                if len(levels):
                    axes.contour(classes, levels=levels, colors=[colour], linewidths=0.9)
    figure.savefig(folder / OVERLAYS, dpi=120, facecolor='white')
    return {OVERLAYS: ABOUT}


def _visible(image: np.ndarray) -> np.ndarray:
    """Three colours; floats are stretched to their own range."""
    image = image[..., :3] if image.shape[-1] >= 3 else np.repeat(image[..., :1], 3, axis=-1)
    if image.dtype == np.uint8:
        return image
    return (image - image.min()) / max(1e-12, float(image.max() - image.min()))
