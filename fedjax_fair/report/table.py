"""One table of results in four dresses: terminal, Markdown, CSV and (in html.py) HTML.

A cell is a mean and a standard deviation over seeds. Scores are in percent, and so are their deviations.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from fedjax_fair.errors import OneLine
from fedjax_fair.report.pieces import escaped, markdown_table
from fedjax_fair.report.remarks import did_not_learn
from fedjax_fair.results import (
    BY_TEST,
    BY_VALIDATION,
    Run,
    chosen_point,
    model_words,
    repeats_words,
    rounds_words,
    score_of,
)

MOST_GROUPS = 8  # more group columns than this do not fit a page
ARROWS = {'high': ' ↑', 'low': ' ↓', '': ''}


class Cell(NamedTuple):
    """A number: None where undefined; ``std`` is None where it does not vary by seed or there is one seed.

    A ``hidden`` one is in the CSV alone: the test score of a setting that was not chosen.
    """

    mean: float | None = None
    std: float | None = None
    best: bool = False
    hidden: bool = False


class Column(NamedTuple):
    """A column of numbers; ``better`` is 'high', 'low' or '', and ``about`` says in words what it holds.

    ``test`` says that they are scores on test data.
    """

    name: str
    better: str
    digits: int
    about: str
    cell: Callable[[Run], Cell]
    test: bool = True


class Row(NamedTuple):
    """The numbers of a run; ``facts`` are words that the CSV has beside them."""

    scenario: str
    label: str
    cells: tuple[Cell, ...]
    facts: Mapping[str, str] = {}


class Table(NamedTuple):
    """Rows of runs; ``several`` says that they come from more than one scenario. ``notes`` stand below it."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    several: bool
    notes: tuple[str, ...] = ()

    @property
    def heads(self) -> list[str]:
        return (['scenario'] if self.several else []) + ['recipe']


def make_table(runs: Sequence[Run], swept: bool = False) -> Table:
    """The table of runs, those of one scenario together; the best value of a column is marked within a scenario.

    Models that did not learn (:func:`~fedjax_fair.report.remarks.did_not_learn`) are never marked. Where
    the runs are the points of a sweep (``swept``), nothing is marked but the point that validation data choose, and
    test scores are those of this point alone.
    """
    scenarios = list(dict.fromkeys(run.scenario for run in runs))
    ordered = [run for scenario in scenarios for run in runs if run.scenario == scenario]
    columns = _columns(ordered)
    if swept:
        columns.insert(0, Column('validation', 'high', 2, 'mean score on validation data, %', _validation, test=False))
    shown = tuple(c for c in columns if any(c.cell(run).mean is not None for run in ordered))
    rows = [Row(run.scenario, run.label, tuple(c.cell(run) for c in shown), _facts(run)) for run in ordered]
    notes = [rounds_words(ordered), model_words(ordered), repeats_words(ordered)]
    if swept:
        chosen = chosen_point([run.validation for run in ordered])
        rows = _choose(shown, rows, chosen)
        notes.append(OneLine(BY_TEST).with_flags() if chosen is None else BY_VALIDATION)
    else:
        rows = _mark_best(shown, rows, [not did_not_learn(run, run.headline) for run in ordered])
    return Table(shown, tuple(rows), len(scenarios) > 1, tuple(filter(None, notes)))


def _facts(run: Run) -> dict[str, str]:
    rounds = sorted({number for of_seed in run.rounds_reported for number in of_seed})
    return {'model': run.headline, 'rounds': ' '.join(map(str, rounds))}


def _choose(columns: Sequence[Column], rows: Sequence[Row], chosen: int | None) -> list[Row]:
    """Mark the chosen point, and hide the test scores of all others."""
    if chosen is None:
        return [row._replace(facts={**row.facts, 'chosen': ''}) for row in rows]
    pairs = [list(zip(columns, row.cells, strict=True)) for row in rows]
    return [
        row._replace(
            cells=tuple(cell._replace(hidden=column.test and number != chosen) for column, cell in pairs[number]),
            facts={**row.facts, 'chosen': 'yes' if number == chosen else 'no'},
        )
        for number, row in enumerate(rows)
    ]


def cell_text(column: Column, cell: Cell) -> str:
    """``mean ± std`` with the column's digits; a dash where undefined or hidden."""
    if cell.mean is None or cell.hidden:
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
    text = markdown_table(heads, lines, left=len(table.heads))
    return text + ''.join(f'\n{escaped(note)}\n' for note in table.notes)


