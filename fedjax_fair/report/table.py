"""One table of results per scenario, which several dresses show: terminal, Markdown, LaTeX, CSV, JSON, HTML.

Every number comes from :class:`~fedjax_fair.results.findings.Findings`. A cell is an estimate with its 95 % interval,
in points; where predictions are missing it is a mean with its deviation over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of
from fedjax_fair.report.remarks import did_not_learn
from fedjax_fair.report.words import NOT_LEARNED, number, short_word, signed
from fedjax_fair.results import Run, score_of
from fedjax_fair.results.findings import MARGIN, Findings, findings
from fedjax_fair.results.measures import TOO_FEW, Measure

MOST_SITES = 8  # more columns of sites than this do not fit a page
ARROWS = {'high': ' ↑', 'low': ' ↓', '': ''}
DOT = '•'


class Cell(NamedTuple):
    """A number with its interval; None where undefined.

    ``raw`` is the number before its correction for the noise of tests. ``word`` is a verdict, ``dot`` marks a recipe
    that cannot be told from the best one, ``faint`` an interval that too few patients support.
    """

    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    raw: float | None = None
    seed_sd: float | None = None
    word: str = ''
    dot: bool = False
    faint: bool = False


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


class Row(NamedTuple):
    label: str
    cells: tuple[Cell, ...]


class Table(NamedTuple):
    """The runs of one scenario."""

    found: Findings
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def scenario(self) -> str:
        return self.found.base.scenario

    def part(self, primary: bool) -> Table:
        """The primary columns alone, or the exploratory ones."""
        places = [place for place, column in enumerate(self.columns) if column.primary == primary]
        rows = tuple(Row(row.label, tuple(row.cells[place] for place in places)) for row in self.rows)
        return Table(self.found, tuple(self.columns[place] for place in places), rows)


def make_tables(runs: Sequence[Run], baseline: str | None = None, margin: float = MARGIN) -> list[Table]:
    """A table for every scenario, in the order in which they come.

    ``baseline`` is the recipe or label of the run that the others are compared with, by default the first of a
    scenario; ``margin`` is the smallest difference of interest, in points.
    """
    names = dict.fromkeys(name for run in runs for name in (run.label, run.summary['recipe']))
    if baseline is not None and baseline not in names:
        raise UserError(f'`baseline`={baseline!r} {not_one_of(baseline, names, repr)}')
    scenarios = dict.fromkeys(run.scenario for run in runs)
    return [make_table([run for run in runs if run.scenario == one], baseline, margin) for one in scenarios]


def make_table(runs: Sequence[Run], baseline: str | None = None, margin: float = MARGIN) -> Table:
    """The table of runs of one scenario; see :func:`make_tables`."""
    place = next((i for i, run in enumerate(runs) if baseline in (run.label, run.summary['recipe'])), 0)
    found = findings(runs, place, margin)
    columns = [column for column in _columns(found) if any(_filled(column.cell(i)) for i in range(len(runs)))]
    rows = tuple(Row(run.label, tuple(column.cell(i) for column in columns)) for i, run in enumerate(runs))
    return Table(found, tuple(columns), rows)


def _filled(cell: Cell) -> bool:
    return cell.value is not None or cell.raw is not None or bool(cell.word)


# --- cells as text -------------------------------------------------------------------------------------------------


def value_text(column: Column, cell: Cell) -> str:
    """The estimate, and in brackets the number before its correction; a dash where undefined.

    Worst and gap of sites that share test examples cannot be corrected: there the brackets stand alone.
    """
    shown = signed if column.signed else number
    raw = '' if cell.raw is None else f'({number(cell.raw, column.digits)})'
    if cell.value is None:
        return raw or ('' if cell.word else '–')
    return ' '.join(filter(None, (shown(cell.value, column.digits), raw)))


def interval_text(column: Column, cell: Cell) -> str:
    """``[lo, hi]``, or the deviation over seeds where there is no interval."""
    shown = signed if column.signed else number
    if cell.lo is not None and cell.hi is not None:
        return f'[{shown(cell.lo, column.digits)}, {shown(cell.hi, column.digits)}]'
    return '' if cell.seed_sd is None else f'seed sd {number(cell.seed_sd, column.digits)}'


def cell_text(column: Column, cell: Cell) -> str:
    """The whole cell in one line."""
    parts = (DOT if cell.dot else '', value_text(column, cell), interval_text(column, cell), cell.word)
    return ' '.join(filter(None, parts))


# --- columns ---------------------------------------------------------------------------------------------------------


def _columns(found: Findings) -> list[Column]:
    score = score_of(found.runs)
    columns = [_level(found, key, primary=True) for key in ('avg', 'spread', 'worst') if key in found.measures]
    if len(found.runs) > 1:
        columns += [_against(found, key) for key in ('avg', 'spread') if key in found.measures]
    if len(found.sites) <= MOST_SITES:
        columns += [_level(found, f'site:{one.name}') for one in found.sites]
    clients = 'client_' if 'client_worst10' in found.measures else ''
    columns += [_level(found, clients + key) for key in ('spread', 'worst10') if _is_more(found, clients + key)]
    about = f'mean {score} of the {{}} models of the clients, %'
    columns.append(_of_runs(found, Column('loss', 'low', 3, 'mean test loss', _none), _statistic('loss', scale=1.0)))
    columns += [
        _of_runs(found, Column(f'{kind} AVG', 'high', 1, about.format(kind), _none), _statistic('avg', kind))
        for kind in ('deployed', 'adapted')
        if any(differs(run, kind) for run in found.runs)
    ]
    return [*columns, *_costs(found)]


def _costs(found: Findings) -> list[Column]:
    sent = Column('kB/round', 'low', 1, 'sent down and up in a round, in 1000 bytes', _none, kind='cost')
    seconds = Column('s/round', 'low', 3, 'wall-clock seconds of a round, compilation apart', _none, kind='cost')
    return [_of_runs(found, sent, _traffic), _of_runs(found, seconds, _seconds)]


def _none(place: int) -> Cell:
    return Cell()


def _is_more(found: Findings, key: str) -> bool:
    """Whether a statistic is there, and has no column yet."""
    return key in found.measures and key != 'spread'


def _level(found: Findings, key: str, primary: bool = False) -> Column:
    """The levels of one measure. Worst shows its corrected level, to which no interval belongs."""
    measure, learned = found.measures[key], _learned(found)
    worst = key.removeprefix('client_') in ('worst', 'gap')

    def cell(place: int) -> Cell:
        level = measure.levels[place]
        if level is None:
            return Cell()
        dot = learned[place] and bool(measure.best[place])
        if worst:
            return Cell(level.corrected, raw=level.estimate, dot=dot)
        faint = measure.patients is not None and _too_few(measure)
        word = TOO_FEW if faint else ''
        return Cell(level.estimate, level.lo, level.hi, level.raw, level.seed_sd, word, dot, faint)

    raw = {'spread': 'raw STD', 'worst': 'raw', 'gap': 'raw'}.get(key.removeprefix('client_'), '')
    better = 'high' if measure.higher_is_better else 'low'
    return Column(measure.name, better, 1, measure.about, cell, primary, raw=raw)


def _learned(found: Findings) -> list[bool]:
    """A model that did not learn is best in nothing, and fair to nobody."""
    return [not did_not_learn(run, run.headline) for run in found.runs]


def _too_few(measure: Measure) -> bool:
    return any(one is not None and one.verdict == TOO_FEW for one in measure.differences)


def _against(found: Findings, key: str) -> Column:
    """Differences of one measure with the baseline, with verdicts."""
    measure, base = found.measures[key], found.base.label
    seeds = len(found.comparison.seeds) if found.comparison else 0
    learned = _learned(found)

    def cell(place: int) -> Cell:
        if place == found.baseline:
            return Cell()
        difference = measure.differences[place]
        if difference is None:
            return Cell(word=f'undecided ({found.reasons[place] or found.reasons[found.baseline]})')
        word = short_word(difference, found.margin, seeds)
        if key != 'avg' and not learned[place]:  # the same score everywhere is no fairness where nothing was learned
            word = NOT_LEARNED
        return Cell(difference.estimate, difference.lo, difference.hi, word=word)

    about = f'{measure.name} minus that of {base}, points'
    return Column(f'{measure.name} vs {base}', '', 1, about, cell, primary=True, signed=True)


def _of_runs(found: Findings, column: Column, cell: Callable[[Run], Cell]) -> Column:
    """A column of what summaries hold, which has no interval."""
    return column._replace(cell=lambda place: cell(found.runs[place]), kind=column.kind or 'level')


def _statistic(name: str, kind: str | None = None, scale: float = 100.0) -> Callable[[Run], Cell]:
    def cell(run: Run) -> Cell:
        entry = (run.result(kind or run.headline) or {}).get(name)
        if entry is None or entry['mean'] is None:
            return Cell()
        seeds = len(run.seeds)
        sd = scale * entry['std'] * np.sqrt(seeds / (seeds - 1)) if seeds > 1 and entry['std'] is not None else None
        return Cell(entry['mean'] * scale, seed_sd=sd)

    return cell


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
