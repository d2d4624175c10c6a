"""The look of every figure: a colour-blind safe palette, light grids, legends outside the axes."""

from __future__ import annotations

import contextlib
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# Okabe and Ito's palette, ordered so that neighbours differ most; its yellow is too light for lines and left out.
PALETTE = ('#0072B2', '#D55E00', '#009E73', '#CC79A7', '#56B4E9', '#E69F00', '#5B5B5B')
DASHES = ('-', '--', ':', '-.')
MARKERS = ('o', 's', '^', 'D', 'v', 'p', '<', '>', 'h')
INK, SOFT, FAINT, GRID = '#1f2933', '#616e7c', '#9aa5b1', '#e4e7eb'
BAND, BOX_FACE = '#eef2f6', '#f1f4f8'  # behind a margin, inside boxes
LABEL_WIDTH = 20  # characters of a line of a name
ONE = (5.6, 4.2)  # inches of a figure with one panel: a half of the page
EDGE = 1.5  # percent beyond 0 and 100 that leave room for a marker
OUTLINE = '#ffd60a'  # of what a mask marks in an image

_THIN = {'color': FAINT, 'linewidth': 1.1}
BOX: dict[str, Any] = {
    'patch_artist': True,
    'showfliers': False,
    'boxprops': {'facecolor': BOX_FACE, 'edgecolor': FAINT},
    'whiskerprops': _THIN,
    'capprops': _THIN,
    'medianprops': {'color': INK, 'linewidth': 1.6},
    'zorder': 1,
}
DOT: dict[str, Any] = {'alpha': 0.85, 'linewidths': 0.4, 'edgecolors': 'white', 'zorder': 2}

_RC: dict[Any, Any] = {
    'font.family': 'DejaVu Sans',
    'font.size': 10,
    'text.color': INK,
    'axes.edgecolor': FAINT,
    'axes.labelcolor': INK,
    'axes.titlesize': 11,
    'axes.titleweight': 'bold',
    'axes.titlelocation': 'left',
    'axes.spines.top': False,
    'axes.spines.right': False,
    'axes.grid': True,
    'axes.axisbelow': True,
    'grid.color': GRID,
    'grid.linewidth': 0.8,
    'xtick.color': INK,
    'ytick.color': INK,
    'xtick.major.size': 0,
    'ytick.major.size': 0,
    'figure.constrained_layout.w_pad': 0.09,
    'figure.constrained_layout.h_pad': 0.08,
    'legend.frameon': False,
    'legend.handletextpad': 0.6,
    'lines.linewidth': 1.8,
    'lines.markersize': 4.5,
    'text.parse_math': False,  # names come from users: a dollar sign is a dollar sign
}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw inside this: the settings hold for one figure and leave the caller's alone."""
    import matplotlib

    with matplotlib.rc_context(_RC):
        yield


def log_scale(ax: Axes) -> None:
    """A logarithmic vertical axis with plain numbers: powers would be written in mathematics, which is not read."""
    ax.set_yscale('log')
    ax.yaxis.set_major_formatter('{x:g}')


def colour(place: int) -> str:
    """The colour of one of several lines or groups."""
    return PALETTE[place % len(PALETTE)]


def dash(place: int) -> Any:
    """Solid for as many lines as there are colours, then dashed, dotted, ..."""
    return DASHES[place // len(PALETTE) % len(DASHES)]


def grid(count: int, columns: int, size: tuple[float, float] = (3.3, 2.6), **kwargs) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels, at most ``columns`` in a row; one panel alone is drawn large."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(7.2, 4.2) if count == 1 else (size[0] * columns, size[1] * rows), layout='constrained')
    axes = figure.subplots(rows, columns, squeeze=False, **kwargs).flat
    for extra in axes[count:]:
        extra.remove()
    return figure, list(axes[:count])


def line(ax: Axes, x: Any, mean: Any, std: Any = None, place: int = 0, **look: Any) -> None:
    """A line of several, and where there are half widths the band that they make around it."""
    ax.plot(x, mean, color=colour(place), linestyle=dash(place), **look)
    if std is not None:
        ax.fill_between(x, mean - std, mean + std, color=colour(place), alpha=0.15, linewidth=0)


def points(ax: Axes, x: Any, mean: Any, std: Any, place: int = 0, **look: Any) -> None:
    """Points of one of several methods, joined by a line, with bars of their deviations."""
    ax.errorbar(x, mean, yerr=std, color=colour(place), marker='o', capsize=3, **look)


def name_ticks(ax: Axes, values: Sequence[float]) -> None:
    """Equal distances between values, whatever they are."""
    ax.set_xticks(range(len(values)), [f'{value:g}' for value in values])


def handle(**look: Any) -> Line2D:
    """The entry of a line in a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **look)


def legend_below(figure: Figure, handles: Sequence = (), labels: Sequence[str] = ()) -> None:
    """One legend under the panels, where it covers no data; the figure grows by the rows it needs."""
    if not handles:
        return
    widest = max(len(label) for label in labels) * 0.085 + 0.65  # inches of an entry
    columns = max(1, min(len(labels), int(figure.get_figwidth() / widest)))
    rows = math.ceil(len(labels) / columns)
    figure.set_figheight(figure.get_figheight() + 0.22 * rows)
    figure.legend(handles, labels, loc='outside lower center', ncols=columns)


def wrapped(label: str) -> str:
    """A recipe in lines of at most twenty characters, broken after a plus or a space where possible.

    >>> wrapped('scaffold+server_adam+qffl')
    'scaffold+server_adam\\n+qffl'
    """
    lines = ['']
    for part in re.split(r'(?=[+ ])', label):
        for piece in textwrap.wrap(part, LABEL_WIDTH, drop_whitespace=False) or ['']:
            if len(lines[-1] + piece) <= LABEL_WIDTH:
                lines[-1] += piece
            else:
                lines.append(piece.lstrip())
    return '\n'.join(lines)


def only_possible(ax: Axes, names: str = 'y') -> None:
    """Cut axes of percentages (``'x'``, ``'y'`` or ``'xy'``) at 0 and 100: no score lies beyond, wide intervals do.

    Beyond both ends there is room for half a marker, and no tick.
    """
    for name in names:
        low, high = getattr(ax, f'get_{name}lim')()
        getattr(ax, f'set_{name}lim')(max(low, -EDGE), min(high, 100 + EDGE))
        axis = getattr(ax, f'{name}axis')
        axis.set_ticks([tick for tick in axis.get_ticklocs() if max(low, 0) <= tick <= min(high, 100)])