def to_csv(table: Table) -> str:
    """The table as CSV: for each column its mean and, in ``<column> seed std``, its deviation over seeds.

    The last columns say in words of which model and of which rounds the numbers are, and in a sweep which is chosen.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator='\n')
    names = [name for c in table.columns for name in (c.name, f'{c.name} seed std')]
    writer.writerow([*table.heads, *names, *table.rows[0].facts])
    for row in table.rows:
        numbers = [number for cell in row.cells for number in (cell.mean, cell.std)]
        texts = ['' if n is None else f'{n:.6g}' for n in numbers]
        names = row_names(table, row._replace(facts={}))
        writer.writerow([*names, *texts, *row.facts.values()])
    return out.getvalue()


def row_names(table: Table, row: Row) -> list[str]:
    """What stands before the numbers of a row."""
    mark = ' (chosen)' if row.facts.get('chosen') == 'yes' else ''
    return ([row.scenario] if table.several else []) + [row.label + mark]


def _rich(table: Table, title: str | None, kept: int) -> RichTable:
    left_out = ', '.join(column.name for column in table.columns[kept:])
    notes = [*table.notes, *([f'no room for {left_out}'] if left_out else [])]
    result = RichTable(title=title, box=SIMPLE_HEAD, caption=Text('\n'.join(notes), justify='left'))
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
        *_beside(runs),
    ]
    groups = list(dict.fromkeys(group for run in runs for group in run.groups))
    if len(groups) <= MOST_GROUPS:
        columns += [Column(g, 'high', 2, f'{score} on {g}, %', _group(g)) for g in groups]
    columns += [
        Column('client std', 'low', 2, f'standard deviation of {score} over clients, points', _statistic('client_std')),
        Column('worst 10 %', 'high', 2, 'mean of the worst tenth of clients, %', _statistic('client_worst_10pct')),
        Column('loss', 'low', 3, 'mean test loss', _statistic('loss', scale=1.0)),
    ]
    if any(run.headline != 'global' for run in runs):
        about = 'AVG of the global model, %'
        columns.append(Column('global model AVG', 'high', 2, about, _statistic('avg', 'global')))
    if any(run.differs('adapted') for run in runs):
        about = 'AVG of the locally adapted models, %'
        columns.append(Column('adapted AVG', 'high', 2, about, _statistic('avg', 'adapted')))
    return [*columns, *_costs()]


def _beside(runs: Sequence[Run]) -> list[Column]:
    """Of segmentations the Dice that is not their score."""
    abouts = {
        'dice': ('foreground Dice', 'Dice of the foreground, mean over images, %'),
        'dice_with_background': ('Dice with background', 'Dice, mean over images and classes, %'),
    }
    scores = {run.score for run in runs}
    others = {name: words for name, words in abouts.items() if scores & set(abouts) and scores != {name}}
    return [Column(head, 'high', 2, about, _statistic(name)) for name, (head, about) in others.items()]


def _costs() -> list[Column]:
    """What a round costs: what the method asks for, then the time, which depends on the load of the machine."""
    work = {
        'steps/round': ('steps', 'local steps of all clients in a round'),
        'examples/round': ('examples', 'examples that clients read in a round, for training and for measurements'),
        'gradients/round': ('gradient_passes', 'batches of which clients take a gradient in a round'),
    }
    seconds = 'wall-clock seconds of a round, compilation apart; compare them at equal load only'
    return [
        *[Column(head, 'low', 0, about, _work(name), test=False) for head, (name, about) in work.items()],
        Column('kB down/round', 'low', 1, 'sent to clients in a round, in 1000 bytes', _traffic('down'), test=False),
        Column('kB up/round', 'low', 1, 'sent by clients in a round, in 1000 bytes', _traffic('up'), test=False),
        Column('s/round', '', 3, seconds, _seconds, test=False),
        Column('load/core', '', 2, 'mean load of the machine per core during the run', _load, test=False),
    ]


def _statistic(name: str, kind: str | None = None, scale: float = 100.0) -> Callable[[Run], Cell]:
    def cell(run: Run) -> Cell:
        entry = (run.result(kind) or {}).get(name)
        return Cell() if entry is None else _cell(run, entry['mean'], entry['std'], scale)

    return cell


def _group(name: str) -> Callable[[Run], Cell]:
    def cell(run: Run) -> Cell:
        result = run.result()
        if name not in run.groups or result is None:
            return Cell()
        entry, place = result[f'group_{run.score}'], run.groups.index(name)
        return _cell(run, entry['mean'][place], entry['std'][place], 100.0)

    return cell


def _cell(run: Run, mean: float | None, std: float | None, scale: float) -> Cell:
    if mean is None:
        return Cell()
    return Cell(mean * scale, std * scale if std is not None and run.repeats > 1 else None)


def _validation(run: Run) -> Cell:
    entry = run.validation
    return Cell() if entry is None else _cell(run, entry['mean'], entry['std'], 100.0)


def _work(name: str) -> Callable[[Run], Cell]:
    return lambda run: Cell((run.summary.get('work_per_round') or {}).get(name))


def _traffic(way: str) -> Callable[[Run], Cell]:
    def cell(run: Run) -> Cell:
        sent = run.summary.get('bytes_per_round')
        return Cell(sent[way] / 1000) if sent else Cell()

    return cell


def _seconds(run: Run) -> Cell:
    """Without the load of the machine a time says little."""
    speed = run.summary.get('rounds_per_second')
    return Cell(1 / speed) if speed and _load(run).mean is not None else Cell()


def _load(run: Run) -> Cell:
    return Cell(run.summary.get('load_per_core'))


def _mark_best(columns: Sequence[Column], rows: Sequence[Row], learned: Sequence[bool]) -> list[Row]:
    """Mark the best value of each column among the rows of each scenario, and what reads the same; none if all do.

    A model that did not learn is best in nothing.
    """
    grid = [list(row.cells) for row in rows]
    for scenario in dict.fromkeys(row.scenario for row in rows):
        members = [i for i, row in enumerate(rows) if row.scenario == scenario and learned[i]]
        for c, column in ((c, column) for c, column in enumerate(columns) if column.better):
            shown = {i: round(mean, column.digits) for i in members if (mean := grid[i][c].mean) is not None}
            if len(set(shown.values())) > 1:
                best = (max if column.better == 'high' else min)(shown.values())
                for i in (i for i, value in shown.items() if value == best):
                    grid[i][c] = grid[i][c]._replace(best=True)
    return [row._replace(cells=tuple(cells)) for row, cells in zip(rows, grid, strict=True)]


def _with_arrow(column: Column) -> str:
    return column.name + ARROWS[column.better]
