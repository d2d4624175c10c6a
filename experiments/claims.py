"""What the papers claim, and what recorded runs say to it: the verdicts of docs/claims.md are computed here.

A paper's ``claims.py`` has ``CLAIMS``. Each names a difference in the evidence of a recorded table
(:mod:`experiments.evidence`), what the paper says of it, and further differences that try what may explain another
outcome; nothing about the outcome is typed.
"""

from __future__ import annotations

import enum
import functools
import importlib
import json
import math
import pathlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from experiments.published import PAPERS

HERE = pathlib.Path(__file__).parent
REPOSITORY = HERE.parent


class Says(enum.Enum):
    """What a claim says of a difference ``method - baseline``, in the direction of the measure itself."""

    HIGHER = 'higher'
    LOWER = 'lower'
    NOT_LOWER = 'not lower'
    NOT_HIGHER = 'not higher'


BOUNDS = ('lo', 'hi', 'lo90', 'hi90')  # of a difference, in a record; null where they are not known
SUPPORTED, CONTRADICTED, UNDECIDED, NOT_RECORDED = 'supported', 'contradicted', 'undecided', 'not recorded'
SO_FAR = ' so far'  # after a verdict whose follow-ups are not all recorded
EFFECT_SHARE = 0.5  # of a published difference: less than that is not what the paper claims
SITE, WORST_SITE = 'site:', 'site:worst'  # measures of single sites, and that of the site where the baseline is worst


class Published(NamedTuple):
    """Where the paper says it, and by data set its numbers: of the method, and of what the method is compared with."""

    place: str
    numbers: Mapping[str, tuple[float, float]] = MappingProxyType({})

    @property
    def effect(self) -> float:
        """The smallest of its differences; infinite where it prints none."""
        return min((abs(own - other) for own, other in self.numbers.values()), default=math.inf)

    @property
    def words(self) -> str:
        """The numbers and their place.

        >>> Published('Table 1', {'ICH': (64.51, 53.66), 'ISIC 2019': (51.62, 38.26)}).words
        '64.51 beside 53.66 (ICH), 51.62 beside 38.26 (ISIC 2019); Table 1'
        """
        told = ', '.join(f'{own:.2f} beside {other:.2f} ({name})' for name, (own, other) in self.numbers.items())
        return f'{told}; {self.place}' if told else self.place


class Place(NamedTuple):
    """Where a difference is recorded.

    ``record`` is a file below the paper's ``results``, ``entry`` the name of its evidence, ``measure`` and ``method``
    the difference in it; behind the method's name may stand a remark in brackets.
    """

    record: str
    entry: str
    measure: str
    method: str


class Claim(NamedTuple):
    """One headline of a paper, and where the difference is that it is about.

    ``follow_ups`` are by a cause, in words, the places of the same difference where that cause is tried.
    """

    words: str
    published: Published
    place: Place
    says: Says
    follow_ups: Mapping[str, Place] = MappingProxyType({})

    @property
    def places(self) -> tuple[Place, ...]:
        """All that it points at."""
        return (self.place, *self.follow_ups.values())


class Found(NamedTuple):
    """What a record says to a claim: a difference and the verdict on it alone; what is not there is empty."""

    place: Place
    verdict: str
    path: pathlib.Path
    record: Mapping[str, Any] = MappingProxyType({})
    entry: Mapping[str, Any] = MappingProxyType({})
    difference: Mapping[str, Any] = MappingProxyType({})

    @property
    def is_known(self) -> bool:
        """Whether there is a difference with an interval: not of a single seed, and not where models diverged."""
        return all(self.difference.get(bound) is not None for bound in BOUNDS)

    @property
    def recorded_margin(self) -> float:
        """The smallest difference of interest of the table, in the units of the measure."""
        margin = self.entry['margin']
        return margin[self.place.measure] if isinstance(margin, dict) else margin


class Outcome(NamedTuple):
    """A claim's verdict, what its own record says, and what those of its follow-ups say."""

    claim: Claim
    verdict: str
    found: Found
    follow_ups: Mapping[str, Found]


def claims_of(paper: str) -> tuple[Claim, ...]:
    """The claims of one paper."""
    return importlib.import_module(f'experiments.{paper}.claims').CLAIMS


@functools.cache  # several claims rest on one record
def record_of(path: pathlib.Path) -> dict[str, Any]:
    """A recorded table."""
    return json.loads(path.read_text())


def margin_of(published: Published, recorded: float) -> float:
    """The smallest difference of interest: that of the record, or half of what the paper prints where that is less.

    >>> margin_of(Published('Table 1', {'A': (64.51, 53.66)}), 1.0), margin_of(Published('Figure 2'), 1.0)
    (1.0, 1.0)
    >>> round(margin_of(Published('Table 2', {'Split-3': (81.66, 81.13)}), 1.0), 3)
    0.265
    """
    return min(recorded, EFFECT_SHARE * published.effect)


