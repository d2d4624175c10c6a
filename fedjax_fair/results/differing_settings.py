"""In what two runs differ beside their recipes: then a verdict is not about the recipes alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedjax_fair.results.facts import FACTS
from fedjax_fair.results.runs import Run

OWN = ('recipe', 'scenario', 'seeds')  # what a verdict names anyway
WITHOUT_EFFECT = (  # how a run is computed, watched and kept, and not what is trained
    *('client_map', 'chunk', 'devices', 'conv', 'examples', 'rows', 'remat', 'checkpoint_every', 'deterministic'),
    *('eval_batch_size', 'keep_predictions', 'adapt_every', 'plugins'),
)
DEFAULT = 'default'


def differing_settings(one: Run, other: Run) -> dict[str, tuple[Any, Any]]:
    """The settings in which two runs differ, beside their recipes and seeds, each with both values.

    What older versions did not record is not told. Options of methods belong to the recipe: of two recipes, those are
    told that both are given.
    """
    left_out = {*OWN, *WITHOUT_EFFECT, *FACTS, 'hyper'}
    known = [name for name in one.config if name in other.config and name not in left_out]
    pairs: dict[str, tuple[Any, Any]] = {}
    for name in known:
        pairs |= _pairs(name, one.config[name], other.config[name])
    hyper = [run.config.get('hyper') or {} for run in (one, other)]
    if one.config['recipe'] != other.config['recipe']:
        both = [name for name in hyper[0] if name in hyper[1]]
        hyper = [{name: own[name] for name in both} for own in hyper]
    pairs |= _pairs('hyper', *hyper)
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _pairs(name: str, one: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    """Both values of a setting, or of each option in a mapping of options; one that is not given has its default."""
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return {name: (one, other)}
    return {option: (one.get(option, DEFAULT), other.get(option, DEFAULT)) for option in {**one, **other}}


def differing_words(one: Run, other: Run) -> str:
    """In words, in what two runs differ; empty where it is in nothing."""
    told = [f'{name} ({_written(a)}, {_written(b)})' for name, (a, b) in differing_settings(one, other).items()]
    if not told:
        return ''
    more = '' if one.config['recipe'] == other.config['recipe'] else ' in more than the recipe'
    return f'{one.label} and {other.label} differ{more}: {", ".join(told)}'


def _written(value: Any) -> str:
    if value in (None, '', (), []):
        return 'none'
    if isinstance(value, list | tuple):
        return ' '.join(map(_written, value))
    return f'{value:g}' if isinstance(value, float) else str(value)
