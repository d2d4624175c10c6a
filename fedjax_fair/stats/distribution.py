"""The Behrens-Fisher distribution: the error of an estimate that has two sources, each with few degrees of freedom.

A difference of two recipes varies with the seeds (variance ``a``, ``df_a`` degrees of freedom) and with the test
patients (``kappa``, ``df_kappa``). Neither averages the other away, so the error is
``sqrt(a) t(df_a) + sqrt(kappa) t(df_kappa)``. Where one variance is 0 it is an ordinary t.

References: Behrens 1929, Fisher 1935; Robinson 1976 (it is conservative); Holm 1979.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr, stdtrit

# Tanh-sinh quadrature on [0, 1]: nodes crowd at both ends, where the integrand is steep or behaves like a root.
_STEP = 0.1
_T = np.arange(-31, 32) * _STEP
NODES = 1 / (1 + np.exp(-np.pi * np.sinh(_T)))
WEIGHTS = _STEP * np.pi * np.cosh(_T) * NODES * (1 - NODES)
STEPS = 60  # of the search for a half width; most end after ten


def behrens_fisher(x, a, df_a, kappa, df_kappa) -> np.ndarray:
    """``P(|sqrt(a) t(df_a) + sqrt(kappa) t(df_kappa)| >= |x|)``, element by element.

    ``kappa = 0`` or ``a = 0`` leave one ordinary t; where both are 0 the error is 0: 1 for ``x = 0``, else 0. With
    ``F`` the cdf of ``t(df_a)`` and ``z`` from ``t(df_kappa)`` it is ``2 E F(-(|x| - sqrt(kappa) z) / sqrt(a))``, by
    tanh-sinh quadrature in ``u = P(t <= z)`` on both sides of the steepest place, ``z = |x| / sqrt(kappa)``.
    Degrees of freedom below 1 count as 1.

    >>> round(float(behrens_fisher(2.5, 1.0, 4, 0.5, 30)), 4)
    0.0952
    >>> round(float(behrens_fisher(2.776445, 1.0, 4, 0.0, 1)), 4)
    0.05
    """
    x, a, df_a, kappa, df_kappa = np.broadcast_arrays(
        *(np.asarray(v, np.float64) for v in (x, a, df_a, kappa, df_kappa))
    )
    x, df_a, df_kappa = np.abs(x), np.maximum(df_a, 1), np.maximum(df_kappa, 1)
    both = (a > 0) & (kappa > 0)
    alone = np.where(a > 0, a, kappa)
    df_alone = np.where(a > 0, df_a, df_kappa)
    with np.errstate(divide='ignore', invalid='ignore'):
        p = np.where(alone > 0, 2 * stdtr(df_alone, -x / np.sqrt(alone)), np.where(x == 0, 1.0, 0.0))
    if both.any():
        p = np.array(p)
        p[both] = _two_sources(x[both], np.sqrt(a[both]), df_a[both], np.sqrt(kappa[both]), df_kappa[both])
    missing = np.isnan(x) | np.isnan(a) | np.isnan(kappa)
    return np.where(missing, np.nan, np.clip(p, 0, 1))


def _two_sources(x, root_a, df_a, root_kappa, df_kappa) -> np.ndarray:
    below, above = (stdtr(df_kappa, sign * x / root_kappa)[..., None] for sign in (1, -1))
    weights = np.concatenate([below * WEIGHTS, above * WEIGHTS], -1)
    df = df_kappa[..., None]
    z = np.concatenate([stdtrit(df, below * NODES), -stdtrit(df, above * NODES)], -1)
    tail = stdtr(df_a[..., None], (root_kappa[..., None] * z - x[..., None]) / root_a[..., None])
    return 2 * (weights * tail).sum(-1)


def half_width(level, a, df_a, kappa, df_kappa) -> np.ndarray:
    """Half the width of the interval that holds the truth with probability ``level``: :func:`behrens_fisher` inverted.

    >>> round(float(half_width(0.95, 1.0, 4, 0.0, 1)), 4)
    2.7764
    """
    alpha = 1 - np.asarray(level, np.float64)
    alpha, a, df_a, kappa, df_kappa = np.broadcast_arrays(
        *(np.asarray(v, np.float64) for v in (alpha, a, df_a, kappa, df_kappa))
    )
    quantile = lambda df: -stdtrit(np.maximum(df, 1), alpha / 2)  # noqa: E731
    high = np.sqrt(a) * quantile(df_a) + np.sqrt(kappa) * quantile(df_kappa)
    width = np.array(high)  # exact where one of the two variances is 0
    both = (a > 0) & (kappa > 0)
    if both.any():
        sources = tuple(values[both] for values in (a, df_a, kappa, df_kappa))
        width[both] = _root(high[both], alpha[both], sources)
    return width


def _root(high: np.ndarray, alpha: np.ndarray, sources: tuple[np.ndarray, ...]) -> np.ndarray:
    """Where ``behrens_fisher(x) = alpha`` on ``[0, high]``: false position on ``log p``, made safe by bisection."""
    low = np.zeros_like(high)
    f_low, f_high = -np.log(alpha), np.log(behrens_fisher(high, *sources) / alpha)
    side = np.zeros(high.shape)
    x = high
    for _ in range(STEPS):
        with np.errstate(divide='ignore', invalid='ignore'):
            x = (low * f_high - high * f_low) / (f_high - f_low)
        x = np.where((x > low) & (x < high), x, (low + high) / 2)
        f = np.log(np.maximum(behrens_fisher(x, *sources), 1e-300) / alpha)
        above = f > 0  # the root lies beyond x
        # A side that stays put twice keeps half of its value (the Illinois rule), or it would never move.
        f_high = np.where(above, np.where(side > 0, f_high / 2, f_high), f)
        f_low = np.where(above, f, np.where(side < 0, f_low / 2, f_low))
        low, high, side = np.where(above, x, low), np.where(above, high, x), np.where(above, 1, -1)
        if np.all(np.abs(f) < 1e-9):
            break
    return x


def holm(p) -> np.ndarray:
    """P values adjusted for their number, so that the chance of any false verdict stays below the level.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p, np.float64)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind='stable')]
    adjusted = np.full(p.shape, np.nan)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return adjusted
