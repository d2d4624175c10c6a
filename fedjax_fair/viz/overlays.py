"""Test images with the outlines of what they hold and of what a model sees in them."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import FedState
from fedjax_fair.viz.canvas import draw_image, image_grid, save
from fedjax_fair.viz.style import OUTLINE

if TYPE_CHECKING:
    from fedjax_fair.data import Federation

OVERLAYS = 'overlays.png'
ABOUT = 'test images with the outlines of the truth (white) and of the prediction (yellow)'
SETS, IMAGES = 8, 4  # at most this many test sets, and images of each


def draw_overlays(federation: Federation, predict, state: FedState, folder: pathlib.Path | None) -> dict[str, str]:
    """Write ``overlays.png``, a row per test set, a column per image; returns what was drawn, for the summary.

    ``predict(state, x)`` gives classes. Federations whose labels are not images have nothing to draw. Without a
    ``folder`` nothing is written: another process does it.
    """
    if federation.y.ndim != 3:
        return {}
    tests = federation.tests
    sets, count = min(SETS, len(tests.x)), min(IMAGES, int(tests.mask.sum(1).min()))
    said = np.asarray(jax.jit(predict)(state, jnp.asarray(tests.x[:sets, :count].reshape(-1, *tests.x.shape[2:]))))
    said = said.reshape(sets, count, *tests.y.shape[2:])
    figure, grid = image_grid(tests.names[:sets], count, inches=1.7)
    for row in range(sets):
        for place, axes in enumerate(grid[row]):
            draw_image(axes, tests.x[row, place])
            for classes, colour in ((tests.y[row, place], 'white'), (said[row, place], OUTLINE)):
                levels = np.arange(classes.max()) + 0.5
                if len(levels):
                    axes.contour(classes, levels=levels, colors=[colour], linewidths=0.9)
    if folder is not None:
        save(figure, folder / OVERLAYS)
    return {OVERLAYS: ABOUT}
