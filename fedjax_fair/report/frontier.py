"""The frontiers of a comparison: a table and a sentence per hyper-parameter, and the figure of all."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from html import escape

from fedjax_fair.report.pieces import DPI, html_table, image, markdown_table
from fedjax_fair.results import Run, frontiers
from fedjax_fair.results.frontier import Cost, Interval, cost_of_fairness, interval
from fedjax_fair.viz import save
from fedjax_fair.viz.frontier import frontier_figure

NOTE = 'The best values were found on test data: they describe these runs and are no verdict.'


def frontier_text(out: pathlib.Path) -> str:
    """The tables and sentences of the frontiers in a folder as Markdown; empty if there are none."""
    parts = []
    for name, runs in frontiers(out).items():
        parts.append(f'Frontier of {name}\n\n{markdown_table(*_table(name, runs))}\n{in_words(name, runs)}\n')
    return '\n'.join([*parts, f'{NOTE}\n']) if parts else ''


def frontier_section(out: pathlib.Path, beside: Sequence[Run] = ()) -> str:
    """Write frontier.png and frontier.md into a folder with frontiers; returns their section of the page."""
    found = frontiers(out)
    if not found:
        return ''
    (out / 'frontier.md').write_text(frontier_text(out), encoding='utf-8')
    caption = 'A curve per hyper-parameter, a dot per value; crosses are the other runs. ' + _errors(found)
    here = {run.scenario for runs in found.values() for run in runs.values()}
    beside = [run for run in beside if run.scenario in here]
    picture = image(save(frontier_figure(found, beside), out / 'frontier.png', DPI), 'frontier', caption)
    tables = ''.join(f'{html_table(*_table(n, runs))}<p>{escape(in_words(n, runs))}</p>' for n, runs in found.items())
    note = f'<p class="note">{NOTE}</p>'
    return f'<section><h2>What fairness costs</h2><div class="figures">{picture}</div>{tables}{note}</section>'


def in_words(name: str, runs: Mapping[float, Run]) -> str:
    """How much of the mean each point of the worst costs."""
    cost = cost_of_fairness(runs)
    if cost is None:
        return f'{name}: no value has both AVG and worst.'
    if cost.fair_value == cost.mean_value:
        return f'{name}={cost.fair_value:g} has the highest AVG and the highest worst of these values.'
    sure = '' if cost.error is None else f' The 95 % interval of the gain is {_range(cost)}.'
    return (
        f'From {name}={cost.mean_value:g} (best AVG) to {name}={cost.fair_value:g} (best worst): worst gains '
        f'{cost.gain:.2f} points and AVG loses {cost.price:.2f}; each point of worst costs '
        f'{cost.price / cost.gain:.2f} points of AVG.{sure}'
    )


def _table(name: str, runs: Mapping[float, Run]) -> tuple[list[str], list[list[str]]]:
    kinds = {run.headline for run in runs.values()}
    model = '' if kinds == {'global'} else ' (own models)'
    rows = [[f'{value:g}', *(_shown(interval(run, one)) for one in ('avg', 'worst'))] for value, run in runs.items()]
    return [name, f'AVG{model}', f'worst{model}'], rows


def _shown(found: Interval | None) -> str:
    if found is None:
        return '–'
    if found.error is None:
        return f'{found.value:.1f}'
    return f'{found.value:.1f} [{found.value - found.error:.1f}, {found.value + found.error:.1f}]'


def _range(cost: Cost) -> str:
    error = cost.error or 0.0
    return f'{cost.gain - error:.2f} to {cost.gain + error:.2f}'


def _errors(found: Mapping[str, Mapping[float, Run]]) -> str:
    several = any(len(run.seeds) > 1 for runs in found.values() for run in runs.values())
    return 'Bars are 95 % intervals.' if several else ''
