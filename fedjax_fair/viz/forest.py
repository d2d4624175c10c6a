"""Forest plots: every recipe's difference with the baseline, with its intervals and where its error comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from fedjax_fair.results.findings import Findings
from fedjax_fair.results.measures import NO_SPREAD, TOO_FEW, Difference
from fedjax_fair.stats.verdicts import BETTER, IDENTICAL, NO_DIFFERENCE, SLIGHTLY_BETTER, SLIGHTLY_WORSE, WORSE
from fedjax_fair.viz import style
from fedjax_fair.viz.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UP, DOWN, SAME, OPEN = style.PALETTE[2], style.PALETTE[1], style.PALETTE[0], style.FAINT
COLOURS = {  # all other verdicts: OPEN
    BETTER: UP, SLIGHTLY_BETTER: UP, WORSE: DOWN, SLIGHTLY_WORSE: DOWN, NO_DIFFERENCE: SAME, IDENTICAL: SAME,
}  # fmt: skip
LEGEND = {UP: 'better', DOWN: 'worse', SAME: 'no difference above the margin', OPEN: 'undecided'}


def forest(found: Findings, key: str = 'avg') -> Figure:
    """Differences with the baseline in one statistic: a point, a thick 90 % and a thin 95 % bar for every recipe.

    The band is the margin. The bars on the right show which share of the variance seeds cause (left part) and which
    the test patients (right part): more seeds shrink the former alone. Recipes that have no spread beyond the noise of
    tests are left out of the figure of spreads.
    """
    measure = found.measures[key]
    rows = [(run.label, one) for run, one in zip(found.runs, measure.differences, strict=True) if is_drawn(one)]
    with style.styled():
        figure = new_figure(5.6, 1.5 + 0.36 * max(1, len(rows)))
        ax, shares = figure.subplots(1, 2, sharey=True, width_ratios=[6, 1])
        ax.axvspan(-found.margin, found.margin, color=style.BAND, linewidth=0, zorder=0)
        ax.axvline(0, color=style.FAINT, linewidth=1, zorder=1)
        for row, (_, one) in enumerate(rows):
            _bar(ax, row, one)
            _share(shares, row, one)
        better = 'right' if measure.higher_is_better else 'left'
        ax.set(xlabel=f'{measure.name}: points vs {found.base.label}  ·  better to the {better}')
        ax.set_yticks(range(len(rows)), [style.wrapped(label) for label, _ in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.grid(False, axis='y')
        ax.locator_params(axis='x', nbins=6)
        shares.set(xlim=(0, 1), xticks=[])
        shares.set_xlabel('seeds |\npatients', fontsize=8)
        shares.grid(False)
        shares.spines[:].set_visible(False)
        seen = {_meaning(one): colour for colour in LEGEND for _, one in rows if colour_of(one) == colour}
        handles = [style.handle(color=colour, marker='o', linestyle='-') for colour in seen.values()]
        style.legend_below(figure, handles, list(seen))
        return figure


def is_drawn(difference: Difference | None) -> TypeGuard[Difference]:
    """Whether there is a difference to draw: that of two spreads of 0 is noise."""
    return difference is not None and difference.verdict != NO_SPREAD


def colour_of(difference: Difference) -> str:
    """The colour of a verdict."""
    return COLOURS.get(difference.verdict, OPEN)


def _meaning(difference: Difference) -> str:
    """What the colour of a verdict means in the legend."""
    return TOO_FEW if difference.verdict == TOO_FEW else LEGEND[colour_of(difference)]


def _bar(ax: Axes, row: int, one: Difference) -> None:
    colour = colour_of(one)
    ax.plot([one.lo, one.hi], [row, row], color=colour, linewidth=1.2, solid_capstyle='butt', zorder=2)
    ax.plot([one.lo90, one.hi90], [row, row], color=colour, linewidth=4, solid_capstyle='butt', zorder=3)
    ax.plot(one.estimate, row, 'o', color=colour, markersize=7, markeredgecolor='white', zorder=4)


def _share(ax: Axes, row: int, one: Difference) -> None:
    share = one.seed_share
    if share is not None:
        ax.barh(row, share, height=0.36, color=style.SOFT, linewidth=0)
        ax.barh(row, 1 - share, left=share, height=0.36, color=style.GRID, linewidth=0)
