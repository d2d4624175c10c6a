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
from fedjax_fair.report.words import NOT_LEARNED, in_units, number, short_word, signed
from fedjax_fair.results import Run, score_of
from fedjax_fair.results.findings import MARGIN, Findings, findings, swept_findings
from fedjax_fair.results.measures import TOO_FEW, Measure
from fedjax_fair.results.words import MODEL_WORDS

MOST_SITES = 8  # more columns of sites than this do not fit a page
ARROWS = {'high': ' ↑', 'low': ' ↓', '': ''}
DOT = '•'
VALIDATION = 'validation'
DICE = {  # a segmentation shows both, one of them as its score
    'dice': ('foreground Dice', 'Dice of the foreground, mean over images, %'),
    'dice_with_background': ('Dice with background', 'Dice, mean over images and classes, %'),
}
COSTS = (
    ('steps/round', 'low', 0, 'local steps of all clients in a round'),
    ('examples/round', 'low', 0, 'examples that clients read in a round, for training and for measurements'),
    ('gradients/round', 'low', 0, 'batches of which clients take a gradient in a round'),
    ('kB down/round', 'low', 1, 'sent to clients in a round, in 1000 bytes'),
    ('kB up/round', 'low', 1, 'sent by clients in a round, in 1000 bytes'),
    ('load/core', '', 2, 'mean load of the machine per core during the run'),
    ('s/round', '', 3, 'wall-clock seconds of a round, compilation apart; compare them at equal load only'),
)


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


def make_tables(
    runs: Sequence[Run], baseline: str | None = None, margin: float = MARGIN, swept: bool = False
) -> list[Table]:
    """A table for every scenario, in the order in which they come.

    ``baseline`` is the recipe or label of the run that the others are compared with, by default the first of a
    scenario; ``margin`` is the smallest difference of interest, in points. The runs may be the points of a sweep
    (``swept``): then the one that validation data choose is marked, and test scores are shown of this one alone.
    """
    names = dict.fromkeys(name for run in runs for name in (run.label, run.summary['recipe']))
    if baseline is not None and baseline not in names:
        raise UserError(f'`baseline`={baseline!r} {not_one_of(baseline, names, repr)}')
    scenarios = dict.fromkeys(run.scenario for run in runs)
    return [make_table([run for run in runs if run.scenario == one], baseline, margin, swept) for one in scenarios]


def make_table(runs: Sequence[Run], baseline: str | None = None, margin: float = MARGIN, swept: bool = False) -> Table:
    """The table of runs of one scenario; see :func:`make_tables`."""
    place = next((i for i, run in enumerate(runs) if baseline in (run.label, run.summary['recipe'])), 0)
    found = swept_findings(runs) if swept else findings(runs, place, margin)
    columns = [column for column in _columns(found) if any(_filled(column.cell(i)) for i in range(len(runs)))]
    rows = tuple(_row(found, columns, place) for place in range(len(runs)))
    return Table(found, tuple(columns), rows)


def _row(found: Findings, columns: Sequence[Column], place: int) -> Row:
    label = found.runs[place].label
    cells = tuple(column.cell(place) for column in columns)
    if found.chosen is None:
        return Row(label, cells)
    if place == found.chosen:
        return Row(f'{label} (chosen)', cells)
    tested = [column.name != VALIDATION and column.kind != 'cost' for column in columns]
    return Row(label, tuple(cell._replace(hidden=test) for cell, test in zip(cells, tested, strict=True)))


def _filled(cell: Cell) -> bool:
    return cell.value is not None or cell.raw is not None or bool(cell.word)


# --- cells as text -------------------------------------------------------------------------------------------------


def value_text(column: Column, cell: Cell) -> str:
    """The estimate, and in brackets the number before its correction; a dash where undefined.

    Worst and gap of sites that share test examples cannot be corrected: there the brackets stand alone.
    """
    if cell.hidden:
        return '–'
    shown = signed if column.signed else number
    raw = '' if cell.raw is None else f'({number(cell.raw, column.digits)})'
    if cell.value is None:
        return raw or ('' if cell.word else '–')
    return ' '.join(filter(None, (shown(cell.value, column.digits), raw)))


def interval_text(column: Column, cell: Cell) -> str:
    """``[lo, hi]``, or the deviation over seeds where there is no interval."""
    if cell.hidden:
        return ''
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
    if found.swept:
        about = 'mean score on validation data, %'
        columns.insert(0, _of_runs(found, Column(VALIDATION, 'high', 1, about, _none, primary=True), _validation))
    elif len(found.runs) > 1:
        columns += [_against(found, key) for key in ('avg', 'spread') if key in found.measures]
    columns += _beside(found)
    if len(found.sites) <= MOST_SITES:
        columns += [_level(found, f'site:{one.name}') for one in found.sites]
    clients = 'client_' if 'client_worst10' in found.measures else ''
    columns += [_level(found, clients + key) for key in ('spread', 'worst10') if _is_more(found, clients + key)]
    columns.append(_of_runs(found, Column('loss', 'low', 3, 'mean test loss', _none), _statistic('loss', scale=1.0)))
    return [*columns, *_other_models(found, score), *_costs(found)]


def _beside(found: Findings) -> list[Column]:
    """Of segmentations the Dice that is not their score."""
    scores = {run.score for run in found.runs}
    others = {name: words for name, words in DICE.items() if scores & set(DICE) and scores != {name}}
    return [
        _of_runs(found, Column(head, 'high', 1, about, _none), _statistic(name))
        for name, (head, about) in others.items()
    ]


def _other_models(found: Findings, score: str) -> list[Column]:
    """AVG of the models that are not the headline of a run."""
    shown = {
        'global': ('global model AVG', any(run.headline != 'global' for run in found.runs)),
        'adapted': ('adapted AVG', any(run.differs('adapted') for run in found.runs)),
    }
    return [
        _of_runs(
            found, Column(head, 'high', 1, f'mean {score} of {MODEL_WORDS[kind]}, %', _none), _statistic('avg', kind)
        )
        for kind, (head, wanted) in shown.items()
        if wanted
    ]


def _costs(found: Findings) -> list[Column]:
    """What a round costs: what the method asks for, then the time, which depends on the load of the machine."""
    columns = {name: Column(name, better, digits, about, _none, kind='cost') for name, better, digits, about in COSTS}
    cells = [*(_work(name) for name in ('steps', 'examples', 'gradient_passes')), _traffic('down'), _traffic('up')]
    cells += [_load, _seconds]  # a narrow terminal leaves out the last: a time is never shown without its load
    return [_of_runs(found, column, cell) for column, cell in zip(columns.values(), cells, strict=True)]


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
        word = in_units(found, short_word(difference, found.margin, seeds))
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
        known = run.repeats > 1 and entry['std'] is not None
        sd = scale * entry['std'] * np.sqrt(run.repeats / (run.repeats - 1)) if known else None
        return Cell(entry['mean'] * scale, seed_sd=sd)

    return cell


def _validation(run: Run) -> Cell:
    entry = run.validation
    return Cell() if entry is None or entry['mean'] is None else Cell(100 * entry['mean'])


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
    return Cell(1 / speed) if speed and _load(run).value is not None else Cell()


def _load(run: Run) -> Cell:
    return Cell(run.summary.get('load_per_core'))
