"""Problems of data, found before anything is trained.

A check is a function of a pool that returns the problems it finds. A problem is grave if it makes results wrong:
examples or patients that are both trained on and tested, classes that are tested but cannot be learned. Other problems
are worth a look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fedjax_fair.data.duplicates import constant, digests, nearly_equal
from fedjax_fair.data.federation import Federation
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.pool_overview import class_names, counts_of_classes, counts_of_sites, value_range

DARK = 32  # values below which images of bytes are mentioned
FEW = 5  # training examples of a class below which it is mentioned
NAMED = 5  # places that a problem tells of
TRAINED_AND_TESTED = 'patients are both trained on and tested'


class Problem(NamedTuple):
    """A problem in words, how often it occurs, and where first."""

    what: str
    times: int
    where: tuple[str, ...]
    grave: bool = False

    @property
    def sentence(self) -> str:
        """What users are told.

        >>> Problem('patients are both trained on and tested', 7, ('a and b',), grave=True).sentence
        'PROBLEM: 7 patients are both trained on and tested: a and b, ...'
        """
        told = f'{self.times} {self.what}' if self.where else self.what
        where = ', '.join(self.where) + ', ...' * (self.times > len(self.where) > 0)
        return f'{"PROBLEM" if self.grave else "warning"}: {told}{": " * bool(where)}{where}'


def _problems(what: str, where: Sequence[str], grave: bool = False) -> list[Problem]:
    return [Problem(what, len(where), tuple(where[:NAMED]), grave)] if where else []


def find_problems(pool: Pool) -> list[Problem]:
    """All problems, the grave ones first."""
    problems = [problem for check in CHECKS for problem in check(pool)]
    return sorted(problems, key=lambda problem: not problem.grave)


# --- images ----------------------------------------------------------------------------------------------------------


def same_images(pool: Pool) -> list[Problem]:
    """Test examples that are training examples too, and equal examples with different labels."""
    rows = np.flatnonzero(~constant(pool.x))
    if not len(rows):
        return []
    _, first, number = np.unique(digests(pool.x)[rows], True, True)
    return [*_leaked(pool, rows, number), *_contradicted(pool, rows, first, number)]


def _leaked(pool: Pool, rows: np.ndarray, number: np.ndarray) -> list[Problem]:
    trained = np.full(number.max(initial=-1) + 1, -1)
    held_out = pool.held_out[rows]
    trained[number[~held_out][::-1]] = rows[~held_out][::-1]  # the first of several
    both = np.flatnonzero(held_out & (trained[number] >= 0))
    where = [f'{pool.name(rows[k])} = {pool.name(trained[number[k]])}' for k in both]
    return _problems('test examples are training examples too', where, grave=True)


def _contradicted(pool: Pool, rows: np.ndarray, first: np.ndarray, number: np.ndarray) -> list[Problem]:
    other = rows[first[number]]
    differ = (pool.y[rows] != pool.y[other]).reshape(len(rows), -1).any(1)
    where = [f'{pool.name(a)} = {pool.name(b)}' for a, b in zip(rows[differ], other[differ], strict=True)]
    return _problems('examples equal another one that has a different label', where)


def similar_images(pool: Pool) -> list[Problem]:
    """Test images that look like a training image without being equal to it."""
    if pool.x.ndim != 4:
        return []
    tested, trained = nearly_equal(pool.x, np.flatnonzero(~pool.held_out), np.flatnonzero(pool.held_out))
    pairs = [(a, b) for a, b in zip(tested, trained, strict=True) if not np.array_equal(pool.x[a], pool.x[b])]
    return _problems('test images look like a training image', [f'{pool.name(a)} ~ {pool.name(b)}' for a, b in pairs])


def constant_images(pool: Pool) -> list[Problem]:
    """Images of one colour, from which nothing can be learned."""
    return _problems('examples hold one value only', [pool.name(k) for k in np.flatnonzero(constant(pool.x))])


# --- patients --------------------------------------------------------------------------------------------------------


def divided_patients(pool: Pool) -> list[Problem]:
    """Patients with examples on both sides, or of several sites."""
    if pool.patient_of is None:
        return []
    both = _apart(pool, pool.patient_of, pool.held_out)
    sites = [] if pool.site_of is None else _apart(pool, pool.patient_of, pool.site_of, pool.site_of >= 0)
    return [
        *_problems(TRAINED_AND_TESTED, both, grave=True),
        *_problems('patients have examples of several sites', sites),
    ]


def _apart(pool: Pool, patient_of: np.ndarray, value: np.ndarray, counts: np.ndarray | None = None) -> list[str]:
    """Two examples of each patient whose examples differ in ``value``; only those that ``counts`` marks count."""
    rows = np.flatnonzero(np.ones(len(value), bool) if counts is None else counts)
    _, first, number = np.unique(patient_of[rows], True, True)
    other = np.flatnonzero(value[rows] != value[rows[first[number]]])
    _, seen = np.unique(number[other], return_index=True)
    pairs = [(rows[first[number[k]]], rows[k]) for k in np.sort(other[seen])]
    return [f'{pool.name(a)} and {pool.name(b)}' for a, b in pairs]


def patients_of_several(federation: Federation) -> list[Problem]:
    """Patients of a federation that are both trained on and tested, or that several clients train on."""
    if federation.patient_of is None:
        return []
    held = np.arange(federation.index.shape[1]) < federation.sizes[:, None]
    clients = _places(federation.patient_of[federation.index[held]], np.nonzero(held)[0])
    sets: dict[int, list[int]] = {}
    if federation.test_patient_of is not None:
        mask = np.asarray(federation.tests.mask)
        sets = _places(federation.test_patient_of[mask], np.nonzero(mask)[0])
    names = federation.tests.names
    leaks = [(p, own[0], names[sets[p][0]]) for p, own in clients.items() if p in sets]
    both = [f'patient {p} (client {client}, test set {name})' for p, client, name in leaks]
    several = [f'patient {p} (clients {own[0]} and {own[1]})' for p, own in clients.items() if len(own) > 1]
    return [
        *_problems(TRAINED_AND_TESTED, both, grave=True),
        *_problems('patients are trained on by several clients', several),
    ]


def _places(patients: np.ndarray, places: np.ndarray) -> dict[int, list[int]]:
    """The different places of every patient, in order."""
    found: dict[int, list[int]] = {}
    for patient, place in np.unique(np.stack([patients, places], 1), axis=0).tolist():
        found.setdefault(patient, []).append(place)
    return found


def dark_images(pool: Pool) -> list[Problem]:
    """Bytes that use little of their range: 12 bits stored as 16 lose most of their greys."""
    highest = int(value_range(pool.x)[1]) if pool.x.dtype == np.uint8 else DARK
    return _problems('is the highest of all values, of 255: 12 bits stored as 16?', [str(highest)] * (highest < DARK))


# --- classes and sites -----------------------------------------------------------------------------------------------


def empty_sides(pool: Pool) -> list[Problem]:
    """Nothing to train on or nothing to test with."""
    sides = {'training': not (~pool.held_out).any(), 'testing': not pool.held_out.any()}
    return _problems('sides of the data are empty', [side for side, empty in sides.items() if empty], grave=True)


def class_problems(pool: Pool) -> list[Problem]:
    """Classes that cannot be learned or tested, or hardly."""
    trained, tested = counts_of_classes(pool).T
    names = class_names(pool)

    def those(chosen: np.ndarray) -> list[str]:
        return [names[c] for c in np.flatnonzero(chosen)]

    return [
        *_problems('classes are tested but have no training example', those((trained == 0) & (tested > 0)), grave=True),
        *_problems('classes have no example at all', those((trained == 0) & (tested == 0))),
        *_problems('classes have no test example', those((tested == 0) & (trained > 0))),
        *_problems(f'classes have fewer than {FEW} training examples', those((trained > 0) & (trained < FEW))),
    ]


def site_problems(pool: Pool) -> list[Problem]:
    """Sites that cannot be both trained on and tested; test examples of no site test all of them."""
    trained, tested = counts_of_sites(pool).T

    def those(chosen: np.ndarray) -> list[str]:
        return [pool.sites[g] for g in np.flatnonzero(chosen)]

    return [
        *_problems('sites have no training example (see the option join_sites)', those(trained == 0)),
        *_problems('sites have no test example (see the option join_sites)', those((tested == 0) & tested.any())),
    ]


CHECKS: tuple[Callable[[Pool], list[Problem]], ...] = (
    same_images,
    similar_images,
    divided_patients,
    empty_sides,
    class_problems,
    site_problems,
    constant_images,
    dark_images,
)
