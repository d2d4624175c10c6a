"""How often every class is recognised, from the predictions that runs kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedjax_fair.errors import UserError
from fedjax_fair.results.comparison import predictions_of
from fedjax_fair.results.runs import Run


def class_recalls(runs: Sequence[Run]) -> np.ndarray | None:
    """``[R, K]``: the share of test examples of a class (or with a label) that are recognised, mean over seeds.

    All test examples count alike, whatever their site. NaN for classes without examples and for runs without
    predictions; None where no run has any.
    """
    found = [_recalls(run) for run in runs]
    count = max((len(one) for one in found if one is not None), default=0)
    if not count:
        return None
    table = np.full((len(runs), count), np.nan)
    for row, one in zip(table, found, strict=True):
        if one is not None:
            row[: len(one)] = one
    return table


def _recalls(run: Run) -> np.ndarray | None:
    """The mean over data seeds."""
    try:
        kept = [predictions_of(run, seed) for seed in run.data_seeds]
    except UserError:
        return None
    known = [recalls_of(p, k) for one in kept if (p := one.prediction) is not None and (k := one.label) is not None]
    return np.mean(known, 0) if known and len({len(one) for one in known}) == 1 else None


def recalls_of(prediction: np.ndarray, label: np.ndarray) -> np.ndarray:
    """``[K]`` of one run, of classes or of labels that examples have or lack."""
    if label.ndim == 2:
        right = (prediction > 0) & (label > 0)
        with np.errstate(invalid='ignore'):
            return 100 * right.sum(2).mean((0, 1)) / (label > 0).sum(0)
    right = (prediction == label).mean((0, 1))
    classes = range(int(label.max()) + 1) if len(label) else range(0)
    return np.array([100 * right[label == k].mean() if (label == k).any() else np.nan for k in classes])
