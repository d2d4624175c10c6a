"""Learning curves of a set of runs of one scenario; every function returns a matplotlib Figure and needs no display."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from fedjax_fair.results import Run, score_of, series
from fedjax_fair.viz import style
from fedjax_fair.viz.canvas import new_figure
from fedjax_fair.viz.chance import chance_lines, chances

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Pick = Callable[[Run, dict[str, Any]], float | None]  # the number of a line of a run's history
MOST_PANELS = 12
FEW_POINTS = 6  # lines with at most this many points show them
FEWEST_SEEDS = 3  # that a band needs: the interval of two is wider than any figure
BAND = 'Bands are 95 % intervals of the mean over seeds; the test patients stay the same.'
SEED_LINES = 'Thin lines are single seeds.'
GLOBAL_MODEL = 'dotted: the global model'
GLOBAL_LOOK: dict[str, Any] = {'linewidth': 0.9, 'linestyle': ':'}


def accuracy_over_rounds(runs: Sequence[Run]) -> Figure:
    """The score of the headline's model over rounds: a panel per group and one of their mean, a line per run.

    Without groups (or with very many) the panels are the mean over clients and the worst tenth of them. Bands are 95 %
    intervals of the mean over seeds; of two seeds both are drawn instead. A thin dotted line is the global model of a
    run whose clients would use models of their own.
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
            _global_lines(ax, runs, pick)
            ax.set(title=title, xlabel='round', ylabel=f'{score_of(runs)} (%)' if place % columns == 0 else '')
            ax.tick_params(labelbottom=True)
        style.only_possible(axes[0])  # after all lines: panels share their limits
        chance = chance_lines(axes[0], chances(runs))
        own = any(run.differs(run.headline) for run in runs)
        shared = [(style.handle(color=style.SOFT, **GLOBAL_LOOK), GLOBAL_MODEL)] * own
        style.legend_below(figure, *zip(*(*_run_entries(runs), *shared, *chance), strict=True))
        return figure


def training_loss(runs: Sequence[Run]) -> Figure:
    """Mean local training loss over rounds, a line per run, with the bands of :func:`accuracy_over_rounds`.

    The axis is logarithmic when the losses span more than two decades.
    """
    with style.styled():
        figure = new_figure(*style.ONE)
        ax = figure.subplots()
        means = _lines(ax, runs, lambda run, line: line.get('train_loss'))
        ax.set(xlabel='round', ylabel='training loss')
        seen = np.concatenate([mean[np.isfinite(mean)] for mean in means])
        if seen.size and seen.min() > 0 and seen.max() > 100 * seen.min():
            style.log_scale(ax)
        style.legend_below(figure, *zip(*_run_entries(runs), strict=True))
        return figure


def band_words(runs: Sequence[Run]) -> str:
    """What the bands of learning curves are, for their captions."""
    counts = {run.repeats for run in runs}
    told = [BAND] if any(count >= FEWEST_SEEDS for count in counts) else []
    return ' '.join(told + ([SEED_LINES] if any(1 < count < FEWEST_SEEDS for count in counts) else []))


def mean_band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds ``[S, E]`` and half width of its 95 % interval, ``t(S - 1) sd / sqrt(S)``; NaN is left out.

    >>> mean, half = mean_band(np.array([[1.0], [2.0], [3.0]]))
    >>> mean.tolist(), half.round(3).tolist()
    ([2.0], [2.484])
    """
    defined = np.isfinite(values)
    count = defined.sum(0).astype(np.float64)
    with np.errstate(divide='ignore', invalid='ignore'):
        mean = np.where(defined, values, 0).sum(0) / count
        variance = np.where(defined, (values - mean) ** 2, 0).sum(0) / (count - 1)
        half = -stdtrit(np.maximum(count - 1, 1), 0.025) * np.sqrt(variance / count)
    return mean, half


def _lines(ax: Axes, runs: Sequence[Run], pick: Pick, scale: float = 1) -> list[np.ndarray]:
    """Draw the line of every run; returns the means."""
    from matplotlib.ticker import MaxNLocator

    means = []
    for place, run in enumerate(runs):
        rounds, values = series(run.history, functools.partial(pick, run))
        mean, half = mean_band(scale * values)
        means.append(mean)
        marker = 'o' if np.isfinite(mean).sum() <= FEW_POINTS else None
        style.line(ax, rounds, mean, half if len(values) >= FEWEST_SEEDS else None, place, marker=marker)
        for one in scale * values if 1 < len(values) < FEWEST_SEEDS else ():
            ax.plot(rounds, one, color=style.colour(place), linewidth=0.7, alpha=0.6)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    return means


def _global_lines(ax: Axes, runs: Sequence[Run], pick: Pick) -> None:
    """The mean of the global model, of runs whose clients use other models."""
    for place, run in enumerate(runs):
        if run.differs(run.headline):
            shared = dataclasses.replace(run, summary=run.summary | {'headline': 'global'})
            rounds, values = series(run.history, functools.partial(pick, shared))
            ax.plot(rounds, mean_band(100 * values)[0], color=style.colour(place), **GLOBAL_LOOK)


def _at(name: str) -> Pick:
    return lambda run, line: run.of_headline(line).get(name)


def _of_group(name: str) -> Pick:
    def pick(run: Run, line: dict[str, Any]) -> float | None:
        return run.of_headline(line)[f'group_{run.score}'][run.groups.index(name)] if name in run.groups else None

    return pick


def _run_entries(runs: Sequence[Run]) -> list[tuple[Line2D, str]]:
    looks = [{'color': style.colour(place), 'linestyle': style.dash(place)} for place in range(len(runs))]
    return [(style.handle(**look), run.label) for look, run in zip(looks, runs, strict=True)]
