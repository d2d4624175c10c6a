"""A run that was repeated with several seeds of the data: a folder ``data_seed=K`` for each, read as one run.

The mean over the seeds of training within a data seed is one number of one unit; numbers of the run are over units.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_fair.metrics import over_seeds
from fedjax_fair.results.evaluations import Line
from fedjax_fair.results.files import SUMMARY
from fedjax_fair.results.schema import MODEL_KINDS

if TYPE_CHECKING:
    from fedjax_fair.results.runs import Run

PREFIX = 'data_seed='
Result = dict[str, dict[str, Any]]


def unit_name(data_seed: int) -> str:
    """The folder of one data seed.

    >>> unit_name(3)
    'data_seed=3'
    """
    return f'{PREFIX}{data_seed}'


def is_unit(folder: pathlib.Path) -> bool:
    """Whether a folder is that of one data seed."""
    return folder.name.startswith(PREFIX) and folder.name.removeprefix(PREFIX).isdecimal()


def unit_folders(folder: pathlib.Path) -> list[pathlib.Path]:
    """The folders of finished data seeds below a folder, by number; empty where there are none."""
    found = [path.parent for path in folder.glob(f'{PREFIX}*/{SUMMARY}')]
    return sorted(filter(is_unit, found), key=lambda path: int(path.name.removeprefix(PREFIX)))


def joined(units: Sequence[Run]) -> tuple[dict[str, Any], list[Line], dict[str, Any]]:
    """Config, history and summary of runs that differ in the seed of their data, as those of one run.

    The scores of clients stand one after another, since another data seed deals the examples anew.
    """
    first = units[0]
    if len(units) == 1:
        return first.config | {'data_seed': first.data_seeds}, first.history, first.summary
    config = first.config | {'data_seed': [seed for unit in units for seed in unit.data_seeds]}
    lines = [line for unit in units for line in _means(unit.history, unit.data_seeds[0])]
    summaries = [unit.summary for unit in units]
    same = all(one['groups'] == first.groups for one in summaries)
    group_of = [group for one in summaries for group in one.get('group_of') or []] if same else []
    summary = first.summary | {
        'seeds': first.seeds,
        'groups': first.groups if same else [],
        'group_of': group_of or None,
        'rounds_reported': [rounds for unit in units for rounds in unit.rounds_reported],
        'selected_rounds': None,
        'never_sampled': None,
        'headline': first.headline,
        **{kind: _over_units([one.get(kind) for one in summaries], same) for kind in MODEL_KINDS},
        **_costs(summaries),
    }
    if all(one.get('validation') for one in summaries):
        summary['validation'] = over_seeds([{'score': one['validation']['mean']} for one in summaries])['score']
    return config, sorted(lines, key=lambda line: (line['round'], line['seed'])), summary


def _means(history: Sequence[Line], data_seed: int) -> list[Line]:
    """One line for every round: the mean over the seeds of one data seed."""
    lines = []
    for number, group in itertools.groupby(sorted(history, key=lambda line: line['round']), lambda line: line['round']):
        own = list(group)
        line: Line = {'round': number, 'seed': data_seed, 'train_loss': _mean_of([one['train_loss'] for one in own])}
        if 'validation' in own[0]:
            line['validation'] = _mean_of([one['validation'] for one in own])
        for kind in (kind for kind in MODEL_KINDS if kind in own[0]):
            line[kind] = {name: entry['mean'] for name, entry in over_seeds([one[kind] for one in own]).items()}
        lines.append(line)
    return lines


def _over_units(results: Sequence[Result | None], same_groups: bool) -> Result | None:
    """Mean and deviation over units of their means; of clients all values, one unit after another."""
    known = [result for result in results if result is not None]
    if len(known) < len(results):
        return None
    found: Result = {}
    for name in (name for name in known[0] if all(name in one for one in known)):
        entries = [one[name] for one in known]
        if name.startswith('client_') and isinstance(entries[0]['mean'], list):
            found[name] = {key: [value for entry in entries for value in entry[key]] for key in ('mean', 'std')}
        elif isinstance(entries[0]['mean'], list) and not same_groups:
            found[name] = {'mean': [], 'std': []}
        else:
            found[name] = over_seeds([{name: entry['mean']} for entry in entries])[name]
    return found


def _costs(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Costs of a round are means over units, failures and seconds are their sums."""
    names = (
        'rounds_per_second', 'padding_waste', 'load_per_core', 'bytes_per_round', 'work_per_round', 'first_train_loss'
    )  # fmt: skip
    means = {name: _mean_of([one.get(name) for one in summaries]) for name in names}
    totals = {name: sum(one.get(name) or 0 for one in summaries) for name in ('seconds', 'compile_seconds')}
    kinds = summaries[0].get('failures') or {}
    failures = {kind: sum((one.get('failures') or {}).get(kind, 0) for one in summaries) for kind in kinds}
    return means | totals | {'failures': failures}


def _mean_of(values: Sequence[Any]) -> Any:
    """The mean of numbers, or of mappings name by name; None where one is missing."""
    if any(value is None for value in values):
        return None
    if isinstance(values[0], Mapping):
        return {name: _mean_of([value.get(name) for value in values]) for name in values[0]}
    return float(np.mean(values))
