"""From the metrics of test sets to the numbers of a paper's table: one evaluation, the last k, several seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_fair.metrics import fairness

Summary = dict[str, Any]


def summarise(
    per_set: Mapping[str, Any],
    test_of,
    groups: Sequence[str] = (),
    group_of=None,
    per_client: bool = False,
    score: str = 'accuracy',
) -> Summary:
    """The summary of one evaluation of one kind of model, ready for JSON: undefined numbers are None.

    ``avg``, ``std`` and ``worst`` are over groups (ddof 1) when the federation has groups, else over clients (ddof 0);
    ``client_*`` are always over clients and ``group_*`` over groups. A group's value is the mean over its clients.
    Where classes are counted, ``client_class_std`` is every client's deviation over the classes of its test data.
    They are about the task's ``score``: accuracy, or Dice for segmentation, AUC for multi-label tasks. Under its own
    name the score is pooled: every distinct test example counts once. Every other number of the task (loss, ...) is
    averaged over groups or clients like ``avg``, and ``group_*`` gives it for every group. A client whose loss is not
    finite has a model that diverged: it has no numbers, and there are no statistics (:func:`diverged`). Where all
    clients have one model, no client has numbers then.

    Args:
        per_set: the task's metrics with a leading axis: test sets ``[G]`` for one global model, or clients ``[N]`` for
            deployed and adapted models, each evaluated on its own set. The score and ``count`` are required.
        test_of: ``[N]``, each client's test set.
        groups: names of the groups, empty where there are none.
        group_of: ``[N]``, each client's group.
        per_client: the leading axis of ``per_set`` is clients.
        score: the number that fairness is about.

    >>> result = summarise({'accuracy': [0.5, 0.9], 'count': [10, 30]}, test_of=[0, 0, 1])
    >>> round(result['accuracy'], 3), round(result['avg'], 3), result['worst'], result['client_accuracy']
    (0.8, 0.633, 0.5, [0.5, 0.5, 0.9])
    """
    test_of, per_set = np.asarray(test_of), {k: np.asarray(v, np.float64) for k, v in per_set.items()}
    _check(per_set, test_of, groups, group_of, per_client, score)
    own = per_set if per_client else {k: v[test_of] for k, v in per_set.items()}
    client = np.where(own['count'] > 0, own[score], np.nan)
    group = fairness.group_means(client, group_of, len(groups)) if groups else np.array([])

    result = {score: _pooled(per_set, test_of, per_client, score), **_statistics(client, group, score)}
    if 'confusion' in own:
        found = fairness.client_data_fairness(own['confusion'])
        result['mu_sigma'], result['sigma_sigma'], result['client_class_std'] = found
    for name in (name for name in own if name not in (score, 'count', 'confusion')):
        values = np.where(own['count'] > 0, own[name], np.nan)
        if groups:
            values = result[f'group_{name}'] = fairness.group_means(values, group_of, len(groups))
        result[name] = fairness.mean(values)
    has_diverged = diverged(own)
    if not per_client:  # a model that diverged on one test set predicts nothing on the others either
        has_diverged = np.full_like(has_diverged, has_diverged.any())
    return _json(_without_diverged(result, has_diverged, groups, group_of))


def diverged(per_set: Mapping[str, Any]) -> np.ndarray:
    """Which test sets, or clients, have a model that diverged: its loss on test data is NaN or infinite.

    >>> diverged({'count': [5, 5, 0], 'loss': [0.3, np.inf, np.nan]}).tolist()
    [False, True, False]
    """
    tested = np.asarray(per_set['count']) > 0
    return tested & ~np.isfinite(per_set['loss']) if 'loss' in per_set else np.zeros_like(tested)


def _without_diverged(result: Summary, has_diverged: np.ndarray, groups: Sequence[str], group_of) -> Summary:
    """A summary without the numbers of clients whose models diverged, and of groups that have such clients.

    There are no statistics then: those over the other clients would pass for those over all.
    """
    if not has_diverged.any():
        return result
    whole = [not has_diverged[np.asarray(group_of) == group].any() for group in range(len(groups))]
    for name, values in _lists(result).items():
        result[name] = np.where(~has_diverged if name.startswith('client_') else whole, values, math.nan)
    return _without_statistics(result)


def _lists(result: Summary) -> Summary:
    """The numbers of single clients and groups."""
    return {name: value for name, value in result.items() if np.ndim(value)}


def _without_statistics(result: Summary) -> Summary:
    return dict.fromkeys(result, math.nan) | _lists(result)


def last_k(history: Sequence[Summary], k: int, score: str = 'accuracy') -> Summary:
    """One summary of the last ``k`` evaluations: scores are averaged first, statistics computed after.

    Each client's and each group's score is averaged over the evaluations, then avg, std, worst and the rest are
    computed from these averages, as in FedHEAL (CVPR 2024). Its std is at most the mean of the single stds. Numbers
    that do not derive from these scores are averaged. ``k=1`` gives the last evaluation itself; with fewer than
    ``k`` evaluations all are used.
    """
    if k < 1:
        raise ValueError(f'k must be at least 1, got {k}')
    if not history:
        raise ValueError('history must hold at least one evaluation, got none')
    averaged = {key: entry['mean'] for key, entry in over_seeds(history[-k:]).items()}
    client, group = (_floats(averaged[f'{who}_{score}']) for who in ('client', 'group'))
    found = averaged | _statistics(client, group, score)
    return _json(_without_statistics(found) if averaged.get('loss', 0) is None else found)


def over_seeds(summaries: Sequence[Summary]) -> dict[str, dict[str, Any]]:
    """Mean and population standard deviation (ddof 0) over seeds of every number; lists element by element.

    A number undefined for any seed is None: a mean over fewer seeds would pass for one over all.

    >>> over_seeds([{'avg': 0.5, 'client_accuracy': [0.25, 0.75]}, {'avg': 0.75, 'client_accuracy': [0.75, None]}])
    {'avg': {'mean': 0.625, 'std': 0.125}, 'client_accuracy': {'mean': [0.5, None], 'std': [0.25, None]}}
    """
    if not summaries:
        raise ValueError('summaries must hold at least one seed, got none')
    values = {key: np.stack([_floats(summary[key]) for summary in summaries]) for key in summaries[0]}
    return {key: {'mean': _json(v.mean(0)), 'std': _json(v.std(0))} for key, v in values.items()}


def _statistics(client: np.ndarray, group: np.ndarray, score: str) -> Summary:
    """All numbers that derive from the scores of clients ``[N]`` and groups ``[G]`` (empty: no groups)."""
    values, ddof = (group, 1) if group.size else (client, 0)
    return {
        'avg': fairness.mean(values),
        'std': fairness.std(values, ddof),
        'worst': fairness.worst(values),
        'client_mean': fairness.mean(client),
        'client_std': fairness.std(client),
        'client_worst': fairness.worst(client),
        'client_worst_10pct': fairness.worst_share(client, 0.1),
        'client_gap': fairness.best_worst_gap(client),
        'client_jain': fairness.jain_index(client),
        'group_std': fairness.std(group, 1),
        'group_gap': fairness.best_worst_gap(group),
        f'client_{score}': client,
        f'group_{score}': group,
    }


def _pooled(per_set: Mapping[str, np.ndarray], test_of: np.ndarray, per_client: bool, score: str) -> float:
    """The score over all distinct test examples; clients that share a set share its weight."""
    weight = per_set['count'] / np.bincount(test_of)[test_of] if per_client else per_set['count']
    weight = np.where(np.isnan(per_set[score]), 0, weight)  # a set on which the score is undefined says nothing
    return float(np.sum(weight * np.nan_to_num(per_set[score])) / weight.sum()) if weight.sum() else math.nan


def _check(per_set, test_of, groups, group_of, per_client, score) -> None:
    missing = {score, 'count'} - per_set.keys()
    if missing:
        raise ValueError(f'per_set lacks {sorted(missing)}; it has {sorted(per_set)}')
    length = len(per_set[score])
    if per_client and length != len(test_of):
        raise ValueError(f'per_set has {length} rows for {len(test_of)} clients; per_client needs one row per client')
    if not per_client and test_of.max(initial=0) >= length:
        raise ValueError(f'test_of names test set {test_of.max()}, but per_set has {length} test sets')
    if groups and (group_of is None or len(group_of) != len(test_of)):
        given = None if group_of is None else len(group_of)
        raise ValueError(f'group_of must give a group for each of {len(test_of)} clients, got {given}')


def _floats(value) -> np.ndarray:
    return np.asarray(value, np.float64)  # None becomes NaN


def _json(value):
    """Plain Python numbers and lists; NaN and infinities become None."""
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim):
        return [_json(item) for item in value]
    return float(value) if value is not None and math.isfinite(value) else None
