"""Heat maps: a row per recipe, a column per site or class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedjax_fair.results.findings import Findings
from fedjax_fair.viz import style
from fedjax_fair.viz.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_COLUMNS = 40
LEAST_RANGE = 1.0  # points from the darkest colour to the lightest: equal numbers are no contrast
ROOM = 16  # more columns than these have no room for numbers
MAP = 'cividis'  # reads the same for the colour-blind
DARK, LIGHT = '#000001', '#fffffe'  # of numbers: they stand on the map's own colours, in light and dark pages alike


def site_map(found: Findings) -> Figure | None:
    """The score of every recipe on every group (or client); None where there are very many, or fewer than two."""
    units = found.units
    if not 2 <= len(units) <= MOST_COLUMNS:
        return None
    values = np.array([[getattr(level, 'estimate', None) for level in unit.levels] for unit in units], np.float64).T
    return heat_map([run.label for run in found.runs], [unit.name for unit in units], values)


def heat_map(rows: Sequence[str], columns: Sequence[str], values: np.ndarray) -> Figure:
    """Percentages ``[rows, columns]``; NaN is left empty."""
    with style.styled():
        room = len(columns) <= ROOM
        longest = min(style.LABEL_WIDTH, max(map(len, columns)))
        figure = new_figure(2.4 + (0.56 if room else 0.24) * len(columns), 0.8 + 0.08 * longest + 0.36 * len(rows))
        ax = figure.subplots()
        low, high = _colour_range(values[np.isfinite(values)])
        mesh = ax.pcolormesh(values, cmap=MAP, vmin=low, vmax=high, edgecolors='white', linewidth=1)
        for (row, column), value in np.ndenumerate(values):
            if room and np.isfinite(value):
                dark = (value - low) / (high - low) > 0.55
                text = f'{value:.1f}' if value < 99.95 else '100'
                place = (column + 0.5, row + 0.5)
                ax.text(*place, text, ha='center', va='center', fontsize=8, color=DARK if dark else LIGHT)
        turned = max(map(len, columns)) > 6
        ax.set_xticks(
            np.arange(len(columns)) + 0.5, columns, rotation=45 if turned else 0, ha='right' if turned else 'center'
        )
        ax.set_yticks(np.arange(len(rows)) + 0.5, [style.wrapped(row) for row in rows])
        ax.invert_yaxis()
        ax.grid(False)
        ax.spines[:].set_visible(False)
        figure.colorbar(mesh, ax=ax, label='%', pad=0.02)
        return figure


def _colour_range(known: np.ndarray) -> tuple[float, float]:
    """From the lowest to the highest percentage, a point apart at least, and inside what is possible.

    >>> _colour_range(np.array([40.0, 40.0])), _colour_range(np.array([100.0])), _colour_range(np.array([20.0, 90.0]))
    ((39.5, 40.5), (99.0, 100.0), (20.0, 90.0))
    """
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 100.0)
    if high - low >= LEAST_RANGE:
        return low, high
    low = min(max(0.0, (low + high - LEAST_RANGE) / 2), 100 - LEAST_RANGE)
    return low, low + LEAST_RANGE
