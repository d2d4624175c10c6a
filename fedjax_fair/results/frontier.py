"""What each value of a hyper-parameter gives on average and to the worst: the numbers of a frontier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from scipy.special import stdtrit

from fedjax_fair.errors import UserError
from fedjax_fair.results.comparison import compare_runs
from fedjax_fair.results.runs import Run


class Interval(NamedTuple):
    """A number and half the width of its 95 % interval, in percent; None: one seed cannot tell."""

    value: float
    error: float | None


class Cost(NamedTuple):
    """From the value with the best mean to the value with the best worst: what worst gains, what the mean pays.

    ``error`` is half the width of the 95 % interval of the gain; None: these runs cannot be paired.
    """

    fair_value: float
    mean_value: float
    gain: float
    price: float
    error: float | None


def interval(run: Run, statistic: str) -> Interval | None:
    """``avg`` or ``worst`` of the model that clients would use, with its 95 % interval: that of tables.

    It counts seeds and test patients; without predictions of test examples, seeds alone.
    """
    try:
        outcome = compare_runs([run]).analysis.outcomes[statistic]
        half = float(outcome.level_half[0])
        return Interval(100 * float(outcome.level.estimate[0]), 100 * half if run.repeats > 1 else None)
    except (UserError, KeyError):
        return _over_seeds(run, statistic)


def _over_seeds(run: Run, statistic: str) -> Interval | None:
    """Mean and ``t(S - 1) sd / sqrt(S)``; summaries have population deviations."""
    entry = (run.result() or {}).get(statistic)
    if entry is None or entry['mean'] is None:
        return None
    freedom = run.repeats - 1
    half = -stdtrit(freedom, 0.025) * entry['std'] / math.sqrt(freedom) if freedom else None
    return Interval(100 * entry['mean'], None if half is None else 100 * float(half))


def cost_of_fairness(runs: Mapping[float, Run]) -> Cost | None:
    """What the worst-served gain, and what the mean pays, between the best values of the two; None: no numbers."""
    known: dict[float, tuple[Interval, Interval]] = {}
    for value, run in runs.items():
        avg, worst = interval(run, 'avg'), interval(run, 'worst')
        if avg is not None and worst is not None:
            known[value] = avg, worst
    if not known:
        return None
    mean_value = max(known, key=lambda value: (known[value][0].value, known[value][1].value))
    fair_value = max(known, key=lambda value: (known[value][1].value, known[value][0].value))
    (top, low), (bottom, high) = known[mean_value], known[fair_value]
    gain, price = high.value - low.value, top.value - bottom.value
    return Cost(fair_value, mean_value, gain, price, _error_of_gain(runs[fair_value], runs[mean_value]))


def _error_of_gain(fair: Run, mean: Run) -> float | None:
    if fair is mean or fair.repeats == 1:
        return None
    try:
        return 100 * float(compare_runs([fair, mean]).analysis.outcomes['worst'].half95[0])
    except (UserError, KeyError):
        return None
