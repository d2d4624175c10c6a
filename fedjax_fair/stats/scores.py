"""Scores of one test set and their influence values: how much each example moves the score.

``influence`` sums to 0 over the examples of a set, and ``score(sample) - score(truth)`` is about its sum over a new
sample. So the variance of a score that clusters of examples (patients) cause is the sum of squared cluster sums. Every
function takes ``values[..., n]`` of one set, any number of leading axes, and returns ``score[...]`` and
``influence[..., n]``; a score that is undefined is NaN.

References: DeLong 1988 and Obuchowski 1997 for AUC, Hand and Till 2001 for one-vs-one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of

Scored = tuple[np.ndarray, np.ndarray]


def mean(values: np.ndarray, label: np.ndarray | None = None) -> Scored:
    """The mean over examples: accuracy, Dice of images, any rate. Its influence is ``(y_i - score) / n``."""
    values = np.asarray(values, np.float64)
    score = values.mean(-1)
    return score, (values - score[..., None]) / values.shape[-1]


def balanced_accuracy(values: np.ndarray, label: np.ndarray) -> Scored:
    """The mean recall over the classes present; ``values`` are 1 for right answers.

    >>> score, influence = balanced_accuracy(np.array([1.0, 0.0, 1.0]), np.array([0, 0, 1]))
    >>> float(score), influence.tolist()
    (0.75, [0.125, -0.125, 0.0])
    """
    parts = [(label == k, mean(values[..., label == k])) for k in np.unique(label)]
    influence = np.zeros(values.shape, np.float64)
    for members, (_, own) in parts:
        influence[..., members] = own / len(parts)
    return np.mean([score for _, (score, _) in parts], 0), influence


def auc(values: np.ndarray, label: np.ndarray) -> Scored:
    """The area under the ROC curve of two classes, ties counting half, by placements from one sort.

    >>> score, _ = auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
    >>> float(score)
    0.75
    """
    from scipy.stats import rankdata  # takes long to import, and few commands need it

    values = np.where(np.isnan(values), np.inf, np.asarray(values, np.float64))  # NaN ties with NaN
    positive = np.asarray(label).astype(bool)
    n1, n0 = int(positive.sum()), int((~positive).sum())
    if not n1 or not n0:
        return np.full(values.shape[:-1], np.nan), np.zeros(values.shape)
    ranks = rankdata(values, axis=-1)
    beaten = (ranks[..., positive] - rankdata(values[..., positive], axis=-1)) / n0
    above = 1 - (ranks[..., ~positive] - rankdata(values[..., ~positive], axis=-1)) / n1
    score = beaten.mean(-1)
    influence = np.zeros(values.shape)
    influence[..., positive] = (beaten - score[..., None]) / n1
    influence[..., ~positive] = (above - score[..., None]) / n0
    return score, influence


def auc_ovo(values: np.ndarray, label: np.ndarray) -> Scored:
    """One class against one other, over all ordered pairs of classes present; ``values[..., n, K]``."""
    present = np.unique(label)
    pairs = [(a, b) for a in present for b in present if a != b]
    return _mean_of(values, ((values[..., a], (label == a) | (label == b), label == a) for a, b in pairs))


def auc_ovr(values: np.ndarray, label: np.ndarray) -> Scored:
    """Every class present against the rest; ``values[..., n, K]``."""
    present = np.unique(label)
    everyone = np.ones(len(label), bool)
    return _mean_of(values, ((values[..., k], everyone, label == k) for k in present if len(present) > 1))


def auc_multilabel(values: np.ndarray, label: np.ndarray) -> Scored:
    """The mean over the labels that some examples have and others lack; ``values[..., n, K]``, ``label[n, K]``."""
    everyone = np.ones(len(label), bool)
    mixed = [k for k in range(label.shape[-1]) if 0 < label[:, k].sum() < len(label)]
    return _mean_of(values, ((values[..., k], everyone, label[:, k] > 0) for k in mixed))


def _mean_of(values: np.ndarray, parts: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Scored:
    """The mean of two-class AUCs, each of one column of ``values``, its rows and its positives; NaN without parts."""
    scores, influence, count = np.zeros(values.shape[:-2]), np.zeros(values.shape[:-1]), 0
    for column, rows, positive in parts:
        score, own = auc(column[..., rows], positive[rows])
        scores += score
        influence[..., rows] += own
        count += 1
    return (scores / count, influence / count) if count else (np.full(scores.shape, np.nan), influence)


SCORES: dict[str, Callable[..., Scored]] = {
    'accuracy': mean,
    'dice': mean,
    'iou': mean,
    'mean': mean,
    'balanced_accuracy': balanced_accuracy,
    'auc': auc,
    'auc_ovo': auc_ovo,
    'auc_ovr': auc_ovr,
    'auc_multilabel': auc_multilabel,
}
ALIASES = {'balanced': 'balanced_accuracy'}
NEED_LABELS = ('balanced_accuracy', 'auc', 'auc_ovo', 'auc_ovr', 'auc_multilabel')
MATRIX_SCORES = ('auc_ovo', 'auc_ovr', 'auc_multilabel')  # a number per class for every example


def score_function(name: str, values: np.ndarray, label: np.ndarray | None) -> tuple[str, Callable[..., Scored]]:
    """The function of a score, and its exact name: ``auc`` of several columns is one-vs-one, or of labels."""
    name = ALIASES.get(name, name)
    if name not in SCORES:
        raise UserError(f'`score`={name!r} {not_one_of(name, SCORES, repr)}')
    if name in NEED_LABELS and label is None:
        raise UserError(f'`score`={name!r} needs `label`')
    if name == 'auc' and label is not None and np.ndim(values) == 4:
        name = 'auc_multilabel' if np.ndim(label) == 2 else 'auc_ovo'
    return name, SCORES[name]
