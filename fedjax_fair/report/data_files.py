"""The numbers of tables for programs: CSV in long form, and JSON."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from fedjax_fair.escaping import as_csv
from fedjax_fair.report.table import Table
from fedjax_fair.report.verdict_words import sentence
from fedjax_fair.results.comparison import DIVERGED
from fedjax_fair.results.findings import Findings
from fedjax_fair.results.measures import Difference, Level, Measure

VERSION = 1
CSV_COLUMNS = (
    'scenario', 'recipe', 'baseline', 'statistic', 'kind', 'primary', 'estimate', 'lo', 'hi', 'lo90', 'hi90', 'a',
    'df_a', 'kappa', 'df_kappa', 'p', 'p_holm', 'verdict', 'seeds_needed', 'patients_needed', 'seed_sd', 'raw',
    'corrected', 'in_best_set', 'seeds', 'patients', 'margin', 'chosen', 'score',
)  # fmt: skip


def to_csv(*tables: Table) -> str:
    """A row for every recipe, statistic and kind: ``level``, ``difference`` with the baseline, or ``cost``.

    Scores, spreads and their differences are in points. ``a`` and ``kappa`` are the variances that seeds and test
    patients cause, in squared points (of the spread: those of its square).
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, lineterminator='\n')
    writer.writeheader()
    for table in tables:
        for row in _rows(table):
            writer.writerow({name: _text(value) for name, value in row.items()})
    return out.getvalue()


def _rows(table: Table) -> list[dict[str, Any]]:
    found = table.found
    rows = []
    for place, run in enumerate(found.runs):
        chosen = None if found.chosen is None else place == found.chosen
        start: dict[str, Any] = {'scenario': run.scenario, 'recipe': run.label, 'chosen': chosen}
        score = {'score': found.metric or run.score}
        for measure in found.measures.values():
            about = start | score | {'statistic': measure.key, 'primary': measure.primary}
            if (level := measure.levels[place]) is not None:
                best = {'in_best_set': measure.best[place]}
                rows.append(about | {'kind': 'level'} | level._asdict() | best | _counts(found, place))
            elif run.diverged():
                rows.append(about | {'kind': 'level', 'verdict': DIVERGED} | _counts(found, place))
            if (difference := measure.differences[place]) is not None:
                own = {name: value for name, value in difference._asdict().items() if name in CSV_COLUMNS}
                more = {'kind': 'difference', 'baseline': found.base.label, 'margin': found.margin}
                rows.append(about | more | own | _counts(found, place))
        for column, cell in zip(table.columns, table.rows[place].cells, strict=True):
            if column.kind and cell.value is not None:
                own = {'statistic': column.name, 'kind': column.kind, 'primary': False}
                rows.append(start | own | {'estimate': cell.value, 'seed_sd': cell.seed_sd})
    return rows


def _counts(found: Findings, place: int) -> dict[str, int | None]:
    if found.comparison is None or place not in found.places:
        return {'seeds': len(found.runs[place].seeds), 'patients': None}
    return {'seeds': len(found.comparison.seeds), 'patients': found.comparison.patients}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return as_csv(value)
    return '' if value is None else f'{value:.6g}' if isinstance(value, float) else str(value)


def to_json(*tables: Table) -> str:
    """All numbers by scenario, recipe and statistic; docs/statistics.md describes the fields."""
    record = {'version': VERSION, 'unit': 'points', 'scenarios': [scenario_record(table.found) for table in tables]}
    return json.dumps(record, indent=1, allow_nan=False) + '\n'


def scenario_record(found: Findings) -> dict[str, Any]:
    """What is known about the runs of one scenario, as JSON has it."""
    comparison = found.comparison
    return {
        'scenario': found.base.scenario,
        'score': found.metric or found.base.score,
        'over': found.over,
        'baseline': found.base.label,
        'margin': found.margin,
        'seeds': None if comparison is None else list(comparison.seeds),
        'patients': None if comparison is None else comparison.patients,
        'patients_known': None if comparison is None else comparison.patients_known,
        'chosen': None if found.chosen is None else found.runs[found.chosen].label,
        'notes': found.notes,
        'recipes': [_recipe(found, place) for place in range(len(found.runs))],
    }


def _recipe(found: Findings, place: int) -> dict[str, Any]:
    run = found.runs[place]
    return {
        'recipe': run.label,
        'folders': [str(folder) for folder in (run.path, *run.more)],
        'undecided': found.reasons[place] or None,
        'words': sentence(found, place) or None,
        'statistics': {key: statistic_record(one, place) for key, one in found.measures.items()},
    }


def statistic_record(measure: Measure, place: int) -> dict[str, Any]:
    """Level and difference of one recipe; None where there is none."""
    level: Level | None = measure.levels[place]
    difference: Difference | None = measure.differences[place]
    return {
        'primary': measure.primary,
        'higher_is_better': measure.higher_is_better,
        'in_best_set': measure.best[place],
        'patients': measure.patients,
        'level': None if level is None else level._asdict(),
        'difference': None if difference is None else difference._asdict(),
    }
