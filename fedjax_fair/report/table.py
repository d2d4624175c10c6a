"""One table of results in four dresses: terminal, Markdown, CSV and (in html.py) HTML.

A cell is a mean and a standard deviation over seeds. Scores are in percent, and so are their deviations.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from fedjax_fair.report.pieces import markdown_table
from fedjax_fair.report.remarks import did_not_learn
from fedjax_fair.results import Run, score_of

MOST_GROUPS = 8  # more group columns than this do not fit a page


class Cell(NamedTuple):
    """A number: None where undefined; ``std`` is None where it does not vary by seed or there is one seed."""

    mean: float | None = None
    std: float | None = None
    best: bool = False


class Column(NamedTuple):
    """A column of numbers; ``better`` is 'high' or 'low', and ``about`` says in words what it holds."""

    name: str
    better: str
    digits: int
    about: str
    cell: Callable[[Run], Cell]


class Row(NamedTuple):
    scenario: str
    label: str
    cells: tuple[Cell, ...]


class Table(NamedTuple):
    """Rows of runs; ``several`` says that they come from more than one scenario."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    several: bool

    @property
    def heads(self) -> list[str]:
        return (['scenario'] if self.several else []) + ['recipe']


def make_table(runs: Sequence[Run]) -> Table:
    """The table of runs, those of one scenario together; the best value of a column is marked within a scenario.

    Models that did not learn (:func:`~fedjax_fair.report.remarks.did_not_learn`) are never marked.
    """
    scenarios = list(dict.fromkeys(run.scenario for run in runs))
    ordered = [run for scenario in scenarios for run in runs if run.scenario == scenario]
    columns = tuple(c for c in _columns(ordered) if any(c.cell(run).mean is not None for run in ordered))
    rows = [Row(run.scenario, run.label, tuple(c.cell(run) for c in columns)) for run in ordered]
    learned = [not did_not_learn(run) for run in ordered]
    return Table(columns, tuple(_mark_best(columns, rows, learned)), len(scenarios) > 1)


def cell_text(column: Column, cell: Cell) -> str:
    """``mean ± std`` with the column's digits; a dash where undefined."""
    if cell.mean is None:
        return '–'
    mean = f'{cell.mean:.{column.digits}f}'
    return mean if cell.std is None else f'{mean} ± {cell.std:.{column.digits}f}'


def to_rich(table: Table, title: str | None = None, width: int | None = None) -> RichTable:
    """The table for a terminal, deviations under their means; best values are bold green.

    Columns that do not fit into ``width`` characters are left out from the right and named below the table.
    """
    measure = Console(width=10_000).measure
    for kept in range(len(table.columns), 0, -1):
        result = _rich(table, title, kept)
        if width is None or measure(result).maximum <= width:
            break
    return result


def to_markdown(table: Table) -> str:
    """The table as GitHub Markdown; best values are bold."""
    lines = []
    for row in table.rows:
        texts = [cell_text(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)]
        marked = [f'**{text}**' if cell.best else text for text, cell in zip(texts, row.cells, strict=True)]
        lines.append(row_names(table, row) + marked)
    heads = table.heads + [_with_arrow(column) for column in table.columns]
    return markdown_table(heads, lines, left=len(table.heads))


