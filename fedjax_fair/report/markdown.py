"""The table for texts: Markdown."""

from __future__ import annotations

from fedjax_fair.escaping import as_markdown
from fedjax_fair.report.cells import cell_text
from fedjax_fair.report.pieces import markdown_table
from fedjax_fair.report.table import Table
from fedjax_fair.report.verdict_words import foot, sentences


def to_markdown(*tables: Table) -> str:
    """Tables as GitHub Markdown, with what they mean in words below; a heading each where there are several."""
    return '\n'.join(_markdown(table, len(tables) > 1) for table in tables)


def _markdown(table: Table, named: bool) -> str:
    heads = [column.head + (f' ({column.raw})' if column.raw else '') for column in table.columns]
    rows = [
        [row.label, *(cell_text(column, cell) for column, cell in zip(table.columns, row.cells, strict=True))]
        for row in table.rows
    ]
    title = f'## {as_markdown(table.scenario)}\n\n' if named else ''
    body = markdown_table(['recipe', *heads], rows)
    told = [*sentences(table.found), *table.found.notes]
    words = ''.join(f'- {as_markdown(line)}\n' for line in told)
    below = f'{foot(table.found)}. {table.legend}'.strip()
    return f'{title}{body}\n{words}{chr(10) if words else ""}{as_markdown(below)}\n'
