"""The table for texts: Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from fedjax_fair.escaping import as_latex, as_markdown
from fedjax_fair.report.cells import Cell, cell_text, digits_of, value_text
from fedjax_fair.report.head import head_of
from fedjax_fair.report.pieces import markdown_table
from fedjax_fair.report.remarks import remarks_of
from fedjax_fair.report.table import Table
from fedjax_fair.report.verdict_words import foot, number, points, sentences, signed

PAGE_COLUMNS = 4  # columns of numbers that a page is wide enough for
WITHIN = 'within margin'


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


def to_latex(*tables: Table) -> str:
    r"""Tables for LaTeX with booktabs: ``$81.3_{79.8}^{82.9}$``; what cannot be told from the best is underlined."""
    return '\n'.join(_latex(table) for table in tables)


def _latex(table: Table) -> str:
    sites = {one.name for one in table.found.sites}
    table = table.of([column.primary or column.name in sites for column in table.columns])
    kinds: dict[tuple[bool, bool], list[int]] = {}  # levels, differences with their verdicts, then sites
    for place, column in enumerate(table.columns):
        kinds.setdefault((not column.primary, column.signed), []).append(place)
    blocks = [block for _, places in sorted(kinds.items()) for block in _blocks(places)]
    label = re.sub(r'[^A-Za-z0-9]+', '-', table.scenario).strip('-')
    lines = [
        r'% needs \usepackage{booktabs}', r'\begin{table}', r'\centering', r'\footnotesize',
        r'\setlength{\tabcolsep}{4pt}', r'\renewcommand{\arraystretch}{1.35}',
        f'\\caption{{{_caption(table)}}}', f'\\label{{tab:{label}}}',
        '\n\\par\\medskip\n'.join(_tabular(table, block) for block in blocks), _below(table), r'\end{table}',
    ]  # fmt: skip
    return '\n'.join(lines) + '\n'


def _below(table: Table) -> str:
    """What was run, what limits the verdicts, and what to know before believing them: as in the other formats."""
    runs = table.found.runs
    told = [*head_of(runs), *table.found.notes, *remarks_of(runs)]
    lines = '\\par\n'.join(map(as_latex, told))
    start = r'\par\medskip' + '\n' + r'\begin{minipage}{\linewidth}' + '\n' + r'\raggedright\scriptsize'
    return f'{start}\n{lines}\\par\n\\end{{minipage}}'


def _blocks(places: list[int]) -> list[list[int]]:
    """Columns in as few parts as a page allows, and these of about the same width."""
    parts = -(-len(places) // PAGE_COLUMNS)
    return [list(part) for part in np.array_split(places, parts)] if parts else []


def _tabular(table: Table, places: Sequence[int]) -> str:
    columns = [table.columns[place] for place in places]
    heads = [column.head + (f' ({column.raw})' if column.raw else '') for column in columns]
    head = ' & '.join(map(as_latex, ('recipe', *heads))) + r' \\'
    rows = []
    for row in table.rows:
        words = ' & '.join(_latex_cell(table, place, row.cells[place]) for place in places)
        rows.append(f'{as_latex(row.label)} & {words} \\\\')
    start = f'\\begin{{tabular}}{{l{"r" * len(columns)}}}'
    return '\n'.join([start, r'\toprule', head, r'\midrule', *rows, r'\bottomrule', r'\end{tabular}'])


def _caption(table: Table) -> str:
    marked = 'Underlined: cannot be told from the best (Holm over all pairs).' if table.dotted else ''
    brackets = [f'{column.name} ({column.raw})' for column in table.columns if column.primary and column.raw]
    raw = f'In brackets: {", ".join(brackets)}, with the noise of tests.' if brackets else ''
    words = [_brief(cell.word, points(table.found.margin)) for row in table.rows for cell in row.cells]
    within = f'{WITHIN.capitalize()}: any difference is smaller.' if any(WITHIN in word for word in words) else ''
    told = f'{table.scenario}: {table.found.score}. Estimates with {foot(table.found)}.'
    return as_latex(' '.join(filter(None, (told, within, marked, raw))))


def _latex_cell(table: Table, place: int, cell: Cell) -> str:
    column, word = table.columns[place], _brief(cell.word, points(table.found.margin))
    if cell.hidden or cell.value is None or cell.lo is None or cell.hi is None:
        text = as_latex(' '.join(filter(None, (value_text(column, cell), word))))
    else:
        shown, digits = signed if column.signed else number, digits_of(column, cell)
        value, low, high = (shown(one, digits) for one in (cell.value, cell.lo, cell.hi))
        raw = '' if cell.raw is None else f' ({number(cell.raw, digits)})'
        text = ' '.join(filter(None, (f'${value}_{{{low}}}^{{{high}}}${raw}', as_latex(word))))
    return f'\\underline{{{text}}}' if cell.dot else text


def _brief(word: str, margin: str) -> str:
    """A verdict for a narrow column: the caption has the margin, and other dresses say what would decide.

    >>> _brief('undecided, ~12 seeds', '1 point'), _brief('better, below 1 point', '1 point')
    ('undecided', 'better, within margin')
    """
    return word.partition(', ~')[0].replace(f'no difference above {margin}', WITHIN).replace(f'below {margin}', WITHIN)
