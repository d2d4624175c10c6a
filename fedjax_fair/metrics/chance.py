"""What a model scores that has learned nothing: the line that every result is read beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_fair.metrics.summary import summarise

GUESSING = ('auc', 'auc_ovo', 'auc_ovr')  # scores that are 1/2 for any model that cannot tell examples apart


def chance_levels(
    score: str, labels: Any, mask: Any, test_of: Any, groups: Sequence[str] = (), group_of: Any = None
) -> dict[str, float | None] | None:
    """The AVG of models that always answer one class, of masks the background; None where a score has no such level.

    ``global``: all clients get the same answer, the one that scores best over all of them. ``own``: every client gets
    the best answer for its own test set, as personal models could. Where labels are equally frequent everywhere, both
    are one over the number of classes. An AUC is 1/2.

    Args:
        score: the score that fairness is about.
        labels: ``[G, M]`` classes of the test sets, or masks ``[G, M, H, W]``.
        mask: ``[G, M]``, the real examples.
        test_of: ``[N]``, each client's test set.
        groups: names of the groups, empty where there are none.
        group_of: ``[N]``, each client's group.

    >>> labels, mask = [[0, 0, 0, 1], [1, 1, 1, 0]], np.ones((2, 4), bool)
    >>> chance_levels('accuracy', labels, mask, test_of=[0, 1])
    {'global': 0.5, 'own': 0.75}
    """
    if score in GUESSING:
        return {'global': 0.5, 'own': 0.5}
    labels, mask = np.asarray(labels), np.asarray(mask, bool)
    if score == 'dice' and labels.ndim == 4:
        empty = [_all_background(row[real]) for row, real in zip(labels, mask, strict=True)]
        per_set = {score: np.array(empty), 'count': mask.sum(1)}
        level = summarise(per_set, test_of, groups, group_of, score=score)['avg']
        return {'global': level, 'own': level}
    if score not in ANSWERS or labels.ndim != 2:
        return None
    classes = int(labels.max(initial=0)) + 1
    counts = np.stack([np.bincount(row[real], minlength=classes) for row, real in zip(labels, mask, strict=True)])
    answers = ANSWERS[score](counts)  # [G, K]: what a set scores where the answer is always class k

    def average(levels: np.ndarray) -> float | None:
        per_set = {score: levels, 'count': counts.sum(1)}
        return summarise(per_set, test_of, groups, group_of, score=score)['avg']

    constant = [level for answer in answers.T if (level := average(answer)) is not None]
    return {'global': max(constant, default=None), 'own': average(answers.max(1))}


def _all_background(masks: np.ndarray) -> float:
    """The foreground Dice of no foreground at all: the share of foreground classes that images do not have."""
    if not len(masks):
        return 0.0
    classes = range(1, max(2, int(masks.max()) + 1))
    return float(np.mean([[(mask != k).all() for k in classes] for mask in masks]))


def _shares(counts: np.ndarray) -> np.ndarray:
    """The accuracy of answering every class alone: its share of the examples."""
    return counts / np.maximum(counts.sum(1, keepdims=True), 1)


def _one_of_all(counts: np.ndarray) -> np.ndarray:
    """The mean recall of answering one class alone: one over the number of classes that a set has."""
    present = counts > 0
    return present / np.maximum(present.sum(1, keepdims=True), 1)


ANSWERS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {'accuracy': _shares, 'balanced_accuracy': _one_of_all}
