"""What each value of a hyper-parameter gives on average and to the worst: the numbers of a frontier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from fedjax_fair.results.runs import Run


class Interval(NamedTuple):
    """A number and how far it may be off on either side, in percent; None: one seed cannot tell."""

    value: float
    error: float | None


class Cost(NamedTuple):
    """From the value with the best mean to the value with the best worst: what worst gains, what the mean pays.

    ``error`` is the standard error of the gain, as if the two were independent; None: one seed cannot tell.
    """

    fair_value: float
    mean_value: float
    gain: float
    price: float
    error: float | None


def interval(run: Run, statistic: str) -> Interval | None:
    """Mean and standard error over seeds of ``avg`` or ``worst`` of the model that clients would use.

    ``std / sqrt(S - 1)`` with the population deviation over ``S`` seeds. Whatever shows a frontier takes its errors
    from here.
    """
    entry = (run.result() or {}).get(statistic)
    if entry is None or entry['mean'] is None:
        return None
    seeds = len(run.seeds)
    return Interval(100 * entry['mean'], 100 * entry['std'] / math.sqrt(seeds - 1) if seeds > 1 else None)


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
    error = None if low.error is None or high.error is None else math.hypot(low.error, high.error)
    return Cost(fair_value, mean_value, high.value - low.value, top.value - bottom.value, error)