def to_csv(table: Table) -> str:
    """The table as CSV: for each column its mean and, in ``<column> seed std``, its deviation over seeds."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow(table.heads + [name for c in table.columns for name in (c.name, f'{c.name} seed std')])
    for row in table.rows:
        numbers = [number for cell in row.cells for number in (cell.mean, cell.std)]
        writer.writerow(row_names(table, row) + ['' if n is None else f'{n:.6g}' for n in numbers])
    return out.getvalue()


def row_names(table: Table, row: Row) -> list[str]:
    """What stands before the numbers of a row."""
    return ([row.scenario] if table.several else []) + [row.label]


def _rich(table: Table, title: str | None, kept: int) -> RichTable:
    left_out = ', '.join(column.name for column in table.columns[kept:])
    result = RichTable(title=title, box=SIMPLE_HEAD, caption=Text(f'no room for {left_out}') if left_out else None)
    for head in table.heads:
        result.add_column(head, no_wrap=True)
    for column in table.columns[:kept]:
        result.add_column(Text(_with_arrow(column).replace(' ', '\n', 1 if ' ' in column.name else 0)), justify='right')
    for row in table.rows:
        texts = [
            Text(cell_text(column, cell).replace(' ±', '\n±'), style='bold green' if cell.best else '', justify='right')
            for column, cell in zip(table.columns[:kept], row.cells[:kept], strict=True)
        ]
        result.add_row(*[Text(name) for name in row_names(table, row)], *texts)
    return result


def _columns(runs: Sequence[Run]) -> list[Column]:
    grouped = {bool(run.groups) for run in runs}
    who = (
        'groups' if grouped == {True} else 'clients' if grouped == {False} else 'groups (clients where there are none)'
    )
    score = score_of(runs)
    columns = [
        Column('AVG', 'high', 2, f'mean {score} over {who}, %', _statistic('avg')),
        Column('STD', 'low', 2, f'standard deviation of {score} over {who}, points', _statistic('std')),
        Column('worst', 'high', 2, f'lowest {score} over {who}, %', _statistic('worst')),
    ]
    groups = list(dict.fromkeys(group for run in runs for group in run.groups))
    if len(groups) <= MOST_GROUPS:
        columns += [Column(g, 'high', 2, f'{score} on {g}, %', _group(g)) for g in groups]
    columns += [
        Column('client std', 'low', 2, f'standard deviation of {score} over clients, points', _statistic('client_std')),
        Column('worst 10 %', 'high', 2, 'mean of the worst tenth of clients, %', _statistic('client_worst_10pct')),
        Column('loss', 'low', 3, 'mean test loss', _statistic('loss', scale=1.0)),
    ]
    columns += [
        Column(f'{kind} AVG', 'high', 2, f'AVG of the {kind} models of the clients, %', _statistic('avg', kind))
        for kind in ('deployed', 'adapted')
        if any(differs(run, kind) for run in runs)
    ]
    return [
        *columns,
        Column('kB/round', 'low', 1, 'sent down and up in a round, in 1000 bytes', _traffic),
        Column('s/round', 'low', 3, 'wall-clock seconds of a round, compilation apart', _seconds),
    ]


def _statistic(name: str, kind: str = 'global', scale: float = 100.0) -> Callable[[Run], Cell]:
    def cell(run: Run) -> Cell:
        entry = (run.result(kind) or {}).get(name)
        return Cell() if entry is None else _cell(run, entry['mean'], entry['std'], scale)

    return cell


def _group(name: str) -> Callable[[Run], Cell]:
    def cell(run: Run) -> Cell:
        if name not in run.groups:
            return Cell()
        entry, place = run.summary['global'][f'group_{run.score}'], run.groups.index(name)
        return _cell(run, entry['mean'][place], entry['std'][place], 100.0)

    return cell


def _cell(run: Run, mean: float | None, std: float | None, scale: float) -> Cell:
    if mean is None:
        return Cell()
    return Cell(mean * scale, std * scale if std is not None and len(run.seeds) > 1 else None)


def _traffic(run: Run) -> Cell:
    sent = run.summary.get('bytes_per_round')
    return Cell((sent['down'] + sent['up']) / 1000) if sent else Cell()


def _seconds(run: Run) -> Cell:
    speed = run.summary.get('rounds_per_second')
    return Cell(1 / speed) if speed else Cell()


def differs(run: Run, kind: str) -> bool:
    """Whether the clients' own models of this kind were evaluated and do not score like the global model."""
    other = run.result(kind)
    if other is None:
        return False
    own, shared = (np.array(r[f'client_{run.score}']['mean'], np.float64) for r in (other, run.summary['global']))
    return not np.allclose(own, shared, atol=1e-6, equal_nan=True)


def _mark_best(columns: Sequence[Column], rows: Sequence[Row], learned: Sequence[bool]) -> list[Row]:
    """Mark the best value of each column among the rows of each scenario, and what reads the same; none if all do.

    A model that did not learn is best in nothing.
    """
    grid = [list(row.cells) for row in rows]
    for scenario in dict.fromkeys(row.scenario for row in rows):
        members = [i for i, row in enumerate(rows) if row.scenario == scenario and learned[i]]
        for c, column in enumerate(columns):
            shown = {i: round(mean, column.digits) for i in members if (mean := grid[i][c].mean) is not None}
            if len(set(shown.values())) > 1:
                best = (max if column.better == 'high' else min)(shown.values())
                for i in (i for i, value in shown.items() if value == best):
                    grid[i][c] = grid[i][c]._replace(best=True)
    return [row._replace(cells=tuple(cells)) for row, cells in zip(rows, grid, strict=True)]


def _with_arrow(column: Column) -> str:
    return f'{column.name} {"↑" if column.better == "high" else "↓"}'
