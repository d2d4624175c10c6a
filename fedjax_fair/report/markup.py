"""The table for texts: Markdown and LaTeX."""

from __future__ import annotations

import re

from fedjax_fair.report.pieces import escaped, markdown_table
from fedjax_fair.report.table import Cell, Column, Table, cell_text, value_text
from fedjax_fair.report.words import foot, legend, number, sentences, signed

_TEX = {
    '\\': r'\textbackslash{}', '~': r'\textasciitilde{}', '^': r'\textasciicircum{}', '<': r'\textless{}',
    '>': r'\textgreater{}', '|': r'\textbar{}', '"': r'\textquotedbl{}', '–': '--', '±': r'$\pm$', '•': r'$\bullet$',
    '↑': r'$\uparrow$', '↓': r'$\downarrow$', **{char: f'\\{char}' for char in '&%$#_{}'},
}  # fmt: skip


def to_markdown(*tables: Table) -> str:
    """Tables as GitHub Markdown, with what they mean in words below; a heading each where there are several."""
    return '\n'.join(_markdown(table, len(tables) > 1) for table in tables)


def _markdown(table: Table, named: bool) -> str:
    heads = [column.head + (f' ({column.raw})' if column.raw else '') for column in table.columns]
    rows = [
        [row.label, *(cell_text(column, cell) for column, cell in zip(table.columns, row.cells, strict=True))]
        for row in table.rows
    ]
    title = f'## {escaped(table.scenario)}\n\n' if named else ''
    body = markdown_table(['recipe', *heads], rows)
    told = [*sentences(table.found), *table.found.notes]
    words = ''.join(f'- {escaped(line)}\n' for line in told)
    below = f'{foot(table.found)}. {legend(table.found)}'.strip()
    return f'{title}{body}\n{words}{chr(10) if words else ""}{escaped(below)}\n'


def to_latex(*tables: Table) -> str:
    r"""Tables for LaTeX with booktabs: ``$81.3_{79.8}^{82.9}$``; what cannot be told from the best is underlined."""
    return '\n'.join(_latex(table) for table in tables)


def _latex(table: Table) -> str:
    sites = {one.name for one in table.found.sites}
    places = [place for place, column in enumerate(table.columns) if column.primary or column.name in sites]
    columns = [table.columns[place] for place in places]
    heads = [column.head + (f' ({column.raw})' if column.raw else '') for column in columns]
    lines = [' & '.join(map(tex, ('recipe', *heads))) + r' \\']
    for row in table.rows:
        cells = map(_latex_cell, columns, (row.cells[place] for place in places))
        lines.append(' & '.join((tex(row.label), *cells)) + r' \\')
    body = '\n'.join([r'\toprule', lines[0], r'\midrule', *lines[1:], r'\bottomrule'])
    label = re.sub(r'[^A-Za-z0-9]+', '-', table.scenario).strip('-')
    lines = [
        r'% needs \usepackage{booktabs}', r'\begin{table}', r'\centering', r'\footnotesize',
        f'\\caption{{{_caption(table)}}}', f'\\label{{tab:{label}}}', f'\\begin{{tabular}}{{l{"r" * len(columns)}}}',
        body, r'\end{tabular}', r'\end{table}',
    ]  # fmt: skip
    return '\n'.join(lines) + '\n'


def _caption(table: Table) -> str:
    marked = 'Underlined: cannot be told from the best (Holm over all pairs).' if legend(table.found) else ''
    brackets = [f'{column.name} ({column.raw})' for column in table.columns if column.primary and column.raw]
    raw = f'In brackets: {", ".join(brackets)}, with the noise of tests.' if brackets else ''
    told = f'{table.scenario}. Estimates with their {foot(table.found)}.'
    return tex(' '.join(filter(None, (told.replace('their 95 % intervals:', '95 % intervals:'), marked, raw))))


def _latex_cell(column: Column, cell: Cell) -> str:
    if cell.hidden or cell.value is None or cell.lo is None or cell.hi is None:
        text = tex(' '.join(filter(None, (value_text(column, cell), cell.word))))
    else:
        shown = signed if column.signed else number
        value, low, high = (shown(one, column.digits) for one in (cell.value, cell.lo, cell.hi))
        raw = '' if cell.raw is None else f' ({number(cell.raw, column.digits)})'
        text = ' '.join(filter(None, (f'${value}_{{{low}}}^{{{high}}}${raw}', tex(cell.word))))
    return f'\\underline{{{text}}}' if cell.dot else text


def tex(text: str) -> str:
    r"""A text with everything escaped that LaTeX would read as a command.

    >>> print(tex('fedprox+server_adam & 5 %'))
    fedprox+server\_adam \& 5 \%
    """
    return ''.join(_TEX.get(char, char) for char in text.replace('\n', ' '))
