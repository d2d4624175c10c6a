"""Cells and columns of a table, and cells as text: an estimate with its 95 % interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fedjax_fair.report.verdict_words import digits_beside, number, signed

ARROWS = {'high': ' ↑', 'low': ' ↓', '': ''}
DOT = '•'


class Cell(NamedTuple):
    """A number with its interval; None where undefined.

    ``raw`` is the number before its correction for the noise of tests. ``word`` is a verdict, ``dot`` marks a recipe
    that cannot be told from the best one, ``faint`` an interval that too few patients support. A ``hidden`` number is
    in CSV and JSON alone: the test score of a setting that was not chosen.
    """

    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    raw: float | None = None
    seed_sd: float | None = None
    word: str = ''
    dot: bool = False
    faint: bool = False
    hidden: bool = False


class Column(NamedTuple):
    """A column of numbers; ``better`` is 'high', 'low' or '', and ``about`` says in words what it holds.

    ``primary`` columns come first and carry the verdicts; all others are exploratory. ``signed`` numbers are
    differences with the baseline. ``raw`` names what stands in brackets. ``kind`` is 'level' or 'cost' where the
    numbers are from summaries and have no interval.
    """

    name: str
    better: str
    digits: int
    about: str
    cell: Callable[[int], Cell]
    primary: bool = False
    signed: bool = False
    raw: str = ''
    kind: str = ''

    @property
    def head(self) -> str:
        """The name with an arrow to what is better."""
        return self.name + ARROWS[self.better]


def value_text(column: Column, cell: Cell) -> str:
    """The estimate, and in brackets the number before its correction; a dash where undefined."""
    if cell.hidden:
        return '–'
    shown, digits = signed if column.signed else number, digits_of(column, cell)
    raw = '' if cell.raw is None else f'({number(cell.raw, digits)})'
    if cell.value is None:
        return raw or ('' if cell.word else '–')
    return ' '.join(filter(None, (shown(cell.value, digits), raw)))


def digits_of(column: Column, cell: Cell) -> int:
    """The digits of a column, or fewer where the interval of a cell is wide."""
    return digits_beside(cell.lo, cell.hi, column.digits)


def interval_text(column: Column, cell: Cell) -> str:
    """``[lo, hi]``, or the deviation over seeds where there is no interval."""
    if cell.hidden:
        return ''
    shown = signed if column.signed else number
    if cell.lo is not None and cell.hi is not None:
        return f'[{shown(cell.lo, digits_of(column, cell))}, {shown(cell.hi, digits_of(column, cell))}]'
    return '' if cell.seed_sd is None else f'seed sd {number(cell.seed_sd, column.digits)}'


def cell_text(column: Column, cell: Cell) -> str:
    """The whole cell in one line."""
    parts = (DOT if cell.dot else '', value_text(column, cell), interval_text(column, cell), cell.word)
    return ' '.join(filter(None, parts))
