"""Tables of the HTML report."""

from __future__ import annotations

from html import escape

from fedjax_fair.report.table import DOT, Cell, Column, Table, interval_text, value_text
from fedjax_fair.report.words import foot, legend, sentences


def results_part(table: Table) -> str:
    """The primary columns, what they say in words, and the exploratory columns."""
    told = ''.join(f'<li>{escape(line)}</li>' for line in sentences(table.found))
    notes = ''.join(f'<li>{escape(line)}</li>' for line in table.found.notes)
    words = f'<ul class="words">{told}</ul>' if told else ''
    limits = f'<ul class="note">{notes}</ul>' if notes else ''
    below = f'<p class="note">{escape(foot(table.found))}. {escape(legend(table.found))}</p>'
    primary, more = table.part(primary=True), table.part(primary=False)
    rest = f'<h3>Exploratory</h3>{_table(more, "grey")}{_legend(more)}' if more.columns else ''
    return f'{_table(primary, "")}{words}{below}{limits}{_legend(primary)}{rest}'


def _table(table: Table, look: str) -> str:
    heads = ''.join(f'<th title="{escape(c.about)}">{escape(c.head)}{_raw(c)}</th>' for c in table.columns)
    rows = []
    for row in table.rows:
        cells = [_cell(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)]
        rows.append(f'<tr><th>{escape(row.label)}</th>{"".join(cells)}</tr>')
    body = f'<thead><tr><th>recipe</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody>'
    return f'<div class="wide"><table class="{look}">{body}</table></div>'


def _raw(column: Column) -> str:
    return f' <small>({escape(column.raw)})</small>' if column.raw else ''


def _cell(column: Column, cell: Cell) -> str:
    dot = f'<span class="dot">{DOT}</span> ' if cell.dot else ''
    parts = [f'{dot}{escape(value_text(column, cell))}']
    parts += [f'<span class="interval">{escape(text)}</span>' for text in (interval_text(column, cell),) if text]
    if cell.word:
        kind = cell.word.split(',')[0].split(' ')[0]
        parts.append(f'<span class="word {escape(kind)}">{escape(cell.word)}</span>')
    return f'<td{" class=grey" if cell.faint else ""}>{" ".join(parts)}</td>'


def _legend(table: Table) -> str:
    told = '; '.join(f'<b>{escape(column.name)}</b> {escape(column.about)}' for column in table.columns)
    return f'<p class="note">{told}.</p>'
