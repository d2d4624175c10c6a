"""What a file of results/community may hold: numbers, versions and kinds of devices, and no word that anybody wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.accelerators.worker import DRIVERS, LONGEST_KIND
from benchmarks.peers.job import JOBS
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of
from fedjax_fair.results.facts import PACKAGES
from fedjax_fair.results.shapes import NUMBER, WHOLE, Shape, maybe


class Some(NamedTuple):
    """An object with at least one of these fields, whose values are all alike."""

    names: tuple[str, ...]
    each: Any


def _text(words: str, pattern: str) -> Shape:
    return Shape(words, lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value, re.ASCII)))


def _positive(shape: Shape) -> Shape:
    return Shape(f'{shape.words} above 0', lambda value: shape.fits(value) and value > 0)


COUNT, AMOUNT = _positive(WHOLE), _positive(NUMBER)
_TRIED = r'\d+ \((does not fit|fits|[\d.e+-]+ s for \d+ steps)\)'
JOB = {
    'spread': {
        'devices': COUNT,
        'clients_at_once': COUNT,
        'chosen_among': maybe(_text('clients at once and their times, as a run tells them', f'{_TRIED}(; {_TRIED})*')),
    },
    'rounds': COUNT,
    'seconds_per_round': {'min': AMOUNT, 'median': AMOUNT},
    'compile_seconds': Shape('a number of at least 0', lambda value: NUMBER.fits(value) and value >= 0),
    'memory': {'device_peak_mib': maybe(COUNT), 'host_peak_mib': COUNT},
}
FIELDS = {
    'devices': {
        'platform': _text('cpu, gpu or tpu', 'cpu|gpu|tpu'),
        'kind': _text(
            f'at most {LONGEST_KIND} letters, digits, blanks and any of _.()+-', rf'[\w .()+-]{{1,{LONGEST_KIND}}}'
        ),
        'count': COUNT,
        'memory_gib': maybe(AMOUNT),
    },
    'machine': {'cores': COUNT, 'memory_gib': AMOUNT},
    'versions': Some(
        ('python', *PACKAGES, *(name for names in DRIVERS.values() for name in names)),
        _text('a version', r'[\w.+!-]{1,40}'),
    ),
    'commit': maybe(_text('a commit', '[0-9a-f]{40}(-dirty)?')),
    'jobs': Some(tuple(JOBS), JOB),
}
CLEAN = re.compile('[0-9a-f]{40}')


def checked(record: Any, place: str) -> dict[str, Any]:
    """The record after refusing one with another field or value; ``place`` begins the error message."""
    _check(record, FIELDS, place, '')
    return record


def _check(value: Any, wanted: Any, place: str, name: str) -> None:
    where = f'{place}: field {name!r}' if name else place
    if isinstance(wanted, Shape):
        if not wanted.fits(value):
            raise UserError(f'{where} must be {wanted.words}')
        return
    if not isinstance(value, dict) or not value:
        raise UserError(f'{where} must be an object with fields')
    fields: Mapping[str, Any] = dict.fromkeys(wanted.names, wanted.each) if isinstance(wanted, Some) else wanted
    for one in value:
        if one not in fields:
            raise UserError(f'{where}: field {one!r} {not_one_of(one, fields)}')
    for one in fields:
        if one in value:
            _check(value[one], fields[one], place, f'{name}.{one}' if name else one)
        elif not isinstance(wanted, Some):
            raise UserError(f'{where}: field {one!r} is missing')


def name_of(record: Mapping[str, Any]) -> str:
    """How the name of its file begins: the devices, and the commit.

    >>> name_of({'devices': {'kind': 'Tesla T4', 'count': 1}, 'commit': 'ab081d50'})
    'tesla-t4-x1-ab081d5'
    """
    devices, commit = record['devices'], record['commit'] or 'unknown'
    return re.sub('[^a-z0-9]+', '-', f'{devices["kind"]} x{devices["count"]} {commit[:7]}'.lower())


def obstacle(record: Mapping[str, Any]) -> str | None:
    """Why a record cannot be sent to others; None if it can."""
    if record['commit'] is None:
        return 'its code is not in a git checkout, so that nobody knows what was measured'
    if not CLEAN.fullmatch(record['commit']):
        return 'files differ from its commit, so that nobody can measure the same again'
    return None
