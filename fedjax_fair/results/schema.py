"""What the files of a run hold, and the names that older versions gave to it.

config.json    every setting, and beside them the facts of :data:`~fedjax_fair.results.facts.FACTS`
metrics.jsonl  a line per evaluation and seed: ``round``, ``seed``, ``train_loss`` and, for every kind of model that was
               evaluated, the numbers of :func:`~fedjax_fair.metrics.summarise`; where clients have validation sets,
               ``validation`` is the mean score over clients and ``validation_worst`` that of the worst group or client
summary.json   for every kind of model mean and deviation over seeds of these numbers, or None; what was run, and costs;
               what :func:`~fedjax_fair.results.federation_facts` says; ``remarks``, the parts of the recipe without
               an effect of their own, each as :class:`~fedjax_fair.core.idle.IdlePart`; ``tuned='validation'``:
               settings were chosen on validation data; ``scored_on='validation'``: a trial, whose numbers are about
               validation sets in place of test sets; ``headline``: the kind of model whose numbers come first;
               ``rounds_reported``: of every seed the rounds that are averaged; ``validation``: the score on validation
               sets at these rounds; ``score_about``: what the score is; ``work_per_round``: steps, examples, and
               passes through the network of all clients; ``load_per_core``: how busy the machine was;
               ``layouts``: how it was computed, several ones if it went on in another way; ``never_sampled``: of every
               seed the clients that took part in no round, whose own models are therefore the global one; ``history``:
               length and checksum of metrics.jsonl, from which the numbers come
sweep.json     of a folder with a grid: every point with its validation and test scores, and which one is chosen
tuning.json    of a folder in which recipes were tuned: the budget, every trial with its validation score, the choice
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fedjax_fair.core.evaluate import MODEL_KINDS
from fedjax_fair.core.idle import IdlePart
from fedjax_fair.errors import UserError
from fedjax_fair.results.shapes import (
    DICT,
    NUMBER,
    NUMBERS,
    TEXT,
    TRUTH,
    WHOLE,
    Shape,
    check_shapes,
    dict_of,
    either,
    fields,
    list_of,
    maybe,
)

CONFIG_FIELDS = {'recipe': str, 'scenario': str}
LINE_FIELDS = {'round': int, 'seed': int, 'global': dict}
SUMMARY_FIELDS = {
    'recipe': str,
    'scenario': str,
    'model': str,
    'rounds': int,
    'groups': list,
    'global': dict,
    'remarks': list,
    'problems': list,
}
CONFIG_SHAPES = {
    **dict.fromkeys(('rounds', 'local_epochs', 'local_steps', 'batch_size', 'last_k'), WHOLE),
    **dict.fromkeys(('lr', 'participation'), NUMBER),
    **dict.fromkeys(('model', 'norm', 'local_optimizer', 'select'), TEXT),
    'seeds': list_of(WHOLE),
    'data_seed': WHOLE,
    'data': DICT,
    'hyper': DICT,
    'model_options': either(DICT, TEXT),
    'plugin_files': list_of(fields({'name': TEXT, 'sha256': TEXT})),
}
SUMMARY_SHAPES = {
    **dict.fromkeys(('task', 'score', 'score_about', 'tuned'), TEXT),
    **dict.fromkeys(('clients', 'cores'), WHOLE),
    **dict.fromkeys(('seconds', 'compile_seconds', 'first_train_loss', 'examples_trained'), NUMBER),
    **dict.fromkeys(('rounds_per_second', 'load_per_core', 'padding_waste'), NUMBER),
    **dict.fromkeys(('work_per_round', 'bytes_per_round', 'failures', 'predictions_bytes'), dict_of(NUMBER)),
    **dict.fromkeys(('groups', 'problems', 'class_names'), list_of(TEXT)),
    **dict.fromkeys(('seeds', 'selected_rounds', 'group_of'), list_of(WHOLE)),
    'headline': Shape(
        f'one of {", ".join(MODEL_KINDS)}', lambda value: isinstance(value, str) and value in MODEL_KINDS
    ),
    'hyper': DICT,
    'split': maybe(fields({'options': DICT, 'tests_drawn': TRUTH})),
    'never_sampled': maybe(list_of(list_of(WHOLE))),
    'rounds_reported': list_of(Shape('a list of rounds', lambda value: list_of(WHOLE).fits(value) and bool(value))),
    'validation': fields({'mean': NUMBERS, 'std': NUMBERS}),
    'pictures': dict_of(TEXT),
    'tests': fields(
        {'names': list_of(TEXT), 'examples': list_of(WHOLE), 'patients': maybe(list_of(WHOLE))}, may_lack=('patients',)
    ),
    'chance': dict_of(maybe(NUMBER)),
    'history': fields({'bytes': WHOLE, 'checksum': WHOLE}),
}
LINE_SHAPES = {
    **dict.fromkeys(('train_loss', 'validation', 'validation_worst'), NUMBER),
    **dict.fromkeys(MODEL_KINDS, dict_of(NUMBERS)),
}
SINCE: dict[str, Any] = {
    'score': 'accuracy',
    'tests': None,
    'chance': None,
    'problems': [],
    'remarks': [],
}  # what older ones lack
REMARK_FIELDS = dict.fromkeys(IdlePart._fields, str)
STATISTIC = fields({'mean': NUMBERS, 'std': NUMBERS})
STATISTICS = ('avg', 'std', 'worst', 'client_std', 'client_worst_10pct')


def modern_summary(summary: Any) -> Any:
    """A summary as it is written today.

    Older ones call the global model ``metrics``. Those from before there were tasks do not name the score, and they say
    less of the data. The ``dice`` of older segmentations includes the background.

    >>> modern = modern_summary({'rounds': 5, 'metrics': {'avg': 1}})
    >>> modern['global'], modern['score'], modern['remarks']
    ({'avg': 1}, 'accuracy', [])
    """
    if not isinstance(summary, dict):
        return summary
    renamed = SINCE | {'global' if name == 'metrics' else name: value for name, value in summary.items()}
    if renamed['score'] == 'dice' and 'dice_foreground' in _numbers(renamed, 'global'):
        renamed['score'] = 'dice_with_background'
    return modern_kinds(renamed)


def modern_kinds(record: dict[str, Any]) -> dict[str, Any]:
    """A summary or a line of metrics.jsonl with the Dice of every kind of model under the names of today.

    >>> modern_kinds({'round': 5, 'global': {'dice': 0.9, 'group_dice': [0.9], 'dice_foreground': 0.8}})
    {'round': 5, 'global': {'dice_with_background': 0.9, 'group_dice_with_background': [0.9], 'dice': 0.8}}
    """
    old = {kind: numbers for kind in MODEL_KINDS if 'dice_foreground' in (numbers := _numbers(record, kind))}
    return record | {kind: {_dice_name(n): value for n, value in numbers.items()} for kind, numbers in old.items()}


def _numbers(record: dict[str, Any], kind: str) -> dict[str, Any]:
    """The numbers of one kind of model; none where the record is damaged, which is told later."""
    return numbers if isinstance(numbers := record.get(kind), dict) else {}


def _dice_name(name: str) -> str:
    """What a number of an older segmentation is called today."""
    if name in ('dice', 'client_dice', 'group_dice'):
        return f'{name}_with_background'
    return name.replace('dice_foreground', 'dice')


def checked_record(
    record: Any, needed: Mapping[str, Any], place: Any, shapes: Mapping[str, Shape] = MappingProxyType({})
) -> dict[str, Any]:
    """A JSON object after refusing one that lacks a field that is needed, or holds something of another shape."""
    if not isinstance(record, dict):
        raise UserError(f'{place}: must be a JSON object, is {type(record).__name__}')
    for name, kind in needed.items():
        if name not in record:
            raise UserError(f'{place}: lacks field {name!r}')
        if not isinstance(record[name], kind):
            raise UserError(f'{place}: field {name!r} must be {kind.__name__}, is {type(record[name]).__name__}')
    check_shapes(record, shapes, place)
    return record


def checked_summary(summary: Any, place: Any) -> dict[str, Any]:
    """A summary of today after refusing one that is not whole."""
    checked_record(summary, SUMMARY_FIELDS, place, SUMMARY_SHAPES)
    if None is not (rounds := summary.get('rounds_reported')) and len(rounds) != len(summary['seeds']):
        raise UserError(f"{place}: field 'rounds_reported' is about {len(rounds)} of {len(summary['seeds'])} seeds")
    for remark in summary['remarks']:
        checked_record(remark, REMARK_FIELDS, f"{place}: field 'remarks'")
    for kind in MODEL_KINDS:
        if summary.get(kind) is not None:
            _check_result(summary[kind], kind, summary, place)
    return summary


def _check_result(result: Any, kind: str, summary: dict[str, Any], place: Any) -> None:
    groups, per_group = summary['groups'], f'group_{summary["score"]}'
    wanted = (*STATISTICS, f'client_{summary["score"]}', per_group)
    checked_record(result, dict.fromkeys(wanted, dict), f'{place}: field {kind!r}')
    for name, entry in result.items():
        if not STATISTIC.fits(entry):
            raise UserError(f'{place}: field {kind}.{name} must hold mean and std')
    for name in STATISTICS:
        if isinstance(result[name]['mean'], list):
            raise UserError(f'{place}: field {kind}.{name} must hold one number, not a list')
    for name in (f'client_{summary["score"]}', per_group):
        if not isinstance(result[name]['mean'], list):
            raise UserError(f'{place}: field {kind}.{name} must hold a list of numbers')
    count = len(result[per_group]['mean'])
    if count != len(groups):
        raise UserError(f'{place}: field {kind}.{per_group} has {count} values for {len(groups)} groups')
