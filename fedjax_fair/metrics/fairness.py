"""Fairness statistics over clients and groups: NumPy on small arrays, after evaluation.

Undefined values are NaN and left out of every statistic: a client without test data has no accuracy, a client whose
test data hold one class has no AUC. Accuracies are fractions in [0, 1].
"""

from __future__ import annotations

import math

import numpy as np

TINY = 1e-100


def mean(values) -> float:
    """Mean of the defined values; NaN if there are none."""
    kept = _defined(values)
    return float(kept.mean()) if kept.size else math.nan


def std(values, ddof: int = 0) -> float:
    """Standard deviation of the defined values; ``ddof=1`` is the sample one, NaN for a single value."""
    kept = _defined(values)
    return float(kept.std(ddof=ddof)) if kept.size > ddof else math.nan


def worst(values) -> float:
    """Smallest defined value; NaN if there are none."""
    kept = _defined(values)
    return float(kept.min()) if kept.size else math.nan


def worst_share(values, share: float = 0.1) -> float:
    """Mean of the worst ``ceil(share * n)`` values, at least one; ``share=1`` is the mean.

    >>> worst_share([0.9, 0.2, 0.4, 0.8], 0.5)
    0.30000000000000004
    """
    if not 0 < share <= 1:
        raise ValueError(f'share must lie in (0, 1], got {share}')
    kept = np.sort(_defined(values))
    return mean(kept[: max(1, math.ceil(round(share * kept.size, 9)))])  # 0.1 * 30 is just above 3 in floating point


def best_worst_gap(values) -> float:
    """Largest minus smallest defined value."""
    kept = _defined(values)
    return float(np.ptp(kept)) if kept.size else math.nan


def jain_index(values) -> float:
    """Jain's index ``(sum x)^2 / (n sum x^2)``: 1 when all are equal, ``1/n`` when one client has everything.

    Reference: Jain, Chiu and Hawe, A Quantitative Measure of Fairness and Discrimination, DEC-TR-301, 1984.
    """
    kept = _defined(values)
    if not kept.size:
        return math.nan
    largest = np.abs(kept).max()
    if largest == 0:
        return 1.0
    if largest < TINY:  # squares of smaller numbers are not exact, or zero
        kept = kept / largest
    return float(kept.sum() ** 2 / (kept.size * (kept**2).sum()))


def client_data_fairness(confusions) -> tuple[float, float, np.ndarray]:
    """How evenly each client's model serves the classes of that client.

    ``sigma_n`` is the standard deviation (ddof 0) of client n's per-class accuracies over the classes in its test data.
    A client that holds one class has ``sigma_n = 0``.

    Args:
        confusions: ``[N, K, K]`` counts, rows true.

    Returns:
        ``mu_sigma`` and ``sigma_sigma``, mean and standard deviation (ddof 0) of ``sigma_n``; and ``sigma_n[N]``.

    Reference: FedTilt, arXiv 2503.13537, fairness metrics of the experiments.
    """
    confusions = np.asarray(confusions, np.float64)
    total = confusions.sum(2)
    correct = np.diagonal(confusions, axis1=1, axis2=2)
    per_class = np.divide(correct, total, out=np.full_like(total, np.nan), where=total > 0)
    sigma_n = np.array([std(row) for row in per_class])
    return mean(sigma_n), std(sigma_n), sigma_n


def group_means(values, group_of, num_groups: int) -> np.ndarray:
    """Mean of the defined values of each group's clients; NaN for a group without any."""
    values, group_of = np.asarray(values, np.float64), np.asarray(group_of)
    return np.array([mean(values[group_of == group]) for group in range(num_groups)])


def _defined(values) -> np.ndarray:
    values = np.asarray(values, np.float64)
    return values[~np.isnan(values)]
