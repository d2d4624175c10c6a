"""Errors of levels and of paired differences: what seeds cause (``a``) and what test patients cause (``kappa``).

With ``D_s`` the value or difference in seed ``s``, ``U_sc`` the influence of cluster ``c`` and strata ``h``::

    a       = var_s(D_s) / S
    kappa_h = sum_c ((sum_s U_sc)^2 - sum_s U_sc^2) / (S (S - 1))      what all seeds share
    own_h   = sum_s sum_c U_sc^2 / S                                   the variance within one seed
    kappa   = max(0, sum_h kappa_h);  nu = kappa^2 / sum_h (kappa_h^2 / (C_h - 1))

``Var(mean D) = E a + kappa`` exactly. Reference: Obuchowski and Rockette 1995 (readers and cases).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedjax_fair.stats.distribution import behrens_fisher, half_width

ROUNDING = 1e-12  # of scores between 0 and 1: what is smaller is 0
PRIOR = 4  # degrees of freedom that the mean over all pairs lends to every pair
FEWEST_MODERATED = 4  # recipes that make up such a mean


class Errors(NamedTuple):
    """Estimates and the two variances of their errors, an entry for each level or pair."""

    estimate: np.ndarray
    a: np.ndarray
    df_a: np.ndarray
    kappa: np.ndarray
    df_kappa: np.ndarray
    sd: np.ndarray  # of the values over seeds

    @property
    def p(self) -> np.ndarray:
        """Two-sided p values of the estimates; NaN where both variances are 0 and the estimate is not."""
        p = behrens_fisher(self.estimate, self.a, self.df_a, self.kappa, self.df_kappa)
        return np.where((self.a == 0) & (self.kappa == 0) & (self.estimate != 0), np.nan, p)

    def half(self, level: float) -> np.ndarray:
        """Half widths of the intervals."""
        return half_width(level, self.a, self.df_a, self.kappa, self.df_kappa)


def errors(values: np.ndarray, influences: Sequence[np.ndarray], smooth: bool, rounding: float = 0.0) -> Errors:
    """Of ``values[N, S]`` with influences ``[N, S, C]`` by stratum. ``smooth=False`` puts ``own`` in place of kappa.

    One seed says nothing about seeds: ``a`` is 0, and the patients' part is ``own``, about these models alone. Values
    that differ by no more than ``rounding`` are equal: a difference of two equal numbers is seldom exactly 0.
    """
    count, seeds = values.shape
    squares = np.stack([(u**2).sum((1, 2)) for u in influences])  # [H, N]
    freedom = np.array([u.shape[-1] - 1 for u in influences], np.float64)[:, None]
    own = squares / seeds
    if seeds > 1:
        sums = np.stack([(u.sum(1) ** 2).sum(-1) for u in influences])
        shared = (sums - squares) / (seeds * (seeds - 1))
        a = values.var(1, ddof=1) / seeds
        a = np.where(a <= rounding**2, 0.0, a)
    else:
        shared, a = own, np.zeros(count)
    kappa, df_kappa = _total(shared if smooth else own, freedom, rounding)
    # Equal in all seeds because tests are tiny: what patients do to a single seed stands in.
    spare = np.maximum(0, own.sum(0) - _total(shared, freedom, rounding)[0]) / seeds if seeds > 1 else np.zeros(count)
    spare = np.where(spare <= rounding**2, 0.0, spare)
    sd = np.sqrt(a * seeds) if seeds > 1 else np.full(count, np.nan)
    estimate = values.mean(1)
    estimate = np.where(np.abs(estimate) <= rounding, 0.0, estimate)
    return Errors(estimate, np.where(a == 0, spare, a), np.full(count, seeds - 1.0), kappa, df_kappa, sd)


def _total(by_stratum: np.ndarray, freedom: np.ndarray, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    total = np.maximum(0, by_stratum.sum(0))
    total = np.where(total <= rounding**2, 0.0, total)
    with np.errstate(divide='ignore', invalid='ignore'):
        df = total**2 / (by_stratum**2 / freedom).sum(0)
    return total, np.where(total > 0, df, 0.0)


def pair_places(recipes: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs ``A < B``, A slowest."""
    return np.triu_indices(recipes, 1)


def pair_errors(values: np.ndarray, influences: Sequence[np.ndarray], smooth: bool) -> Errors:
    """Of all differences ``A - B`` of recipes: ``values[R, S]``, influences ``[R, S, C]`` by stratum."""
    parts = [  # a recipe against all later ones at a time bounds the memory
        errors(values[r] - values[r + 1 :], [u[r] - u[r + 1 :] for u in influences], smooth, ROUNDING)
        for r in range(len(values) - 1)
    ]
    return joined(parts)


def joined(parts: Sequence[Errors]) -> Errors:
    """The entries of several, one after the other: what is expensive is best asked of many at once."""
    if not parts:
        return Errors(*(np.zeros(0) for _ in Errors._fields))
    return Errors(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def moderated(pairs: Errors, recipes: int, seeds: int) -> Errors:
    """Lend every pair the mean seed variance of all pairs, never less than its own; from four recipes on.

    ``a <- max(a, (4 pool + (S - 1) a) / (S + 3))`` with ``S + 3`` degrees of freedom. Reference: Smyth 2004; the
    maximum keeps it calibrated where one recipe is noisier than the others. Recipes that give exactly the same count
    as one recipe, so that a copy changes nothing for the others; between them there is nothing to estimate.
    """
    same = (pairs.estimate == 0) & (pairs.a == 0) & (pairs.kappa == 0)
    first, second = pair_places(recipes)
    copies = np.unique(second[same])  # each of an earlier recipe
    if recipes - len(copies) < FEWEST_MODERATED or seeds < 2:
        return pairs
    counted = np.isfinite(pairs.a) & ~np.isin(first, copies) & ~np.isin(second, copies)
    pool = pairs.a[counted].mean() if counted.any() else np.nan
    lent = (PRIOR * pool + (seeds - 1) * pairs.a) / (seeds - 1 + PRIOR)
    a = np.where(same, 0.0, np.maximum(pairs.a, lent))
    return pairs._replace(a=a, df_a=np.full(len(pairs.a), seeds - 1.0 + PRIOR))