def verdict(says: Says, difference: Mapping[str, Any], margin: float) -> str:
    """What the 95 % interval of a difference says to a claim.

    A claimed difference is supported if the interval lies on its side of 0. It is contradicted if the interval lies on
    the other side, or if the 90 % interval lies within the margin: then there is no difference worth naming. That
    something is *not* lower is supported if the interval lies above minus the margin, and contradicted if it lies below
    0 otherwise.

    >>> up = {'lo': 0.5, 'hi': 2.0, 'lo90': 0.7, 'hi90': 1.8}
    >>> verdict(Says.HIGHER, up, 1.0), verdict(Says.LOWER, up, 1.0), verdict(Says.NOT_LOWER, up, 1.0)
    ('supported', 'contradicted', 'supported')
    >>> verdict(Says.HIGHER, {'lo': -0.5, 'hi': 0.6, 'lo90': -0.4, 'hi90': 0.5}, 1.0)
    'contradicted'
    >>> verdict(Says.HIGHER, {'lo': -3.0, 'hi': 4.0, 'lo90': -2.5, 'hi90': 3.5}, 1.0)
    'undecided'

    An interval that holds half of the published difference contradicts nothing, since the margin is no larger:

    >>> small = margin_of(Published('Table 2', {'Split-3': (81.96, 81.13)}), 1.0)
    >>> verdict(Says.HIGHER, {'lo': -0.05, 'hi': 0.99, 'lo90': 0.05, 'hi90': 0.9}, small)
    'undecided'
    """
    turned = says in (Says.LOWER, Says.NOT_HIGHER)
    lo, hi, lo90, hi90 = (
        (-difference[high] if turned else difference[low])
        for low, high in (('lo', 'hi'), ('hi', 'lo'), ('lo90', 'hi90'), ('hi90', 'lo90'))
    )
    if says in (Says.NOT_LOWER, Says.NOT_HIGHER):
        return SUPPORTED if lo >= -margin else CONTRADICTED if hi < 0 else UNDECIDED
    if lo > 0:
        return SUPPORTED
    return CONTRADICTED if hi < 0 or -margin < lo90 <= hi90 < margin else UNDECIDED


def settled(own: str, tried: Mapping[str, str]) -> str:
    """A claim's verdict, from that of its own record and those of its follow-ups by what they try.

    A follow-up that says the opposite leaves the claim undecided, and a verdict whose follow-ups are not all recorded
    is one so far. A follow-up that is undecided itself changes nothing.

    >>> settled('contradicted', {'momentum': 'contradicted', 'other tilts': 'undecided'})
    'contradicted'
    >>> settled('contradicted', {'momentum': 'contradicted', 'other tilts': 'not recorded'})
    'contradicted so far'
    >>> settled('supported', {'momentum': 'contradicted', 'other tilts': 'not recorded'})
    'undecided: depends on momentum'
    >>> settled('undecided', {'momentum': 'supported'}), settled('not recorded', {'momentum': 'supported'})
    ('undecided', 'not recorded')
    """
    if own not in (SUPPORTED, CONTRADICTED):
        return own
    opposite = CONTRADICTED if own == SUPPORTED else SUPPORTED
    causes = [cause for cause, one in tried.items() if one == opposite]
    if causes:
        return f'{UNDECIDED}: depends on {", ".join(causes)}'
    return own + SO_FAR * (NOT_RECORDED in tried.values())


def measure_of(entry: Mapping[str, Any], measure: str) -> str:
    """A measure by its name in an entry: in the place of ``site:worst`` the site on which the baseline is worst.

    >>> levels = {'site:a': {'old': {'values': [80.0, 82.0]}}, 'site:b': {'old': {'values': [40.0, 60.0]}}}
    >>> entry = {'baseline': 'old', 'measures': {name: {'levels': one} for name, one in levels.items()}}
    >>> measure_of(entry, 'site:worst'), measure_of(entry, 'avg')
    ('site:b', 'avg')
    """
    measures = entry.get('measures', {})
    sites = [name for name in measures if name.startswith(SITE)]
    if measure != WORST_SITE or not sites:
        return measure
    return min(sites, key=lambda name: np.mean(measures[name]['levels'][entry['baseline']]['values']))


def method_of(differences: Iterable[str], method: str) -> str:
    """A method by its name among differences, where a remark in brackets may stand behind it.

    >>> method_of(['new', 'new, rho 0.1 (2 %)', 'new, rho 0.01 (0.2 %)'], 'new, rho 0.01')
    'new, rho 0.01 (0.2 %)'
    """
    return next((name for name in differences if name.partition(' (')[0] == method), method)


def find(paper: str, claim: Claim, place: Place) -> Found:
    """What is recorded at a place, and what it says to a claim."""
    path = HERE / paper / 'results' / place.record
    record = record_of(path) if path.exists() else {}
    if place.entry not in record.get('evidence', {}):
        return Found(place, NOT_RECORDED, path)
    entry = record['evidence'][place.entry]
    measure = measure_of(entry, place.measure)
    differences = entry.get('measures', {}).get(measure, {}).get('differences', {})
    place = place._replace(measure=measure, method=method_of(differences, place.method))
    found = Found(place, UNDECIDED, path, record, entry, differences.get(place.method, {}))
    if not found.is_known:
        return found
    margin = margin_of(claim.published, found.recorded_margin)
    return found._replace(verdict=verdict(claim.says, found.difference, margin))


def outcome(paper: str, claim: Claim) -> Outcome:
    """A claim beside the records that decide it."""
    own = find(paper, claim, claim.place)
    tried = {cause: find(paper, claim, place) for cause, place in claim.follow_ups.items()}
    return Outcome(claim, settled(own.verdict, {cause: one.verdict for cause, one in tried.items()}), own, tried)


def outcomes() -> dict[str, list[Outcome]]:
    """Of all papers."""
    return {paper: [outcome(paper, claim) for claim in claims_of(paper)] for paper in PAPERS}
