"""The chance lines of figures: what models score that learned nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedjax_fair.results import Run
from fedjax_fair.results.chance import chance_level
from fedjax_fair.viz import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

DASHES = ('--', '-.')


def chances(runs: Sequence[Run], kind: str | None = None, metric: str | None = None) -> list[tuple[str, float]]:
    """The names and percentages of the different chance levels of one kind of model, from the lowest to the highest.

    ``kind`` names the model, by default the one that clients of each run would use. Where there are several levels,
    their names say whose they are: clients' own models may each answer what is best for their client. They are not
    known of another ``metric`` than the score of a run.
    """
    found = set()
    for run in runs:
        shown = kind or run.headline
        level = chance_level(run, shown) if metric in (None, run.score) else None
        if level is not None:
            found.add((100 * level, 'own models' if run.differs(shown) else 'global model'))
    levels = sorted({level for level, _ in found})
    if len(levels) < 2:
        return [('chance', level) for level in levels]
    return [(f'chance, {whose}', level) for level, whose in sorted(found)]


def chance_lines(ax: Axes, levels: Sequence[tuple[str, float]], across: bool = False) -> list[tuple[Line2D, str]]:
    """Mark chance levels in percent; one that lies outside of the axis is told, and has no line.

    One level is told beside its line. Of several, the lines and their names are returned: they are for the legend,
    where they cover no data. ``across`` is for scores on the horizontal axis. The limits of the axis stay as they are.
    """
    low, high = ax.get_xlim() if across else ax.get_ylim()
    entries = []
    for (name, level), dash in zip(levels, itertools.cycle(DASHES), strict=False):
        look: dict[str, Any] = {'color': style.FAINT, 'linestyle': dash, 'linewidth': 1, 'zorder': 0}
        inside = low <= level <= high
        if inside:
            (ax.axvline if across else ax.axhline)(level, **look)
        entries.append((style.handle(**look), f'{name} {level:.1f} %{"" if inside else " lies outside"}'))
    (ax.set_xlim if across else ax.set_ylim)(low, high)
    if len(entries) != 1:
        return entries
    ((_, words),), spot = entries, levels[0][1] if low <= levels[0][1] <= high else low
    text: dict[str, Any] = {'fontsize': 7.5, 'color': style.SOFT, 'va': 'bottom'}
    if across:
        side = 'left' if spot <= (low + high) / 2 else 'right'
        ax.text(spot, 1.0, words, transform=ax.get_xaxis_transform(), ha=side, **text)
    else:
        ax.text(1.0, spot, words, transform=ax.get_yaxis_transform(), ha='right', **text)
    return []
