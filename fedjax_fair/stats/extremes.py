"""Worst score and gap without the bias that noise brings: the lowest of noisy scores is too low.

``2 min s - E[min(s + e)]`` with ``e_j`` normal of the test noise's variance takes the bias away once. It is for the
level that is shown; verdicts use the raw worst score.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
DEVIATIONS = np.array([-8, -5, -3, -1.5, 0, 1.5, 3, 5, 8])


def expected_min(p, sd) -> np.ndarray:
    """``E[min_j (p_j + e_j)]`` with independent ``e_j ~ N(0, sd_j^2)``, over the last axis.

    It is ``lo + integral_lo^hi prod_j P(p_j + e_j > t) dt``, where the product is 1 up to ``lo`` and 0 from ``hi``;
    Gauss-Legendre between the places where a factor bends.

    >>> round(float(expected_min([0.5, 0.5], [0.1, 0.1])), 6)  # 0.5 - 0.1 / sqrt(pi)
    0.443581
    """
    p, sd = np.broadcast_arrays(np.asarray(p, np.float64), np.asarray(sd, np.float64))
    flat = [_one(*pair) for pair in zip(p.reshape(-1, p.shape[-1]), sd.reshape(-1, p.shape[-1]), strict=True)]
    return np.array(flat).reshape(p.shape[:-1])


def _one(p: np.ndarray, sd: np.ndarray) -> float:
    low, high = (p - 8 * sd).min(), (p + 8 * sd).min()
    if not high > low:
        return float(low)
    near = p - 8 * sd < high  # the others never are the lowest
    p, sd = p[near], sd[near]
    bends = (p[:, None] + sd[:, None] * DEVIATIONS).ravel()
    ends = np.unique(np.clip([low, high, *bends], low, high))
    half = np.diff(ends) / 2
    t = (ends[:-1] + half)[:, None] + half[:, None] * NODES
    with np.errstate(divide='ignore', invalid='ignore'):
        above = np.where(sd > 0, ndtr((p - t[..., None]) / sd), p > t[..., None])
    return float(low + (half * (above.prod(-1) @ WEIGHTS)).sum())


def corrected_worst(scores: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """``2 min s - E[min(s + e)]`` over the last axis."""
    return 2 * scores.min(-1) - expected_min(scores, np.sqrt(variances))


def corrected_gap(scores: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """``2 gap - E[max(s + e)] + E[min(s + e)]``, at least 0."""
    sd = np.sqrt(variances)
    noisy = -expected_min(-scores, sd) - expected_min(scores, sd)
    return 2 * np.ptp(scores, -1) - noisy
