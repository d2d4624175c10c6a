"""What lies below an output folder: runs, frontiers and the record of a search."""

from __future__ import annotations

import contextlib
import pathlib
from typing import Any

from fedjax_fair.errors import UserError
from fedjax_fair.results.data_seeds import is_unit
from fedjax_fair.results.files import CONFIG, FRONTIER, SUMMARY, TUNING, Folder, read_json
from fedjax_fair.results.runs import Run, begun_runs, load
from fedjax_fair.results.schema import checked_record
from fedjax_fair.results.shapes import NUMBER, TEXT, WHOLE, Shape, dict_of, fields, list_of, maybe

TUNING_FIELDS = {
    'budget': int,
    'objective': str,
    'rungs': list,
    'recipes': dict,
    'trial_seeds': list,
    'validation': float,
}
LEARNED = dict_of(Shape('true or false', lambda value: isinstance(value, bool)))
TRIAL = fields({'point': dict_of(NUMBER), 'scores': dict_of(maybe(NUMBER)), 'learned': LEARNED}, may_lack=('learned',))
SETS = ('validation_sets', 'validation_examples')
SEARCHED = fields({'space': dict_of(TEXT), 'trials': list_of(TRIAL), **dict.fromkeys(SETS, WHOLE)}, may_lack=SETS)
OBJECTIVES = ('mean', 'worst')
TUNING_SHAPES = {
    'objective': Shape(f'one of {", ".join(OBJECTIVES)}', lambda value: value in OBJECTIVES),
    'rungs': list_of(fields({'trials': WHOLE, 'rounds': WHOLE})),
    'recipes': dict_of(Shape(SEARCHED.words, lambda value: SEARCHED.fits(value) and _is_choice(value))),
}


def _is_choice(found: dict[str, Any]) -> bool:
    """Whether the trial that was chosen is one of them; none is before the end of the search."""
    if found.get('chosen') is None:
        return True
    return found['chosen'] in range(len(found['trials'])) and NUMBER.fits(found.get('examples_trained'))


def run_folders(out: Folder) -> list[pathlib.Path]:
    """The runs below a folder that a table compares, finished or not; one folder for all data seeds of a run.

    Trials of tuning are not among them, since they are not tested; nor are the points of frontiers, which are drawn as
    curves.
    """
    found = [path for path in begun_runs(out) if not _is_on_frontier(path.relative_to(out)) and not _is_trial(path)]
    return sorted({path.parent if is_unit(path) and (path / SUMMARY).exists() else path for path in found})


def _is_trial(folder: pathlib.Path) -> bool:
    """Whether the files of a run say so; one that cannot be read is left to whoever loads it."""
    try:
        record = read_json(folder / CONFIG)
    except UserError:
        return False
    return isinstance(record, dict) and record.get('scored_on') == 'validation'


def _is_on_frontier(place: pathlib.Path) -> bool:
    """Whether a folder is ``.../frontier/NAME/NAME=VALUE``."""
    return place.parent.parent.name == FRONTIER and place.name.startswith(f'{place.parent.name}=')


def frontiers(out: Folder) -> dict[str, dict[float, Run]]:
    """The frontiers in a folder: for every hyper-parameter its values, in order, and the run of each."""
    found: dict[str, dict[float, Run]] = {}
    for path in sorted(pathlib.Path(out, FRONTIER).glob(f'*/*/{SUMMARY}')):
        name, _, value = path.parent.name.partition('=')
        if name == path.parent.parent.name and (number := _number(value)) is not None:
            found.setdefault(name, {})[number] = load(path.parent)
    return {name: dict(sorted(runs.items())) for name, runs in found.items()}


def _number(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return float(text)
    return None


def tuning(out: Folder) -> dict[str, Any]:
    """What tuning.json of a folder holds."""
    path = pathlib.Path(out) / TUNING
    return checked_record(read_json(path), TUNING_FIELDS, path, TUNING_SHAPES)
