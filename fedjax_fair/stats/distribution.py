"""The Behrens-Fisher distribution: the error of an estimate that has two sources, each with few degrees of freedom.

A difference of two recipes varies with the seeds (variance ``a``, ``df_a`` degrees of freedom) and with the test
patients (``kappa``, ``df_kappa``). Neither averages the other away, so the error is
``sqrt(a) t(df_a) + sqrt(kappa) t(df_kappa)``. Where one variance is 0 it is an ordinary t.

References: Behrens 1929, Fisher 1935; Robinson 1976 (it is conservative); Holm 1979.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, stdtr, stdtrit

# Tanh-sinh quadrature on [0, 1]: nodes crowd at both ends, where the integrand is steep or behaves like a root.
_STEP = 0.1
_T = np.arange(-31, 32) * _STEP
NODES = 1 / (1 + np.exp(-np.pi * np.sinh(_T)))
WEIGHTS = _STEP * np.pi * np.cosh(_T) * NODES * (1 - NODES)
STEPS = 60  # of the search for a half width; most end after three
CLOSE = 1e-8  # to the logarithm of p: the next step is the last
AT_ONCE = 4096  # half widths, for the sake of the memory


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
    weights, reach = _nodes(x, root_a, root_kappa, df_kappa)
    return 2 * (weights * stdtr(df_a[..., None], -reach)).sum(-1)


def _nodes(x, root_a, root_kappa, df_kappa) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the nodes, and how far ``t(df_a)`` must reach at each of them to make the error larger than ``x``."""
    below, above = (stdtr(df_kappa, sign * x / root_kappa)[..., None] for sign in (1, -1))
    weights = np.concatenate([below * WEIGHTS, above * WEIGHTS], -1)
    df = df_kappa[..., None]
    z = np.concatenate([stdtrit(df, below * NODES), -stdtrit(df, above * NODES)], -1)
    return weights, (x[..., None] - root_kappa[..., None] * z) / root_a[..., None]


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
        guess = np.hypot(np.sqrt(a) * quantile(df_a), np.sqrt(kappa) * quantile(df_kappa))
        roots = np.sqrt(a), np.maximum(df_a, 1), np.sqrt(kappa), np.maximum(df_kappa, 1)
        given = [values[both] for values in (guess, high, alpha, *roots)]
        pieces = range(0, len(given[0]), AT_ONCE)
        width[both] = np.concatenate([_root(*(one[at : at + AT_ONCE] for one in given)) for at in pieces])
    return width


def _root(x: np.ndarray, high: np.ndarray, alpha: np.ndarray, *sources: np.ndarray) -> np.ndarray:
    """Where ``behrens_fisher(x) = alpha`` on ``[0, high]``: Newton's method on ``log p``, made safe by bisection.

    A step leaves the square of ``log(p / alpha)`` before it, or a hundredth where one error is far below the other:
    there quadrature makes a poor slope, and as good a ``p`` as elsewhere.
    """
    x, high, low = x.copy(), high.copy(), np.zeros_like(x)
    left = np.arange(len(x))
    for _ in range(STEPS):
        root_a, df_a, root_kappa, df_kappa = [values[left] for values in sources]
        weights, reach = _nodes(x[left], root_a, root_kappa, df_kappa)
        p = np.maximum(2 * (weights * stdtr(df_a[:, None], -reach)).sum(-1), 1e-300)
        slope = 2 * (weights * _density(reach, df_a[:, None])).sum(-1) / root_a
        f, at = np.log(p / alpha[left]), x[left]
        low[left], high[left] = np.where(f > 0, at, low[left]), np.where(f > 0, high[left], at)
        with np.errstate(divide='ignore', invalid='ignore', over='ignore'):
            new = at + f * p / slope
        x[left] = np.where((new >= low[left]) & (new <= high[left]), new, (low[left] + high[left]) / 2)
        left = left[np.abs(f) > CLOSE]
        if not len(left):
            break
    return x


def _density(x, df) -> np.ndarray:
    """Of Student's t."""
    scale = np.exp(gammaln((df + 1) / 2) - gammaln(df / 2)) / np.sqrt(df * np.pi)
    return scale * np.exp(-(df + 1) / 2 * np.log1p(x**2 / df))


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
