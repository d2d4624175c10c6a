"""Which numbers an option may have, and which of them tuning tries."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np


class Range(NamedTuple):
    """The numbers an option may have; None: no bound on that side.

    A bound that is not allowed itself is not allowed in float32 either, where 1 - 1e-10 is 1.
    """

    low: float | None = None
    high: float | None = None
    above: bool = False  # the lower bound itself is not allowed
    below: bool = False  # the upper bound itself is not allowed

    def __contains__(self, value: object) -> bool:
        number: Any = value  # as it is: a whole number may be too large for a float
        if number != number or (self.low is not None and number < self.low):
            return False
        if self.high is not None and number > self.high:
            return False
        excluded = (self.low,) * self.above + (self.high,) * self.below
        return not any(bound is not None and _are_equal(number, bound) for bound in excluded)

    def __str__(self) -> str:
        low = None if self.low is None else f'{"above" if self.above else "at least"} {_written(self.low)}'
        high = None if self.high is None else f'{"below" if self.below else "at most"} {_written(self.high)}'
        return ' and '.join(bound for bound in (low, high) if bound)


def _are_equal(number: Any, bound: float) -> bool:
    """Whether two numbers are the same in float32; whole numbers are compared as they are."""
    if not isinstance(number, float):
        return number == bound
    with np.errstate(over='ignore'):
        return bool(np.float32(number) == np.float32(bound))


SMALLEST_FLOAT, LARGEST_FLOAT = 2.0**-126, (2 - 2.0**-23) * 2.0**127  # absolute values of float32


def fits_float32(number: float) -> bool:
    """Whether a number is still one in 32 bits: smaller ones vanish, larger ones are infinite.

    >>> fits_float32(0.1), fits_float32(0), fits_float32(1e-320), fits_float32(1e39), fits_float32(math.nan)
    (True, True, False, False, False)
    """
    return number == 0 or SMALLEST_FLOAT <= abs(number) <= LARGEST_FLOAT


def _written(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f'{bound:g}'


def at_least(low: float) -> Range:
    """``value >= low``."""
    return Range(low)


def above(low: float, at_most: float | None = None) -> Range:
    """``low < value``, and ``value <= at_most`` where that is given."""
    return Range(low, at_most, above=True)


def between(low: float, high: float) -> Range:
    """``low <= value <= high``.

    >>> 0.5 in between(0, 1), str(between(0, 1))
    (True, 'at least 0 and at most 1')
    """
    return Range(low, high)


AnyNumber = Annotated[float, Range()]  # of either sign: a tilt, for instance
NonNegative = Annotated[float, at_least(0)]
Positive = Annotated[float, above(0)]
Share = Annotated[float, between(0, 1)]
Decay = Annotated[float, Range(0, 1, below=True)]
Count = Annotated[int, at_least(1)]
Squared = Annotated[float, between(2.0**-63, 2.0**63)]  # positive, and so that its square is a number of float32


# --- search spaces ---------------------------------------------------------------------------------------------------


class Search(NamedTuple):
    """The values of an option that tuning tries: an interval, uniform or log-uniform, or ``among`` some values."""

    low: float
    high: float
    log: bool = False
    among: tuple[float, ...] = ()

    def at(self, place: float) -> float:
        """The value at a place of the unit interval, with three digits; equal steps of the place are equally likely.

        >>> search(0.01, 1, log=True).at(0.5), search_among(0.0, 0.9).at(0.7)
        (0.1, 0.9)
        """
        if self.among:
            return self.among[min(int(place * len(self.among)), len(self.among) - 1)]
        value = self.low * (self.high / self.low) ** place if self.log else self.low + (self.high - self.low) * place
        return min(max(float(f'{value:.3g}'), self.low), self.high)

    def __str__(self) -> str:
        if self.among:
            return f'one of {", ".join(map(_written, self.among))}'
        return f'{_written(self.low)} to {_written(self.high)}, {"log-uniform" if self.log else "uniform"}'


def search(low: float, high: float, log: bool = False) -> Search:
    """Tuning tries values from ``low`` to ``high``: all equally likely, or with ``log`` all their logarithms."""
    if not low < high or not math.isfinite(high - low) or (log and low <= 0):
        raise ValueError(f'search({low}, {high}, log={log}) needs low < high, and low > 0 if log')
    return Search(float(low), float(high), log)


def search_among(*values: float) -> Search:
    """Tuning tries these values, all equally likely."""
    if not values or len(set(values)) < len(values) or not all(map(math.isfinite, values)):
        raise ValueError(f'search_among{values} needs one or more different, finite values')
    return Search(float(min(values)), float(max(values)), among=tuple(map(float, values)))
