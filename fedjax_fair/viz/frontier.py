"""Frontiers: the mean against the worst-served, a curve per hyper-parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedjax_fair.results import Run, score_of
from fedjax_fair.results.frontier import Interval, interval
from fedjax_fair.viz import style
from fedjax_fair.viz.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Curves = Mapping[str, Mapping[float, Run]]


def frontier_figure(runs_by_value: Curves, beside: Sequence[Run] = ()) -> Figure:
    """AVG against worst: a curve through the values of each hyper-parameter, ``{'qfedavg.q': {0.0: run, ...}}``.

    Numbers beside the dots are the values; bars are the errors of :func:`~fedjax_fair.results.frontier.interval`.
    ``beside`` are other runs, drawn as grey crosses. Up and to the right is better.
    """
    with style.styled():
        figure = new_figure(7.2, 4.6)
        ax = figure.subplots()
        for run in beside:
            _point(ax, run, run.label, style.FAINT, 'x')
        handles = [_curve(ax, runs, place) for place, runs in enumerate(runs_by_value.values())]
        shown = [run for runs in runs_by_value.values() for run in runs.values()]
        score, over = score_of(shown), 'group' if any(run.groups for run in shown) else 'client'
        ax.set(xlabel=f'{score} of the worst {over} (%)  ·  fairer to the right', ylabel=f'AVG {score} (%)')
        ax.set_title('better is up and right ↗', color=style.SOFT, fontsize=9, fontweight='normal')
        ax.margins(0.12)
        style.legend_below(figure, handles, list(runs_by_value))
        return figure


def _curve(ax: Axes, runs: Mapping[float, Run], place: int) -> Line2D:
    """Draw the values of one hyper-parameter; returns what the legend shows of it."""
    labels: dict[Any, list[str]] = {}  # values that give the same numbers share a label
    for value, run in runs.items():
        labels.setdefault(_place(run), []).append(f'{value:g}')
    for value, run in runs.items():
        same = labels[_place(run)]
        _point(ax, run, ', '.join(same) if same[0] == f'{value:g}' else '', style.colour(place), 'o')
    known = [(x.value, y.value) for x, y in map(_place, runs.values()) if x and y]
    across, up = zip(*known, strict=True) if known else ((), ())
    (line,) = ax.plot(across, up, color=style.colour(place), linestyle=style.dash(place), zorder=2)
    return line


def _place(run: Run) -> tuple[Interval | None, Interval | None]:
    return interval(run, 'worst'), interval(run, 'avg')


def _point(ax: Axes, run: Run, label: str, colour: str, marker: str) -> None:
    x, y = _place(run)
    if x is None or y is None:
        return
    look: dict[str, Any] = {'color': colour, 'marker': marker, 'elinewidth': 1, 'capsize': 2, 'zorder': 3}
    ax.errorbar(x.value, y.value, xerr=x.error, yerr=y.error, **look)
    ax.annotate(label, (x.value, y.value), xytext=(5, 5), textcoords='offset points', fontsize=8, color=colour)
