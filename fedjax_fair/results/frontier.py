"""What each value of a hyper-parameter gives on average and to the worst: the numbers of a frontier."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

from scipy.special import stdtrit

from fedjax_fair.errors import UserError
from fedjax_fair.results.captions import score_of
from fedjax_fair.results.comparison import compare_runs
from fedjax_fair.results.measures import Level, measures_of
from fedjax_fair.results.runs import Run

OVER_BOTH = '95 % intervals: new seeds and new patients of the same test sets'
OVER_SEEDS = '95 % intervals: new seeds alone; without predictions nothing is known of test patients'


class Interval(NamedTuple):
    """A number and half the width of its 95 % interval, in percent; None: the interval is not known.

    ``lo`` and ``hi`` are its ends, inside what is possible. Of the worst score the number is the raw one, to which the
    interval belongs, and ``corrected`` is without the bias of noise, where that can be told.
    """

    value: float
    error: float | None
    corrected: float | None = None

    @property
    def lo(self) -> float | None:
        return None if self.error is None else max(0.0, self.value - self.error)

    @property
    def hi(self) -> float | None:
        return None if self.error is None else min(100.0, self.value + self.error)


class Cost(NamedTuple):
    """From the value with the best mean to that with the best raw worst: what raw worst gains, what the mean pays.

    ``error`` is half the width of the 95 % interval of the gain; None: these runs cannot be paired.
    """

    fair_value: float
    mean_value: float
    gain: float
    price: float
    error: float | None

    @property
    def lo(self) -> float | None:
        return None if self.error is None else self.gain - self.error

    @property
    def hi(self) -> float | None:
        return None if self.error is None else self.gain + self.error


def interval(run: Run, statistic: str, metric: str | None = None) -> Interval | None:
    """``avg`` or ``worst`` of the model that clients would use, with its 95 % interval: that of tables.

    It counts seeds and test patients; without predictions of test examples, seeds alone. It is about the score that
    fairness is about, or about another ``metric``, which needs predictions.
    """
    found, _ = _analysed(run, metric)
    if statistic in found:
        return found[statistic]
    return _over_seeds(run, statistic) if metric in (None, run.score) else None


def limits(run: Run, metric: str | None = None) -> tuple[str, ...]:
    """What the intervals of a run are about, and what limits them, in words."""
    return _analysed(run, metric)[1]


@functools.lru_cache(maxsize=256)  # table, words and figure ask for the same numbers
def _analysed(run: Run, metric: str | None) -> tuple[dict[str, Interval], tuple[str, ...]]:
    """All intervals of a run from one analysis, and its notes; none where it kept no predictions."""
    known = run.repeats > 1
    try:
        found = compare_runs([run], metric=metric)
    except UserError:
        return {}, (OVER_SEEDS,) * known
    levels = {key: measure.levels[0] for key, measure in measures_of(found, score_of([run], metric)).items()}
    intervals = {key: one for key, level in levels.items() if (one := from_level(level, known)) is not None}
    return intervals, (OVER_BOTH,) * known + found.notes


def from_level(level: Level | None, known: bool = True) -> Interval | None:
    """A level of a table as the number of a frontier; its interval is only told where it is ``known``."""
    if level is None or level.estimate is None:
        return None
    error = None
    if known and level.lo is not None and level.hi is not None:
        error = max(level.estimate - level.lo, level.hi - level.estimate)  # one end may be cut at 0 or 100
    return Interval(level.estimate, error, level.corrected)


def _over_seeds(run: Run, statistic: str) -> Interval | None:
    """Mean and ``t(S - 1) sd / sqrt(S)``; summaries have population deviations."""
    entry = (run.result() or {}).get(statistic)
    if entry is None or entry['mean'] is None:
        return None
    freedom = run.repeats - 1
    half = -stdtrit(freedom, 0.025) * entry['std'] / math.sqrt(freedom) if freedom else None
    return Interval(100 * entry['mean'], None if half is None else 100 * float(half))


def cost_of_fairness(runs: Mapping[float, Run], metric: str | None = None) -> Cost | None:
    """What the worst-served gain, and what the mean pays, between the best values of the two; None: no numbers."""
    known: dict[float, tuple[Interval, Interval]] = {}
    for value, run in runs.items():
        avg, worst = (interval(run, one, metric) for one in ('avg', 'worst'))
        if avg is not None and worst is not None:
            known[value] = avg, worst
    if not known:
        return None
    mean_value = max(known, key=lambda value: (known[value][0].value, known[value][1].value))
    fair_value = max(known, key=lambda value: (known[value][1].value, known[value][0].value))
    (top, low), (bottom, high) = known[mean_value], known[fair_value]
    gain, price = high.value - low.value, top.value - bottom.value
    return Cost(fair_value, mean_value, gain, price, _error_of_gain(runs[fair_value], runs[mean_value], metric))


@functools.lru_cache(maxsize=256)
def _error_of_gain(fair: Run, mean: Run, metric: str | None) -> float | None:
    if fair is mean or fair.repeats == 1:
        return None
    try:
        return 100 * float(compare_runs([fair, mean], metric=metric).analysis.outcomes['worst'].half95[0])
    except (UserError, KeyError):
        return None
