"""Which evaluations the numbers of a run are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fedjax_fair.metrics import over_seeds
from fedjax_fair.results.evaluations import History

SELECTIONS = {'last_k': False, 'best_validation': True}  # whether validation chooses the evaluation that is reported
SHARE, MOST = 4, 5  # of the evaluations a quarter is averaged, and no more than five
FORMER_LAST_K = 5  # what runs were given that did not say, before the last quarter was the default
MOST_NAMED = 6  # more rounds than these are told as a range

One = TypeVar('One')


def reported(evaluations: Sequence[One], last_k: int | None = None) -> list[One]:
    """The last ``last_k`` evaluations; by default the last quarter, rounded up, and at most five.

    >>> reported([2, 4, 6, 8, 10, 12, 14, 16, 18, 20])
    [16, 18, 20]
    >>> reported([5, 10, 15, 20]), reported([5, 10, 15, 20], last_k=3)
    ([20], [10, 15, 20])
    """
    count = min(MOST, -(-len(evaluations) // SHARE)) if last_k is None else last_k
    return list(evaluations[-count:]) if evaluations else []


def rounds_reported(log: History, settings: Mapping[str, Any]) -> list[list[int]]:
    """The rounds of every seed of which its numbers are the mean."""
    if SELECTIONS[settings['select']]:
        return [[log.best(seed)['round']] for seed in settings['seeds']]
    rounds = [[line['round'] for line in log.lines if line['seed'] == seed] for seed in settings['seeds']]
    return [reported(of_seed, settings['last_k']) for of_seed in rounds]


def validation_score(log: History, seeds: Sequence[int], rounds: Sequence[Sequence[int]]) -> dict[str, Any] | None:
    """Mean and deviation over seeds of the validation score at the reported rounds; None without validation data.

    Both are None where a model diverged.
    """
    if not any('validation' in line for line in log.lines):
        return None
    scores = [
        np.array([line.get('validation') for line in log.lines if line['seed'] == seed and line['round'] in own], float)
        for seed, own in zip(seeds, rounds, strict=True)
    ]
    return over_seeds([{'score': of_seed.mean()} for of_seed in scores])['score']


def reported_in_words(rounds: Sequence[Sequence[int]]) -> str:
    """In words, which rounds of every seed the numbers are about.

    >>> reported_in_words([[16, 18, 20], [16, 18, 20]]), reported_in_words([[20]]), reported_in_words([[12], [8], [12]])
    ('means of rounds 16, 18, 20', 'numbers of round 20', 'numbers of rounds 12, 8, 12, by seed')
    """
    first = list(rounds[0])
    if any(list(of_seed) != first for of_seed in rounds):
        chosen = ', '.join(' and '.join(map(str, of_seed)) for of_seed in rounds)
        return f'numbers of rounds {chosen}, by seed'
    if len(first) == 1:
        return f'numbers of round {first[0]}'
    if len(first) > MOST_NAMED:
        return f'means of {len(first)} rounds from {first[0]} to {first[-1]}'
    return f'means of rounds {", ".join(map(str, first))}'
