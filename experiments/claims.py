"""What the papers claim, and what recorded runs say to it: the verdicts of docs/claims.md are computed here.

A paper's ``claims.py`` has ``CLAIMS``. Each names a difference in the evidence of a recorded table
(:mod:`experiments.evidence`) and what the paper says of it; nothing about the outcome is typed.
"""

from __future__ import annotations

import enum
import functools
import importlib
import json
import pathlib
from typing import Any, NamedTuple

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


class Claim(NamedTuple):
    """One headline of a paper.

    ``record`` is a file below the paper's ``results``, ``entry`` the name of its evidence, ``measure`` and ``method``
    a difference in it. ``published`` is the paper's number in words, with its place.
    """

    words: str
    published: str
    record: str
    entry: str
    measure: str
    method: str
    says: Says


class Outcome(NamedTuple):
    """A claim's verdict with the difference that it rests on and its record; what is not there is empty."""

    claim: Claim
    verdict: str
    difference: dict[str, Any]
    entry: dict[str, Any]
    record: dict[str, Any]
    path: pathlib.Path

    @property
    def is_known(self) -> bool:
        """Whether there is a difference with an interval: not of a single seed, and not where models diverged."""
        return all(self.difference.get(bound) is not None for bound in BOUNDS)

    @property
    def margin(self) -> float:
        """The smallest difference of interest, in the units of the measure."""
        margin = self.entry['margin']
        return margin[self.claim.measure] if isinstance(margin, dict) else margin


def claims_of(paper: str) -> tuple[Claim, ...]:
    """The claims of one paper."""
    return importlib.import_module(f'experiments.{paper}.claims').CLAIMS


@functools.cache  # several claims rest on one record
def record_of(path: pathlib.Path) -> dict[str, Any]:
    """A recorded table."""
    return json.loads(path.read_text())


def verdict(says: Says, difference: dict[str, Any], margin: float) -> str:
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


def outcome(paper: str, claim: Claim) -> Outcome:
    """A claim beside the record that decides it."""
    path = HERE / paper / 'results' / claim.record
    if not path.exists():
        return Outcome(claim, NOT_RECORDED, {}, {}, {}, path)
    record = record_of(path)
    entry = record['evidence'].get(claim.entry, {})
    difference = entry.get('measures', {}).get(claim.measure, {}).get('differences', {}).get(claim.method, {})
    found = Outcome(claim, UNDECIDED, difference, entry, record, path)
    return found._replace(verdict=verdict(claim.says, difference, found.margin)) if found.is_known else found


def outcomes() -> dict[str, list[Outcome]]:
    """Of all papers."""
    return {paper: [outcome(paper, claim) for claim in claims_of(paper)] for paper in PAPERS}
