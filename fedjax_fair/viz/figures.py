"""Figures of a set of runs of one scenario; every function returns a matplotlib Figure and needs no display."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_fair.results import Curve, Run, curve, score_of
from fedjax_fair.viz import style
from fedjax_fair.viz.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Pick = Callable[[Run, dict[str, Any]], float | None]  # the number of a line of a run's history
MOST_PANELS = 12
FEW_POINTS = 6  # lines with at most this many points show them


def accuracy_over_rounds(runs: Sequence[Run]) -> Figure:
    """The score of the headline's model over rounds: a panel per group and one of their mean, a line per run.

    Without groups (or with very many) the panels are the mean over clients and the worst tenth of them. The band is one
    standard deviation over seeds.
    """
    groups = list(dict.fromkeys(group for run in runs for group in run.groups))
    if 0 < len(groups) < MOST_PANELS:
        panels = {'Average of groups': _at('avg')} | {group: _of_group(group) for group in groups}
    else:
        panels = {'Mean over clients': _at('client_mean'), 'Worst 10 % of clients': _at('client_worst_10pct')}
    with style.styled():
        size = (4.2, 3.2) if len(panels) < 3 else (3.3, 2.6)
        columns = 3 if len(panels) in (3, 5, 6, 9) else 4
        figure, axes = style.grid(len(panels), columns, size, sharex=True, sharey=True)
        for place, (ax, (title, pick)) in enumerate(zip(axes, panels.items(), strict=True)):
            _lines(ax, runs, pick, scale=100)
            ax.set(title=title, xlabel='round', ylabel=f'{score_of(runs)} (%)' if place % columns == 0 else '')
            ax.tick_params(labelbottom=True)
        style.legend_below(figure, *_run_handles(runs))
        return figure


def training_loss(runs: Sequence[Run]) -> Figure:
    """Mean local training loss over rounds, a line per run, the band being one standard deviation over seeds.

    The axis is logarithmic when the losses span more than two decades.
    """
    with style.styled():
        figure, (ax,) = style.grid(1, 1)
        curves = _lines(ax, runs, lambda run, line: line.get('train_loss'))
        ax.set(xlabel='round', ylabel='training loss')
        seen = np.concatenate([c.mean[np.isfinite(c.mean)] for c in curves])
        if seen.size and seen.min() > 0 and seen.max() > 100 * seen.min():
            ax.set_yscale('log')
        style.legend_below(figure, *_run_handles(runs))
        return figure


def client_distribution(runs: Sequence[Run], kind: str | None = None) -> Figure:
    """The final score of every client, a row per run: box of the quartiles, a dot per client, colour by group.

    ``kind`` names the model; by default the headline's of every run.
    """
    shown = [(run, result) for run in runs if (result := run.result(kind)) is not None]
    groups = list(dict.fromkeys(group for run, _ in shown for group in run.groups))
    groups = groups if len(groups) <= len(style.PALETTE) else []
    with style.styled():
        figure = new_figure(7.6, 1.1 + 0.52 * len(shown))
        ax = figure.subplots()
        for row, (run, result) in enumerate(shown):
            score = 100 * np.array(result[f'client_{run.score}']['mean'], np.float64)
            _client_row(ax, row, score, _client_colours(run, groups, len(score)))
        about = f' of the {kind} model' if kind else ''
        ax.set(xlabel=f'client {score_of(runs)}{about} (%)', ylim=(len(shown) - 0.45, -0.55))
        ax.set_yticks(range(len(shown)), [run.label for run, _ in shown])
        ax.grid(False, axis='y')
        handles = [_handle(color=style.colour(place), marker='o', linestyle='none') for place in range(len(groups))]
        style.legend_below(figure, handles, groups)
        return figure


def fairness_plane(runs: Sequence[Run], kind: str | None = None) -> Figure:
    """The score (AVG) against unfairness (STD), one point per run with bars of one standard deviation over seeds.

    They are those of the headline's model, or of the ``kind`` that is named.

    Up and to the left is better; the dotted line runs through the runs that no other run beats in both.
    """
    shown = [run for run in runs if _plane_point(run, kind) is not None]
    with style.styled():
        figure, (ax,) = style.grid(1, 1)
        figure.set_size_inches(7.2, 4.6)
        points = np.array([_plane_point(run, kind) for run in shown]).reshape(-1, 4)
        for run, (x, y, x_error, y_error) in zip(shown, points, strict=True):
            place = runs.index(run)
            bars = {'xerr': x_error, 'yerr': y_error} if run.repeats > 1 else {}
            ax.errorbar(x, y, **bars, fmt='none', ecolor=style.colour(place), elinewidth=1.2, capsize=3, zorder=2)
            ax.plot(x, y, **_point_style(place), zorder=3)
        if len(shown) > 1:
            front = points[_not_beaten(points[:, 0], points[:, 1])]
            front = front[np.argsort(front[:, 0])]
            ax.plot(front[:, 0], front[:, 1], ':', drawstyle='steps-post', color=style.FAINT, zorder=1)
        ax.margins(0.12)
        over = 'groups' if any(run.groups for run in shown) else 'clients'
        score = score_of(runs)
        ax.set(xlabel=f'STD of {score} over {over} (points)  ·  fairer to the left', ylabel=f'AVG {score} (%)')
        ax.set_title('better is up and left ↖', color=style.SOFT, fontsize=9, fontweight='normal')
        handles = [_handle(**_point_style(runs.index(run))) for run in shown]
        style.legend_below(figure, handles, [run.label for run in shown])
        return figure


def _lines(ax: Axes, runs: Sequence[Run], pick: Pick, scale: float = 1) -> list[Curve]:
    from matplotlib.ticker import MaxNLocator

    curves = [curve(run.history, functools.partial(pick, run)) for run in runs]
    for place, (run, (rounds, mean, std)) in enumerate(zip(runs, curves, strict=True)):
        marker = 'o' if np.isfinite(mean).sum() <= FEW_POINTS else None
        band = scale * std if run.repeats > 1 else None
        style.line(ax, rounds, scale * mean, band, place, marker=marker)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    return curves


def _at(name: str) -> Pick:
    return lambda run, line: run.of_headline(line).get(name)


def _of_group(name: str) -> Pick:
    def pick(run: Run, line: dict[str, Any]) -> float | None:
        return run.of_headline(line)[f'group_{run.score}'][run.groups.index(name)] if name in run.groups else None

    return pick


def _client_row(ax: Axes, row: int, values: np.ndarray, colours: Sequence[str]) -> None:
    known = values[np.isfinite(values)]
    ax.boxplot(known, positions=[row], orientation='horizontal', widths=0.62, manage_ticks=False, **style.BOX)
    # The same heights in every row: a client can be followed from run to run.
    heights = row + np.random.default_rng(0).uniform(-0.2, 0.2, len(values))
    ax.scatter(values, heights, s=20 if len(values) <= 40 else 12, c=colours, **style.DOT)


def _client_colours(run: Run, groups: Sequence[str], count: int) -> list[str]:
    group_of = run.summary.get('group_of')
    if group_of is None or not groups:
        return [style.PALETTE[0]] * count
    return [style.colour(groups.index(run.groups[group])) for group in group_of]


def _plane_point(run: Run, kind: str | None) -> tuple[float, ...] | None:
    result = run.result(kind)
    if result is None or result['avg']['mean'] is None or result['std']['mean'] is None:
        return None
    return tuple(100 * result[name][key] for key in ('mean', 'std') for name in ('std', 'avg'))


def _not_beaten(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Points for which no other has both a lower ``low`` and a higher ``high`` (one of them may be equal)."""
    as_good = (low[None, :] <= low[:, None]) & (high[None, :] >= high[:, None])
    better = (low[None, :] < low[:, None]) | (high[None, :] > high[:, None])
    return np.logical_not((as_good & better).any(1))


def _point_style(place: int) -> dict[str, Any]:
    marker = style.MARKERS[place % len(style.MARKERS)]
    look: dict[str, Any] = {
        'color': style.colour(place),
        'markersize': 9,
        'markeredgecolor': 'white',
        'markeredgewidth': 0.8,
    }
    return look | {'marker': marker, 'linestyle': 'none'}


def _handle(**look: Any) -> Line2D:
    """The entry of a line in a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **look)


def _run_handles(runs: Sequence[Run]) -> tuple[list[Line2D], list[str]]:
    handles = [_handle(color=style.colour(i), linestyle=style.dash(i)) for i in range(len(runs))]
    return handles, [run.label for run in runs]
