"""What may be said of a difference, and what it would take to say more."""

from __future__ import annotations

import bisect
import math

import numpy as np
from scipy.special import ndtr, stdtr

from fedjax_fair.stats.distribution import half_width

BETTER, WORSE = 'better', 'worse'
SLIGHTLY_BETTER, SLIGHTLY_WORSE = 'better, by less than delta', 'worse, by less than delta'
NO_DIFFERENCE, UNDECIDED, IDENTICAL = 'no difference larger than delta', 'undecided', 'identical predictions'
LEVEL = 0.05
POWER = 0.8
DETECTABLE = 2.8  # a difference of so many standard errors is found with a power of 0.8 at the 5 % level
MOST_SEEDS = 1000
TINY = 1e-300


def verdicts(estimate, p, half90, delta, higher_is_better: bool = True) -> np.ndarray:
    """The word for every difference ``A - B``.

    Better or worse where ``p <= 0.05``; else no difference larger than ``delta`` where the 90 % interval lies inside
    ``(-delta, delta)`` (two one-sided tests, Schuirmann 1987); else undecided.

    >>> verdicts([0.03, 0.001, 0.02], [0.01, 0.5, 0.2], [0.01, 0.005, 0.02], 0.01).tolist()
    ['better', 'no difference larger than delta', 'undecided']
    """
    estimate, p, half90, delta = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (estimate, p, half90, delta)))
    within = (estimate - half90 > -delta) & (estimate + half90 < delta)
    up = (estimate > 0) == higher_is_better
    decided = np.where(within, np.where(up, SLIGHTLY_BETTER, SLIGHTLY_WORSE), np.where(up, BETTER, WORSE))
    words = np.where(p <= LEVEL, decided, np.where(within, NO_DIFFERENCE, UNDECIDED))
    words = np.where(np.isnan(p), UNDECIDED, words)
    return np.where((estimate == 0) & (half90 == 0), IDENTICAL, words)


def best_set(
    estimate: np.ndarray, p_holm: np.ndarray, first, second, recipes: int, higher_is_better=True
) -> np.ndarray:
    """The recipes that no other is better than: all but those beaten with an adjusted p of at most 0.05."""
    member = np.ones(recipes, bool)
    beaten = p_holm <= LEVEL
    first_loses = (estimate < 0) == higher_is_better
    member[np.asarray(first)[beaten & first_loses]] = False
    member[np.asarray(second)[beaten & ~first_loses]] = False
    return member


def certainty(p) -> np.ndarray:
    """``1 - p / 2``: how sure the direction of a difference is."""
    return 1 - np.asarray(p) / 2


def chance_of_winning(estimate, sd, seeds: int) -> np.ndarray:
    """``F(d / (sd sqrt(1 + 1/S)))``: the chance that one run of A beats one run of B on these tests.

    ``F`` is the cdf of t with ``S - 1`` degrees of freedom. It is 1/2 where nothing differs, NaN for one seed.
    """
    estimate, sd = np.asarray(estimate, np.float64), np.asarray(sd, np.float64)
    with np.errstate(divide='ignore', invalid='ignore'):
        steps = estimate / (sd * math.sqrt(1 + 1 / seeds))
    return np.where(
        sd > 0, stdtr(max(seeds - 1, 1), steps), np.where(np.isnan(sd), np.nan, (np.sign(estimate) + 1) / 2)
    )


def seeds_to_decide(delta: float, a: float, seeds: int, kappa: float, df_kappa: float) -> int | None:
    """The number of seeds with which a difference of ``delta`` would be found in four of five studies.

    The smallest ``S'`` with ``Phi((delta - h) / sqrt(a S/S' + kappa)) >= 0.8``, where ``h`` is the half width with
    ``S'`` seeds. It uses ``delta``, never the difference that was seen: that would be circular. None where no number of
    seeds suffices, because the test patients are too few (see :func:`patients_to_decide`).

    >>> seeds_to_decide(0.02, 0.0001, 5, 0.00001, 40)
    15
    >>> seeds_to_decide(0.01, 0.0001, 5, 0.0001, 40) is None
    True
    """
    if not delta > 0 or not math.isfinite(a + kappa) or delta < DETECTABLE * math.sqrt(kappa):
        return None
    wanted = np.unique(np.round(np.geomspace(2, MOST_SEEDS, 400)).astype(int))

    def enough(count: int) -> bool:
        variance = a * seeds / count
        half = float(half_width(0.95, variance, count - 1.0, kappa, df_kappa))
        return float(ndtr((delta - half) / max(math.sqrt(variance + kappa), TINY))) >= POWER

    place = bisect.bisect_left(wanted, True, key=enough)  # more seeds are never worse
    return int(wanted[place]) if place < len(wanted) else None


def patients_to_decide(delta: float, kappa: float) -> float:
    """How many times as many test patients a difference of ``delta`` needs: ``(2.8 / delta)^2 kappa``.

    >>> round(patients_to_decide(0.01, 0.0001), 2)
    7.84
    """
    return (DETECTABLE / delta) ** 2 * kappa
