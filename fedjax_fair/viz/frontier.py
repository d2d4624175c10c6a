"""Frontiers: the mean against the worst-served, a curve per hyper-parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedjax_fair.results import Run, score_of
from fedjax_fair.results.findings import Findings
from fedjax_fair.results.frontier import Interval, from_level, interval
from fedjax_fair.viz import style
from fedjax_fair.viz.canvas import new_figure
from fedjax_fair.viz.chance import chance_lines, chances

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Curves = Mapping[str, Mapping[float, Run]]
Spot = tuple[Interval | None, Interval | None]  # worst and AVG


def frontier_figure(
    runs_by_value: Curves, beside: Sequence[Run] = (), metric: str | None = None, found: Sequence[Findings] = ()
) -> Figure:
    """AVG against raw worst: a curve through the values of each hyper-parameter, ``{'qfedavg.q': {0.0: run, ...}}``.

    Numbers beside the dots are the values; bars are the errors of :func:`~fedjax_fair.results.frontier.interval`.
    ``beside`` are other runs, drawn as grey crosses; what was ``found`` of them is not computed again. Up and to the
    right is better. Numbers are of the score that fairness is about, or of another ``metric``.
    """
    with style.styled():
        figure = new_figure(*style.ONE)
        ax = figure.subplots()
        crosses: dict[Spot, list[str]] = {}  # runs that give the same numbers share a label
        for run in beside:
            crosses.setdefault(_found_place(run, found) or _place(run, metric), []).append(run.label)
        for spot, labels in crosses.items():
            _point(ax, spot, ', '.join(labels), style.SOFT, 'x')
        handles = [_curve(ax, runs, place, metric) for place, runs in enumerate(runs_by_value.values())]
        shown = [run for runs in runs_by_value.values() for run in runs.values()]
        score, over = score_of(shown, metric), 'group' if any(run.groups for run in shown) else 'client'
        ax.set(xlabel=f'raw worst {over}: {score} (%)  ·  fairer to the right', ylabel=f'AVG {score} (%)')
        ax.set_title('better is up and right ↗', color=style.SOFT, fontsize=9, fontweight='normal')
        ax.margins(0.12)
        style.only_possible(ax, 'xy')
        chance = chance_lines(ax, chances([*shown, *beside], metric=metric))
        style.legend_below(figure, *zip(*(*zip(handles, runs_by_value, strict=True), *chance), strict=True))
        return figure


def _curve(ax: Axes, runs: Mapping[float, Run], place: int, metric: str | None) -> Line2D:
    """Draw the values of one hyper-parameter; returns what the legend shows of it."""
    places = {value: _place(run, metric) for value, run in runs.items()}
    labels: dict[Any, list[str]] = {}  # values that give the same numbers share a label
    for value, spot in places.items():
        labels.setdefault(spot, []).append(f'{value:g}')
    for value, spot in places.items():
        same = labels[spot]
        _point(ax, spot, ', '.join(same) if same[0] == f'{value:g}' else '', style.colour(place), 'o')
    known = [(x.value, y.value) for x, y in places.values() if x and y]
    across, up = zip(*known, strict=True) if known else ((), ())
    (line,) = ax.plot(across, up, color=style.colour(place), linestyle=style.dash(place), zorder=2)
    return line


def _place(run: Run, metric: str | None) -> Spot:
    return interval(run, 'worst', metric), interval(run, 'avg', metric)


def _found_place(run: Run, found: Sequence[Findings]) -> Spot | None:
    """Where findings about this run place it; one seed has no interval here, as in :func:`_place`."""
    for one in (one for one in found if run in one.runs):
        levels = (one.measures[key].levels[one.runs.index(run)] for key in ('worst', 'avg') if key in one.measures)
        spot = tuple(from_level(level, run.repeats > 1) for level in levels)
        if len(spot) == 2:
            return spot
    return None


def _point(ax: Axes, spot: Spot, label: str, colour: str, marker: str) -> None:
    x, y = spot
    if x is None or y is None:
        return
    look: dict[str, Any] = {'color': colour, 'marker': marker, 'elinewidth': 1, 'capsize': 2, 'zorder': 3}
    ax.errorbar(x.value, y.value, xerr=_bars(x), yerr=_bars(y), **look)
    ax.annotate(label, (x.value, y.value), xytext=(5, 5), textcoords='offset points', fontsize=8, color=colour)


def _bars(found: Interval) -> list[list[float]] | None:
    """How far the bars of a point reach down and up; None: it has none."""
    return None if found.lo is None or found.hi is None else [[found.value - found.lo], [found.hi - found.value]]
