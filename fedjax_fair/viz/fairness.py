"""Pictures of fairness: the mean against the worst, and the score of every client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import fdtri

from fedjax_fair import stats
from fedjax_fair.results import Run, score_of
from fedjax_fair.results.chance import unlearned
from fedjax_fair.results.comparison import ALL
from fedjax_fair.results.findings import Findings, findings, global_levels
from fedjax_fair.results.measures import POINTS, Level
from fedjax_fair.stats.pareto_front import ellipse
from fedjax_fair.stats.sample import Sample
from fedjax_fair.viz import style
from fedjax_fair.viz.canvas import new_figure
from fedjax_fair.viz.chance import chance_lines, chances

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Spot = tuple[float, float]  # worst and AVG
FEWEST_SEEDS = 3  # that an ellipse needs: that of two is larger than any figure
GLOBAL_MODEL = 'hollow: the global model'
LEFT_OUT = 'left out of the statistics'
MOST_BARS = 60  # clients with error bars; those of more would hide each other


def fairness_plane(runs: Sequence[Run], found: Findings | None = None) -> Figure:
    """AVG against the raw worst score, one point per run with its 95 % ellipse: new seeds and new patients.

    Intervals are known of the raw worst score alone; tables show the corrected one beside it. A hollow marker is the
    global model of a run whose clients would use models of their own. Up and to the right is better. The dotted line
    runs through the runs that no other beats in both, and the legend says with which chance a run is on that front.
    Models that did not learn are on no front. Without predictions there are points alone.
    """
    found = found or findings(runs)
    with style.styled():
        figure = new_figure(*style.ONE)
        ax = figure.subplots()
        places = {place: spot for place in range(len(found.runs)) if (spot := _spot(found, place)) is not None}
        for place, spot in places.items():
            ax.plot(*spot, **_point_style(place), zorder=3)
        hollow = _global_spots(found)
        for place, spot in hollow.items():
            ax.plot(*spot, **_hollow(style.colour(place), place), zorder=4)
        for place, outline in _ellipses(found).items():
            ax.plot(*outline, color=style.colour(place), linewidth=1, alpha=0.8, zorder=2)
            ax.fill(*outline, color=style.colour(place), alpha=0.07, linewidth=0, zorder=1)
        learned = [spot for place, spot in places.items() if _learned(found.runs[place])]
        if len(learned) > 1:
            spots = np.array(learned)
            front = spots[_not_beaten(spots)]
            front = front[np.argsort(front[:, 0])]
            ax.plot(front[:, 0], front[:, 1], ':', drawstyle='steps-pre', color=style.FAINT, zorder=1)
        ax.margins(0.12)
        style.only_possible(ax, 'xy')
        chance = chance_lines(ax, chances(found.runs, metric=found.metric))
        score, over = found.score, found.over.removesuffix('s')
        ax.set(xlabel=f'raw worst {over}: {score} (%)  ·  fairer to the right', ylabel=f'AVG {score} (%)')
        ax.set_title('better is up and right ↗', color=style.SOFT, fontsize=9, fontweight='normal')
        shares = _shares(found)
        points = [
            (style.handle(**_point_style(place)), found.runs[place].label + shares.get(place, '')) for place in places
        ]
        shared = [(style.handle(**_hollow(style.SOFT)), GLOBAL_MODEL)] if hollow else []
        style.legend_below(figure, *zip(*(*points, *shared, *chance), strict=True))
        return figure


def _spot(found: Findings, place: int) -> Spot | None:
    """Raw worst and AVG of a run."""
    return _both({key: one.levels[place] for key, one in found.measures.items() if key in ('worst', 'avg')})


def _global_spots(found: Findings) -> dict[int, Spot]:
    """Raw worst and AVG of the global model, of runs whose clients use other models."""
    own = [place for place, run in enumerate(found.runs) if run.differs(run.headline)]
    spots = {place: _both(global_levels(found.runs[place], found.metric)) for place in own}
    return {place: spot for place, spot in spots.items() if spot is not None}


def _both(levels: Mapping[str, Level | None]) -> Spot | None:
    """Worst and AVG as they were measured."""
    worst, avg = (getattr(levels.get(key), 'estimate', None) for key in ('worst', 'avg'))
    return None if worst is None or avg is None else (worst, avg)


def _ellipses(found: Findings) -> dict[int, np.ndarray]:
    """``[2, T]`` by run: where AVG and worst lie with 95 %, ``radius^2 = 2 F(2, S - 1)``."""
    comparison = found.comparison
    if comparison is None or len(comparison.seeds) < FEWEST_SEEDS or 'worst' not in comparison.analysis.outcomes:
        return {}
    worst, avg = (comparison.analysis.outcomes[name] for name in ('worst', 'avg'))
    radius = np.sqrt(2 * fdtri(2, len(comparison.seeds) - 1, 0.95))
    angle = np.linspace(0, 2 * np.pi, 73)
    circle = radius * np.stack([np.cos(angle), np.sin(angle)])
    outlines = {}
    for own, place in enumerate(found.places):
        values, vectors = np.linalg.eigh(ellipse(worst, avg, own))
        centre = np.array([worst.values[own].mean(), avg.values[own].mean()])
        shape = vectors * np.sqrt(np.maximum(0, values))
        outlines[place] = POINTS * (centre[:, None] + shape @ circle)
    return outlines


def _shares(found: Findings) -> dict[int, str]:
    told = {place: f' ({unlearned(run, run.headline)})' for place, run in enumerate(found.runs) if not _learned(run)}
    comparison = found.comparison
    among = [own for own, place in enumerate(found.places) if place not in told]
    if comparison is None or len(among) < 2 or 'worst' not in comparison.analysis.outcomes:
        return told
    outcomes = comparison.analysis.outcomes
    shares = stats.front_shares(outcomes['avg'], outcomes['worst'], among=among)
    return told | {found.places[own]: f' (front {100 * share:.0f} %)' for own, share in zip(among, shares, strict=True)}


def _learned(run: Run) -> bool:
    """Whether a model is above chance: one that answers alike everywhere may have the best worst score."""
    return not unlearned(run, run.headline)


def client_distribution(runs: Sequence[Run], kind: str | None = None, found: Findings | None = None) -> Figure:
    """The score of every client, a row per run: box of the quartiles, a dot per client, colour by group.

    ``kind`` names the model; by default it is the one that clients of each run would use.
    The bar of a dot is one standard error that the choice of its test patients causes, where ``found`` knows it.
    Clients that are left out of the statistics are grey, and in no box.
    """
    shown = [(run, result) for run in runs if (result := run.result(kind)) is not None]
    groups = list(dict.fromkeys(group for run, _ in shown for group in run.groups))
    groups = groups if len(groups) <= len(style.PALETTE) else []
    metric = None if found is None else found.metric
    with style.styled():
        figure = new_figure(6.2, 1.1 + 0.62 * len(shown))
        ax = figure.subplots()
        left_out = False
        for row, (run, result) in enumerate(shown):
            score = 100 * np.array(result[f'client_{run.score}']['mean'], np.float64)
            if metric is not None:
                score = client_scores(found, run, len(score))
            errors = client_errors(found, run, len(score)) if kind is None else None
            judged = judged_clients(found, run, len(score))
            colours = np.where(judged, _client_colours(run, groups, len(score)), style.FAINT).tolist()
            left_out |= bool(np.isfinite(score[~judged]).any())
            _client_row(ax, row, score, judged, colours, errors)
        about = f' of the {kind} model' if kind else ''
        ax.set(xlabel=f'client {score_of(runs, metric)}{about} (%)', ylim=(len(shown) - 0.45, -0.55))
        ax.set_yticks(range(len(shown)), [style.wrapped(run.label) for run, _ in shown])
        ax.grid(False, axis='y')
        style.only_possible(ax, 'x')
        chance = chance_lines(ax, chances([run for run, _ in shown], kind, metric), across=True)
        names = [(style.colour(k), group) for k, group in enumerate(groups)] + [(style.FAINT, LEFT_OUT)] * left_out
        dots = [(style.handle(color=colour, marker='o', linestyle='none'), name) for colour, name in names]
        style.legend_below(figure, *zip(*(*dots, *chance), strict=True))
        return figure


def client_errors(found: Findings | None, run: Run, count: int) -> np.ndarray | None:
    """``sqrt(v)`` of every client, in points, NaN where unknown: what the choice of its test patients causes."""
    if count > MOST_BARS or _compared_place(found, run) is None:
        return None
    return _of_clients(found, run, count, lambda sample, place: POINTS * np.sqrt(sample.variances[place].mean(0)))


def client_scores(found: Findings | None, run: Run, count: int) -> np.ndarray:
    """The score of every client that ``found`` is about, in percent: the mean over seeds, NaN where unknown."""
    return _of_clients(found, run, count, lambda sample, place: POINTS * sample.scores[place].mean(0))


def judged_clients(found: Findings | None, run: Run, count: int) -> np.ndarray:
    """Which clients the statistics are about: all, where there are none."""
    if _compared_place(found, run) is None:
        return np.ones(count, bool)
    return np.isfinite(_of_clients(found, run, count, lambda sample, place: np.zeros(len(sample.names))))


def _of_clients(
    found: Findings | None, run: Run, count: int, numbers: Callable[[Sample, int], np.ndarray]
) -> np.ndarray:
    """A number of every client, NaN where it is left out; clients that statistics take for one share theirs."""
    place, values = _compared_place(found, run), np.full(count, np.nan)
    if found is None or found.comparison is None or place is None:
        return values
    sample = found.comparison.clients.sample
    everybody = slice(None) if sample.names == (ALL,) else sample.kept
    values[everybody] = numbers(sample, place)
    return values


def _compared_place(found: Findings | None, run: Run) -> int | None:
    """The place of a run among those that are compared; several data seeds have other clients each."""
    if found is None or found.comparison is None or len(run.units) > 1:
        return None
    return next((number for number, place in enumerate(found.places) if found.runs[place] is run), None)


def _client_row(
    ax: Axes, row: int, values: np.ndarray, judged: np.ndarray, colours: Sequence[str], errors: np.ndarray | None = None
) -> None:
    known = values[np.isfinite(values) & judged]
    ax.boxplot(known, positions=[row], orientation='horizontal', widths=0.62, manage_ticks=False, **style.BOX)
    # The same heights in every row: a client can be followed from run to run.
    heights = row + np.linspace(-0.24, 0.24, len(values)) if errors is not None else _scattered(row, len(values))
    if errors is not None:
        ax.hlines(heights, values - errors, values + errors, colors=colours, linewidth=0.9, alpha=0.7, zorder=2)
    ax.scatter(values, heights, s=20 if len(values) <= 40 else 12, c=colours, **style.DOT)


def _scattered(row: int, count: int) -> np.ndarray:
    return row + np.random.default_rng(0).uniform(-0.2, 0.2, count)


def _client_colours(run: Run, groups: Sequence[str], count: int) -> list[str]:
    group_of = run.summary.get('group_of')
    if group_of is None or not groups:
        return [style.PALETTE[0]] * count
    return [style.colour(groups.index(run.groups[group])) for group in group_of]


def _not_beaten(spots: np.ndarray) -> np.ndarray:
    """Points ``[N, 2]`` for which no other is as high in both and higher in one."""
    as_good = np.all(spots[None] >= spots[:, None], -1)
    better = np.any(spots[None] > spots[:, None], -1)
    return np.logical_not(np.any(as_good & better, 1))


def _hollow(colour: str, place: int = 0) -> dict[str, Any]:
    look = {'color': colour, 'markerfacecolor': 'none', 'markeredgecolor': colour, 'markeredgewidth': 1.5}
    return _point_style(place) | look


def _point_style(place: int) -> dict[str, Any]:
    marker = style.MARKERS[place % len(style.MARKERS)]
    look: dict[str, Any] = {
        'color': style.colour(place),
        'markersize': 9,
        'markeredgecolor': 'white',
        'markeredgewidth': 0.8,
    }
    return look | {'marker': marker, 'linestyle': 'none'}
