"""The table for a terminal: verdicts first, everything exploratory below."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from fedjax_fair.consoles import plain_console
from fedjax_fair.escaping import visible
from fedjax_fair.report.cells import DOT, Cell, Column, interval_text, value_text
from fedjax_fair.report.table import Table
from fedjax_fair.report.verdict_words import foot, sentences
from fedjax_fair.viz.style import wrapped

STYLES = {'better': 'green', 'worse': 'red'}  # of verdicts; all others are as they are


class Layout(NamedTuple):
    """How cells are stacked: a difference ``joined`` with its interval in one line, ``tight`` brackets below."""

    joined: bool
    tight: bool
    words: int  # characters of a line of a verdict
    gap: int  # between columns


LAYOUTS = (Layout(True, False, 18, 2), Layout(False, False, 13, 1), Layout(False, True, 13, 1))  # the widest first


def to_rich(table: Table, width: int | None = None) -> RenderableType:
    """The primary columns with what they mean in words, then the exploratory ones.

    Cells are stacked in more lines where ``width`` asks for it. Columns that still do not fit are left out from the
    right and named.
    """
    primary, more = table.part(primary=True), table.part(primary=False)
    told = [*sentences(table.found), *table.found.notes, foot(table.found) + '.', table.legend]
    lines = [Padding(Text(visible(line)), (0, 0, 0, 2)) for line in told if line]
    parts: list[RenderableType] = [_fitting(primary, table.scenario, width), *lines]
    if more.columns:
        parts.append(_fitting(more, 'exploratory', width))
    return Group(*parts)


def _fitting(table: Table, title: str, width: int | None) -> RichTable:
    measure = plain_console(width=10_000).measure
    for kept in range(len(table.columns), 0, -1):
        for layout in LAYOUTS:
            result = _rich(table, title, kept, layout)
            if width is None or measure(result).maximum <= width:
                return result
    return result


def _rich(table: Table, title: str, kept: int, layout: Layout) -> RichTable:
    left_out = ', '.join(visible(column.name) for column in table.columns[kept:])
    caption = Text(f'no room for {left_out}', justify='left') if left_out else None
    result = RichTable(
        title=Text(visible(title)), title_justify='left', title_style='', box=SIMPLE_HEAD, caption=caption,
        padding=(0, layout.gap, 0, 0), pad_edge=False,
    )  # fmt: skip
    result.add_column('recipe')
    for column in table.columns[:kept]:
        head = Text(visible(column.name).replace(' ', '\n', 1) + (f' {column.head[-1]}' if column.better else ''))
        if column.raw:
            head.append(f'\n({column.raw})')
        result.add_column(head, justify='left' if column.signed else 'right')
    for row in table.rows:
        cells = [_cell(column, cell, layout) for column, cell in zip(table.columns[:kept], row.cells, strict=False)]
        result.add_row(Text(wrapped(visible(row.label))), *cells)
    return result


def _cell(column: Column, cell: Cell, layout: Layout) -> Text:
    value, interval = value_text(column, cell), interval_text(column, cell)
    value = f'{DOT} {value}' if cell.dot else value
    first = [' '.join(filter(None, (value, interval)))] if layout.joined and column.signed else [value, interval]
    if layout.tight:
        first = [line.replace(' (', '\n(') for line in first]
    lines = [*first, *textwrap.wrap(visible(cell.word), layout.words, break_long_words=False)]
    style = next((look for start, look in STYLES.items() if cell.word.startswith(start)), '')
    return Text('\n'.join(filter(None, lines)), style='dim' if cell.faint or not column.primary else style)
