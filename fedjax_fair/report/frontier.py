"""The frontiers of a comparison: a table and a sentence per hyper-parameter, and the figure of all."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from fedjax_fair.escaping import as_html, as_markdown
from fedjax_fair.publishing import publish
from fedjax_fair.report.cells import Cell, Column, cell_text
from fedjax_fair.report.head import head_of
from fedjax_fair.report.pictures import drawing
from fedjax_fair.report.pieces import html_table, markdown_table
from fedjax_fair.report.remarks import remarks_of
from fedjax_fair.report.verdict_words import digits_beside, number
from fedjax_fair.results import Run, frontiers, model_words, rounds_words, score_of
from fedjax_fair.results.chance import NOT_SHOWN, unlearned
from fedjax_fair.results.findings import Findings
from fedjax_fair.results.frontier import Interval, cost_of_fairness, interval, limits
from fedjax_fair.viz.frontier import Curves, frontier_figure

COLUMN = Column('', '', 1, '', lambda place: Cell())
CORRECTED = (
    'worst is corrected for the noise of tests; in brackets stands the raw one, which interval, sentence and figure '
    'are about'
)
NOTE = 'The best values were found on test data: they describe these runs and are no verdict.'


def frontier_text(out: pathlib.Path, curves: Curves | None = None, metric: str | None = None) -> str:
    """The tables and sentences of the frontiers in a folder as Markdown; empty if there are none.

    ``curves`` are those frontiers, where they were read already: what was computed of them is not computed again.
    Numbers are of the score that fairness is about, or of another ``metric``.
    """
    found = frontiers(out) if curves is None else curves
    parts = []
    for name, runs in found.items():
        table, words = markdown_table(*_table(name, runs, metric)), as_markdown(in_words(name, runs, metric))
        head, below = (''.join(f'- {as_markdown(line)}\n' for line in lines) for lines in _around(name, runs, metric))
        parts.append(f'Frontier of {as_markdown(name)}\n\n{head}\n{table}\n{words}\n\n{below}')
    return '\n'.join([*parts, f'{NOTE}\n']) if parts else ''


def frontier_section(
    out: pathlib.Path, beside: Sequence[Findings] = (), curves: Curves | None = None, metric: str | None = None
) -> str:
    """Write frontier.png and frontier.md into a folder with frontiers; returns their section of the page.

    ``beside`` are the findings about other runs, which are crosses in the figure.
    """
    found = frontiers(out) if curves is None else curves
    if not found:
        return ''
    publish(out / 'frontier.md', frontier_text(out, found, metric))
    curve = 'Mean and raw worst: a curve per hyper-parameter, a dot per value; crosses are the other runs.'
    caption = f'{curve} {_errors(found)}'.strip()
    here = {run.scenario for runs in found.values() for run in runs.values()}
    others = [run for one in beside for run in one.runs if run.scenario in here]
    picture = drawing(frontier_figure(found, others, metric, beside), out / 'frontier.png', 'frontier', caption)
    tables = ''.join(_html(name, runs, metric) for name, runs in found.items())
    note = f'<p class="note">{NOTE}</p>'
    return f'<section><h2>What fairness costs</h2><div class="figures">{picture}</div>{tables}{note}</section>'


def _html(name: str, runs: Mapping[float, Run], metric: str | None) -> str:
    head, below = _around(name, runs, metric)
    lines = ''.join(f'<p class="head">{as_html(line)}</p>' for line in head)
    notes = ''.join(f'<li>{as_html(line)}</li>' for line in below)
    table, words = html_table(*_table(name, runs, metric)), as_html(in_words(name, runs, metric))
    return f'{lines}{table}<p>{words}</p><ul class="note">{notes}</ul>'


def _around(name: str, runs: Mapping[float, Run], metric: str | None) -> tuple[list[str], list[str]]:
    """What was run, and what limits the numbers: scores, rounds, models, test data, and remarks on single values."""
    named = [dataclasses.replace(run, label=f'{name}={value:g}') for value, run in runs.items()]
    notes = [f'score: {score_of(named, metric)}', rounds_words(named), model_words(named)]
    notes += [CORRECTED] if any(one.corrected is not None for one in _worst(runs, metric) if one) else []
    notes += dict.fromkeys(line for run in runs.values() for line in limits(run, metric))
    return head_of(named), [line for line in [*notes, *remarks_of(named)] if line]


def in_words(name: str, runs: Mapping[float, Run], metric: str | None = None) -> str:
    """How much of the mean each point of raw worst costs, where it is decided that the worst gains at all.

    Values whose models did not learn are left out: one that answers alike everywhere may have the best worst score.
    """
    doubts = {value: unlearned(run, run.headline) for value, run in runs.items()}
    learned = {value: run for value, run in runs.items() if not doubts[value]}
    if not learned:
        what = 'is shown to have learned' if NOT_SHOWN in doubts.values() else 'learned'
        return f'{name}: no value {what} anything.'
    lost = [
        f'for their models {why}: {", ".join(f"{value:g}" for value in runs if doubts[value] == why)}'
        for why in dict.fromkeys(filter(None, doubts.values()))
    ]
    told = _price_in_words(name, learned, metric)
    return f'{told} Left out, {"; ".join(lost)}.' if lost else told


def _price_in_words(name: str, runs: Mapping[float, Run], metric: str | None) -> str:
    cost = cost_of_fairness(runs, metric)
    if cost is None:
        return f'{name}: no value has both AVG and worst.'
    if cost.fair_value == cost.mean_value:
        return f'{name}={cost.fair_value:g} has the highest AVG and the highest raw worst of these values.'
    digits = digits_beside(cost.lo, cost.hi)
    change = (
        f'From {name}={cost.mean_value:g} (best AVG) to {name}={cost.fair_value:g} (best raw worst): raw worst '
        f'gains {number(cost.gain, digits)} points and AVG loses {number(cost.price)}'
    )
    if cost.lo is None or cost.hi is None:
        return f'{change}. What a point of raw worst costs is undecided: the gain has no interval.'
    sure = f'The 95 % interval of the gain is {number(cost.lo, digits)} to {number(cost.hi, digits)}'
    if cost.lo <= 0:
        return f'{change}. {sure}: what a point of raw worst costs is undecided.'
    return f'{change}; each point of raw worst costs {number(cost.price / cost.gain)} points of AVG. {sure}.'


def _table(name: str, runs: Mapping[float, Run], metric: str | None) -> tuple[list[str], list[list[str]]]:
    """A row per value. Where worst can be corrected the raw one stands in brackets, and a raw one alone says so."""
    kinds = {run.headline for run in runs.values()}
    model = '' if kinds == {'global'} else ' (own models)'
    worst = _worst(runs, metric)
    corrected = any(one is not None and one.corrected is not None for one in worst)
    rows = [
        [f'{value:g}', cell_text(COLUMN, _cell(interval(run, 'avg', metric))), cell_text(COLUMN, _cell(one, corrected))]
        for (value, run), one in zip(runs.items(), worst, strict=True)
    ]
    return [name, f'AVG{model}', f'worst (raw){model}' if corrected else f'raw worst{model}'], rows


def _worst(runs: Mapping[float, Run], metric: str | None) -> list[Interval | None]:
    return [interval(run, 'worst', metric) for run in runs.values()]


def _cell(found: Interval | None, corrected: bool = False) -> Cell:
    """A number with its interval, as in tables; ``corrected`` says that others of the column are."""
    if found is None:
        return Cell()
    if found.corrected is None:
        return Cell(found.value, found.lo, found.hi, word='raw' if corrected else '')
    return Cell(found.corrected, found.lo, found.hi, found.value)


def _errors(found: Curves) -> str:
    several = any(len(run.seeds) > 1 for runs in found.values() for run in runs.values())
    return 'Bars are 95 % intervals.' if several else ''
