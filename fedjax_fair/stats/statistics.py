"""Statistics of fairness over units (sites or clients), each with its gradient in the units' scores.

A statistic has a value for every recipe and seed: the mean over seeds of the statistic is what is estimated, so the
spread that a single training causes counts and the noise of test sets does not. ``smooth`` says that patients move the
statistic linearly. Minima and maxima are not smooth: their error counts the variance within one seed (``own``), which
is safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedjax_fair.stats.sample import Sample

Valued = tuple[np.ndarray, np.ndarray]  # T[R, S] and dT/ds[R, S, J]


class Statistic(NamedTuple):
    """``value(sample) -> T[R, S], gradient[R, S, J]``; ``judged=False`` is shown with no interval and no verdict.

    ``unit`` is the place of the only unit that it is about, which spares looking at the test sets of all others.
    """

    value: Callable[[Sample], Valued]
    about: str
    higher_is_better: bool = True
    smooth: bool = True
    judged: bool = True
    fewest: int = 1  # units that it needs
    unit: int | None = None


def average(sample: Sample) -> Valued:
    """``mean_j s_j``"""
    s = sample.scores
    return s.mean(-1), np.full(s.shape, 1 / s.shape[-1])


def of_unit(place: int) -> Statistic:
    """The score of one unit."""

    def value(sample: Sample) -> Valued:
        s = sample.scores
        gradient = np.zeros(s.shape)
        gradient[..., place] = 1
        return s[..., place], gradient

    return Statistic(value, 'score of one site or client', unit=place)


def spread_squared(sample: Sample) -> Valued:
    """``sum_j (s_j - m)^2 / (J - 1) - noise``: the variance between units beyond that of tests; may be negative."""
    s = sample.scores
    away = s - s.mean(-1, keepdims=True)
    return (away**2).sum(-1) / (s.shape[-1] - 1) - sample.noise, 2 * away / (s.shape[-1] - 1)


def jain(sample: Sample) -> Valued:
    """Jain's index from the corrected spread: ``1 / (1 + c / m^2)``, ``c = spread^2 (J - 1) / J``."""
    s = sample.scores
    count, m = s.shape[-1], s.mean(-1)
    c = spread_squared(sample)[0] * (count - 1) / count
    with np.errstate(divide='ignore', invalid='ignore'):
        value = 1 / (1 + c / m**2)
        gradient = -(value**2)[..., None] * (
            2 * (s - m[..., None]) / (count * m**2)[..., None] - (2 * c / (count * m**3))[..., None]
        )
    return value, gradient


def extreme(share: float, largest: bool = False) -> Callable[[Sample], Valued]:
    """The mean of the worst (or best) share of the units, at least one."""

    def value(sample: Sample) -> Valued:
        s = sample.scores
        count = max(1, math.ceil(round(share * s.shape[-1], 9)))
        order = np.argsort(-s if largest else s, -1, kind='stable')[..., :count]
        gradient = np.zeros(s.shape)
        np.put_along_axis(gradient, order, 1 / count, -1)
        return np.take_along_axis(s, order, -1).mean(-1), gradient

    return value


def gap(sample: Sample) -> Valued:
    """Best minus worst."""
    (best, up), (worst, down) = extreme(0, largest=True)(sample), extreme(0)(sample)
    return best - worst, up - down


def gini(sample: Sample) -> Valued:
    """Gini's coefficient, ``sum_ij |s_i - s_j| / (2 J^2 m)``: 0 when all are equal."""
    s = np.sort(sample.scores, -1)
    count = s.shape[-1]
    rank = 2 * np.arange(1, count + 1) - count - 1
    with np.errstate(divide='ignore', invalid='ignore'):
        value = (rank * s).sum(-1) / (count * s.sum(-1))
    return value, np.zeros(s.shape)


STATISTICS: dict[str, Statistic] = {
    'avg': Statistic(average, 'mean score over sites or clients'),
    'spread2': Statistic(spread_squared, 'variance between them beyond the noise of tests', False, fewest=2),
    'jain': Statistic(jain, "Jain's index, corrected for the noise of tests", fewest=2),
    'worst': Statistic(extreme(0), 'lowest score', smooth=False, fewest=2),
    'worst10': Statistic(extreme(0.1), 'mean of the worst tenth', smooth=False, fewest=2),
    'best10': Statistic(extreme(0.1, largest=True), 'mean of the best tenth', smooth=False, fewest=2),
    'gap': Statistic(gap, 'best minus worst', False, smooth=False, fewest=2),
    'gini': Statistic(gini, "Gini's coefficient", False, judged=False, fewest=2),
}


def statistics_of(sample: Sample) -> dict[str, Statistic]:
    """The statistics that so many units allow, and the score of every unit (``site0``, ``site1``, ...)."""
    count = len(sample.names)
    joint = {name: statistic for name, statistic in STATISTICS.items() if count >= statistic.fewest}
    if not sample.matched:
        return joint
    return joint | {f'site{place}': of_unit(j) for j, place in enumerate(sample.kept)}
