"""Tables of the HTML report."""

from __future__ import annotations

from fedjax_fair.escaping import as_html
from fedjax_fair.report.cells import DOT, Cell, Column, interval_text, value_text
from fedjax_fair.report.table import Table
from fedjax_fair.report.verdict_words import foot, sentences

MANY = 8  # columns; more than these are printed in small type


def results_part(table: Table) -> str:
    """The primary columns, what they say in words, and the exploratory columns."""
    told = ''.join(f'<li>{as_html(line)}</li>' for line in sentences(table.found))
    notes = ''.join(f'<li>{as_html(line)}</li>' for line in table.found.notes)
    words = f'<ul class="words">{told}</ul>' if told else ''
    limits = f'<ul class="note">{notes}</ul>' if notes else ''
    below = f'<p class="note">{as_html(foot(table.found))}. {as_html(table.legend)}</p>'
    primary, more = table.part(primary=True), table.part(primary=False, costs=False)  # costs have a section
    rest = f'<h3>Exploratory</h3>{_table(more, "grey")}{_legend(more)}' if more.columns else ''
    return f'{_table(primary, "")}{words}{below}{limits}{_legend(primary)}{rest}'


def _table(table: Table, look: str) -> str:
    heads = ''.join(f'<th title="{as_html(c.about)}">{as_html(c.head)}{_raw(c)}</th>' for c in table.columns)
    rows = []
    for row in table.rows:
        cells = [_cell(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)]
        rows.append(f'<tr><th>{as_html(row.label)}</th>{"".join(cells)}</tr>')
    body = f'<thead><tr><th>recipe</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody>'
    look += ' many' * (len(table.columns) > MANY)
    return f'<div class="wide"><table class="{look.strip()}">{body}</table></div>'


def _raw(column: Column) -> str:
    return f' <small>({as_html(column.raw)})</small>' if column.raw else ''


def _cell(column: Column, cell: Cell) -> str:
    dot = f'<span class="dot">{DOT}</span> ' if cell.dot else ''
    parts = [f'{dot}{as_html(value_text(column, cell))}']
    parts += [f'<span class="interval">{as_html(text)}</span>' for text in (interval_text(column, cell),) if text]
    if cell.word:
        kind = cell.word.split(',')[0].split(' ')[0]
        parts.append(f'<span class="word {as_html(kind)}">{as_html(cell.word)}</span>')
    return f'<td{" class=grey" if cell.faint else ""}>{" ".join(parts)}</td>'


def _legend(table: Table) -> str:
    told = '; '.join(f'<b>{as_html(column.name)}</b> {as_html(column.about)}' for column in table.columns)
    return f'<p class="note">{told}.</p>'
