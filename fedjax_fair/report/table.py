"""One table of results per scenario, in all formats the same: terminal, Markdown, LaTeX, CSV, JSON, HTML.

Every number comes from :class:`~fedjax_fair.results.findings.Findings`. A cell is an estimate with its 95 % interval,
in points; where predictions are missing it is a mean with its deviation over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of
from fedjax_fair.report.cells import Cell, Column
from fedjax_fair.report.verdict_words import in_units, short_word
from fedjax_fair.results import Run
from fedjax_fair.results.captions import MODEL_WORDS
from fedjax_fair.results.comparison import DIVERGED
from fedjax_fair.results.findings import MARGIN, Findings, findings, global_levels, swept_findings
from fedjax_fair.results.measures import NAMES, NO_SPREAD, TOO_FEW, Level, too_few

MOST_SITES = 8  # more columns of sites than this do not fit a page
RAW = {'spread': 'raw STD', 'worst': 'raw', 'gap': 'raw'}  # what stands in brackets
CORRECTED = ('worst', 'gap')  # for the noise of tests, where sites share no test examples
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

    @property
    def dotted(self) -> bool:
        """Whether a cell shows a dot."""
        return any(cell.dot and not cell.hidden for row in self.rows for cell in row.cells)

    @property
    def legend(self) -> str:
        """What the dots mean; empty where none is shown."""
        return 'A dot marks the recipes that cannot be told from the best one (Holm over all pairs).' * self.dotted

    def part(self, primary: bool, costs: bool = True) -> Table:
        """The primary columns alone, or the exploratory ones, with or without costs."""
        return self.of([column.primary == primary and (costs or column.kind != 'cost') for column in self.columns])

    def of(self, known: Sequence[bool]) -> Table:
        """Some of the columns."""
        places = [place for place, shown in enumerate(known) if shown]
        rows = tuple(Row(row.label, tuple(row.cells[place] for place in places)) for row in self.rows)
        return Table(self.found, tuple(self.columns[place] for place in places), rows)


def make_tables(
    runs: Sequence[Run],
    baseline: str | None = None,
    margin: float = MARGIN,
    swept: bool = False,
    metric: str | None = None,
) -> list[Table]:
    """A table for every scenario, in the order in which they come.

    ``baseline`` is the recipe or label of the run that the others are compared with, by default the first of a
    scenario; ``margin`` is the smallest difference of interest, in points. The runs may be the points of a sweep
    (``swept``): then the one that validation data choose is marked, and test scores are shown of this one alone.
    ``metric`` is another score than the one that runs say fairness is about (accuracy, balanced_accuracy, auc, dice,
    ...), as far as the runs kept what it needs.
    """
    names = dict.fromkeys(name for run in runs for name in (run.label, run.summary['recipe']))
    if baseline is not None and baseline not in names:
        raise UserError(f'`baseline`={baseline!r} {not_one_of(baseline, names, repr)}')
    scenarios = dict.fromkeys(run.scenario for run in runs)
    by_scenario = [[run for run in runs if run.scenario == one] for one in scenarios]
    return [make_table(own, baseline, margin, swept, metric) for own in by_scenario]


def make_table(
    runs: Sequence[Run],
    baseline: str | None = None,
    margin: float = MARGIN,
    swept: bool = False,
    metric: str | None = None,
) -> Table:
    """The table of runs of one scenario; see :func:`make_tables`."""
    place = next((i for i, run in enumerate(runs) if baseline in (run.label, run.summary['recipe'])), 0)
    found = swept_findings(runs, metric) if swept else findings(runs, place, margin, metric)
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


def _columns(found: Findings) -> list[Column]:
    columns = [_level(found, key, primary=True) for key in ('avg', 'spread', 'worst') if key in found.measures]
    if found.swept:
        about = 'mean score on validation data, %'
        columns.insert(0, _of_runs(found, Column(VALIDATION, 'high', 1, about, _none, primary=True), _validation))
    elif len(found.runs) > 1:
        columns += [_against(found, key) for key in ('avg', 'spread') if key in found.measures]
    columns += [] if found.metric else _beside(found)
    if len(found.units) <= MOST_SITES:
        columns += [_level(found, f'site:{one.name}') for one in found.units]
    clients = 'client_' if 'client_worst10' in found.measures else ''
    columns += [_level(found, clients + key) for key in ('spread', 'worst10') if _is_more(found, clients + key)]
    columns.append(_of_runs(found, Column('loss', 'low', 3, 'mean test loss', _none), _statistic('loss', scale=1.0)))
    return [*columns, *_other_models(found), *_costs(found)]


def _beside(found: Findings) -> list[Column]:
    """Of segmentations the Dice that is not their score."""
    scores = {run.score for run in found.runs}
    others = {name: words for name, words in DICE.items() if scores & set(DICE) and scores != {name}}
    return [
        _of_runs(found, Column(head, 'high', 1, about, _none), _statistic(name))
        for name, (head, about) in others.items()
    ]


def _other_models(found: Findings) -> list[Column]:
    """Of models that are not the headline of a run: AVG, spread and worst of the global one, AVG after adaptation."""
    columns = []
    if any(run.headline != 'global' for run in found.runs):
        columns += [_of_global_model(found, key) for key in ('avg', 'spread', 'worst')]
    if found.metric is None and any(run.differs('adapted') for run in found.runs):
        about = f'mean {found.score} of {MODEL_WORDS["adapted"]}, %'
        columns.append(_of_runs(found, Column('adapted AVG', 'high', 1, about, _none), _statistic('avg', 'adapted')))
    return columns


def _of_global_model(found: Findings, key: str) -> Column:
    """One statistic of the global model, with its interval, of every run."""
    name, about = (text.replace('{score}', found.score).replace('{over}', found.over) for text in NAMES[key])
    better = 'low' if key == 'spread' else 'high'
    levels = [global_levels(run, found.metric).get(key) for run in found.runs]
    column = Column(f'global model {name}', better, 1, f'of the global model: {about}', _none, kind='level')
    return _with_raw(column._replace(cell=lambda place: _level_cell(levels[place], key)), key, levels)


def _level_cell(level: Level | None, key: str) -> Cell:
    """The cell of a level. Of worst and gap the interval is that of the raw number, beside the corrected one."""
    if level is None:
        return Cell()
    if key in CORRECTED and level.corrected is not None:
        return Cell(level.corrected, level.lo, level.hi, level.estimate)
    return Cell(level.estimate, level.lo, level.hi, level.raw, level.seed_sd)


def _with_raw(column: Column, key: str, levels: Sequence[Level | None]) -> Column:
    """The column, with a name for what stands in brackets.

    Worst and gap cannot be corrected where sites share test examples. A column that has raw numbers alone is named so,
    and among corrected numbers a raw one is marked.
    """
    if key not in CORRECTED:
        return column._replace(raw=RAW.get(key, ''))
    known = [level is not None and level.corrected is not None for level in levels]
    if not any(known):
        measured = any(level is not None and level.estimate is not None for level in levels)
        return column._replace(name=f'raw {column.name}') if measured else column

    def cell(place: int) -> Cell:
        own = column.cell(place)
        return own if known[place] or own.value is None else own._replace(word=own.word or RAW[key])

    return column._replace(raw=RAW[key], cell=cell)


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
    """The levels of one measure."""
    measure = found.measures[key]
    statistic = key.removeprefix('client_')
    faint = too_few(measure.patients)
    lost = [run.diverged() for run in found.runs]

    def cell(place: int) -> Cell:
        level = measure.levels[place]
        if level is None:
            return Cell(word=DIVERGED if lost[place] else '')
        word, dot = TOO_FEW if faint else '', bool(measure.best[place])
        return _level_cell(level, statistic)._replace(word=word, dot=dot, faint=faint)

    better = 'high' if measure.higher_is_better else 'low'
    return _with_raw(Column(measure.name, better, 1, measure.about, cell, primary), statistic, measure.levels)


def _against(found: Findings, key: str) -> Column:
    """Differences of one measure with the baseline, with verdicts."""
    measure, base = found.measures[key], found.base.label
    seeds = len(found.comparison.seeds) if found.comparison else 0

    def cell(place: int) -> Cell:
        if place == found.baseline:
            return Cell()
        difference = measure.differences[place]
        if difference is None and found.runs[place].diverged():
            return Cell(word=DIVERGED)
        if difference is None:
            return Cell(word=f'undecided ({found.reasons[place] or found.reasons[found.baseline]})')
        word = in_units(found, short_word(difference, found.margin, seeds))
        if difference.verdict == NO_SPREAD:  # what is left of a difference of two zeros is noise
            return Cell(word=word)
        return Cell(difference.estimate, difference.lo, difference.hi, word=word)

    about = f'{measure.name} minus that of {base}, points'
    return Column(f'{measure.name} vs {base}', '', 1, about, cell, primary=True, signed=True)


def _of_runs(found: Findings, column: Column, cell: Callable[[Run], Cell]) -> Column:
    """A column of what summaries hold, which has no interval."""
    return column._replace(cell=lambda place: cell(found.runs[place]), kind=column.kind or 'level')


def _statistic(name: str, kind: str | None = None, scale: float = 100.0) -> Callable[[Run], Cell]:
    def cell(run: Run) -> Cell:
        entry = (run.result(kind or run.headline) or {}).get(name)
        if run.diverged(kind):
            return Cell(word=DIVERGED)
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
