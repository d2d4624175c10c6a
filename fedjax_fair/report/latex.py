r"""The table for papers: LaTeX with booktabs, in as many parts as a page of an article asks for.

Columns are put side by side as long as their estimated width allows. What is too tall for one page goes on in further
tables: scores of single sites come last, and have a table of their own where not everything fits.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from fedjax_fair.escaping import as_latex
from fedjax_fair.report.cells import Cell, Column, digits_of, value_text
from fedjax_fair.report.head import head_of
from fedjax_fair.report.remarks import remarks_on
from fedjax_fair.report.table import Table
from fedjax_fair.report.verdict_words import foot, number, points, signed

PAGE_WIDTH = 76  # characters of a line of an article at the size of footnotes
PAGE_ROWS = 27  # rows of numbers and heads beside a caption and notes
COLUMN_GAP, SCRIPT = 2, 0.8  # characters between columns; the width of an index beside that of a character
HEAD_WIDTH = 16  # characters of a line of a head
WITHIN = 'within margin'
Block = list[int]  # the places of columns that stand side by side


def to_latex(*tables: Table) -> str:
    r"""Tables for LaTeX with booktabs: ``$81.3_{79.8}^{82.9}$``; what cannot be told from the best is underlined."""
    return '\n'.join(_latex(table) for table in tables)


def _latex(table: Table) -> str:
    units = {one.name for one in table.found.units}
    table = table.of([column.primary or column.name in units for column in table.columns])
    kinds: dict[tuple[bool, bool], Block] = {}  # levels, differences with their verdicts, then sites
    for place, column in enumerate(table.columns):
        kinds.setdefault((not column.primary, column.signed), []).append(place)
    blocks = [block for _, places in sorted(kinds.items()) for block in _blocks(table, places)]
    label = re.sub(r'[^A-Za-z0-9]+', '-', table.scenario).strip('-')
    first, *rest = _pages(table, blocks)
    told = as_latex(f'{table.scenario}: {table.found.score}, as in table ')
    more = [
        _float(table, page, f'{told}\\ref{{tab:{label}}}', f'{label}-{number}') for number, page in enumerate(rest, 2)
    ]
    return '\n'.join([_float(table, first, _caption(table), label, _below(table)), *more])


def _float(table: Table, blocks: Sequence[Block], caption: str, label: str, below: str = '') -> str:
    lines = [
        r'% needs \usepackage{booktabs}', r'\begin{table}', r'\centering', r'\footnotesize',
        r'\setlength{\tabcolsep}{4pt}', r'\renewcommand{\arraystretch}{1.35}',
        f'\\caption{{{caption}}}', f'\\label{{tab:{label}}}',
        '\n\\par\\medskip\n'.join(_tabular(table, block) for block in blocks), *([below] if below else []),
        r'\end{table}',
    ]  # fmt: skip
    return '\n'.join(lines) + '\n'


def _below(table: Table) -> str:
    """What was run, what limits the verdicts, and what to know before believing them: as in the other formats."""
    runs = table.found.runs
    told = [*head_of(runs), *table.found.notes, *remarks_on(table.found)]
    lines = '\\par\n'.join(map(as_latex, told))
    start = r'\par\medskip' + '\n' + r'\begin{minipage}{\linewidth}' + '\n' + r'\raggedright\scriptsize'
    return f'{start}\n{lines}\\par\n\\end{{minipage}}'


def _blocks(table: Table, places: Block) -> list[Block]:
    """Columns in as few parts as the width of a page allows, and these of about the same number."""
    room = PAGE_WIDTH - max(len(row.label) for row in table.rows)
    widths = {place: _width(table, place) for place in places}
    for parts in range(1, len(places) + 1):
        blocks = [list(map(int, part)) for part in np.array_split(places, parts)]
        if all(sum(widths[place] for place in block) <= room for block in blocks):
            break
    return blocks


def _width(table: Table, place: int) -> float:
    """The width of a column in characters."""
    column, margin = table.columns[place], points(table.found.margin)
    cells = (_cell_width(column, row.cells[place], margin) for row in table.rows)
    return COLUMN_GAP + max(*map(len, _head_lines(column)), *cells)


def _cell_width(column: Column, cell: Cell, margin: str) -> float:
    interval = _interval(column, cell)
    scripts = SCRIPT * max(map(len, interval)) if interval else 0
    return len(' '.join(filter(None, (value_text(column, cell), _brief(cell.word, margin))))) + scripts


def _pages(table: Table, blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Blocks by page; scores of sites begin a new one where not all blocks fit the first."""
    rows = len(table.rows) + 2
    fits = rows * len(blocks) <= PAGE_ROWS
    page: list[Block] = []
    for block in blocks:
        new_kind = bool(page) and table.columns[page[-1][0]].primary and not table.columns[block[0]].primary
        if page and not fits and (new_kind or rows * (len(page) + 1) > PAGE_ROWS):
            yield page
            page = []
        page.append(block)
    yield page


def _head_lines(column: Column) -> list[str]:
    raw = [f'({column.raw})'] if column.raw else []
    head = ' '.join([column.head, *raw])
    if len(head) <= HEAD_WIDTH:
        return [head]
    return textwrap.wrap(column.head, HEAD_WIDTH, break_long_words=False) + raw


def _head(column: Column) -> str:
    lines = [as_latex(line) for line in _head_lines(column)]
    stacked = r' \\ '.join(lines)
    return stacked if len(lines) == 1 else f'\\shortstack[r]{{{stacked}}}'


def _tabular(table: Table, places: Sequence[int]) -> str:
    columns = [table.columns[place] for place in places]
    head = ' & '.join([as_latex('recipe'), *map(_head, columns)]) + r' \\'
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
    interval = _interval(column, cell)
    if interval is None or cell.value is None:
        text = as_latex(' '.join(filter(None, (value_text(column, cell), word))))
    else:
        digits, (low, high) = digits_of(column, cell), interval
        value = (signed if column.signed else number)(cell.value, digits)
        raw = '' if cell.raw is None else f' ({number(cell.raw, digits)})'
        text = ' '.join(filter(None, (f'${value}_{{{low}}}^{{{high}}}${raw}', as_latex(word))))
    return f'\\underline{{{text}}}' if cell.dot else text


def _interval(column: Column, cell: Cell) -> tuple[str, str] | None:
    """Both ends as they are shown; None where there is no number with an interval."""
    if cell.hidden or cell.value is None or cell.lo is None or cell.hi is None:
        return None
    shown, digits = signed if column.signed else number, digits_of(column, cell)
    return shown(cell.lo, digits), shown(cell.hi, digits)


def _brief(word: str, margin: str) -> str:
    """A verdict for a narrow column: the caption has the margin, and other formats say what would decide.

    >>> _brief('undecided, ~12 seeds', '1 point'), _brief('better, below 1 point', '1 point')
    ('undecided', 'better, within margin')
    """
    return word.partition(', ~')[0].replace(f'no difference above {margin}', WITHIN).replace(f'below {margin}', WITHIN)
