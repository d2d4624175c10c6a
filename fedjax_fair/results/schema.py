"""What the files of a run hold, and the names that older versions gave to it.

config.json    every setting, and beside them the facts of :data:`~fedjax_fair.results.facts.FACTS`
metrics.jsonl  a line per evaluation and seed: ``round``, ``seed``, ``train_loss`` and, for every kind of model that was
               evaluated, the numbers of :func:`~fedjax_fair.metrics.summarise`
summary.json   for every kind of model mean and deviation over seeds of these numbers, or None; what was run, and costs
"""

from __future__ import annotations

from typing import Any

from fedjax_fair.core.evaluate import MODEL_KINDS
from fedjax_fair.errors import UserError

CONFIG_FIELDS = {'recipe': str, 'scenario': str}
LINE_FIELDS = {'round': int, 'seed': int, 'global': dict}
SUMMARY_FIELDS = {'recipe': str, 'scenario': str, 'model': str, 'rounds': int, 'groups': list, 'global': dict}
STATISTICS = ('avg', 'std', 'worst', 'client_std', 'client_worst_10pct')


def modern_summary(summary: Any) -> Any:
    """A summary as it is written today.

    Older ones call the global model ``metrics``, and those from before there were tasks do not name the score.

    >>> modern_summary({'rounds': 5, 'metrics': {'avg': 1}})
    {'rounds': 5, 'global': {'avg': 1}, 'score': 'accuracy'}
    """
    if not isinstance(summary, dict):
        return summary
    renamed = {'global' if name == 'metrics' else name: value for name, value in summary.items()}
    return renamed if 'score' in renamed else {**renamed, 'score': 'accuracy'}


def checked_record(record: Any, fields: dict[str, Any], place: Any) -> dict[str, Any]:
    """A JSON object after refusing one that lacks a field, or holds another type in it."""
    if not isinstance(record, dict):
        raise UserError(f'{place}: must be a JSON object, is {type(record).__name__}')
    for name, kind in fields.items():
        if name not in record:
            raise UserError(f'{place}: lacks field {name!r}')
        if not isinstance(record[name], kind):
            raise UserError(f'{place}: field {name!r} must be {kind.__name__}, is {type(record[name]).__name__}')
    return record


def checked_summary(summary: Any, place: Any) -> dict[str, Any]:
    """A summary of today after refusing one that is not whole."""
    checked_record(summary, SUMMARY_FIELDS, place)
    for kind in MODEL_KINDS:
        if summary.get(kind) is not None:
            _check_result(summary[kind], kind, summary, place)
    return summary


def _check_result(result: Any, kind: str, summary: dict[str, Any], place: Any) -> None:
    groups, per_group = summary['groups'], f'group_{summary["score"]}'
    wanted = (*STATISTICS, f'client_{summary["score"]}', per_group)
    checked_record(result, dict.fromkeys(wanted, dict), f'{place}: field {kind!r}')
    for name, entry in result.items():
        if not isinstance(entry, dict) or not {'mean', 'std'} <= entry.keys():
            raise UserError(f'{place}: field {kind}.{name} must hold mean and std')
    count = len(result[per_group]['mean'])
    if count != len(groups):
        raise UserError(f'{place}: field {kind}.{per_group} has {count} values for {len(groups)} groups')
