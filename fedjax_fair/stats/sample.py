"""Scores of recipes and seeds on test sets, with the influence of every cluster of examples.

Axes: R recipes, S seeds, B base scores (one per test set for a global model, one per client for own models), J units
(the sites or clients that statistics are about) and, in a stratum (a test set), C clusters (patients).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedjax_fair.errors import UserError
from fedjax_fair.stats.scores import Scored


class TooLittle(UserError):
    """There is nothing that statistics could be about."""


@dataclasses.dataclass(frozen=True)
class Stratum:
    """The clusters of one test set, or of several that share patients.

    ``influence[R, S, B', C]`` is that of the clusters ``keys[C]`` on the base scores ``base[B']``; ``present[B', C]``
    says which clusters a base score is about.
    """

    base: np.ndarray
    influence: np.ndarray
    keys: np.ndarray
    present: np.ndarray

    @property
    def clusters(self) -> int:
        return self.influence.shape[-1]


@dataclasses.dataclass(frozen=True)
class Sample:
    """Base scores ``[R, S, B]``, and units as means of them: ``unit = weights[J, B] @ base``.

    ``left_out`` names the units that cannot be judged, with the reason, and ``kept`` holds the places of the others
    among all. Every ``within`` seeds in a row have the same data; then statistics are averaged over them, and data
    seeds take the place of seeds. ``matched`` says that a unit is the same one for all data.
    """

    base: np.ndarray
    strata: tuple[Stratum, ...]
    weights: np.ndarray
    names: tuple[str, ...]
    kept: np.ndarray
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)
    within: int = 1
    matched: bool = True

    @functools.cached_property
    def scores(self) -> np.ndarray:
        """``[R, S, J]``"""
        return self.base @ self.weights.T

    @property
    def variances(self) -> np.ndarray:
        """``[R, S, J]``: the variance of every unit's score that the choice of patients causes."""
        total = np.zeros((*self.base.shape[:2], len(self.weights)))
        for stratum in self.strata:
            total[..., self._units(stratum)] += (self._of_units(stratum) ** 2).sum(-1)
        return total

    @property
    def noise(self) -> np.ndarray:
        """``[R, S]``: what patients add to the variance between units.

        ``sum_c sum_j (Psi_jc - mean_j Psi_jc)^2 / (J - 1)``; the mean variance where units share no patients.
        """
        if len(self.weights) < 2:
            return np.full(self.base.shape[:2], np.nan)
        total = np.zeros(self.base.shape[:2])
        for stratum in self.strata:
            part = self._of_units(stratum)
            silent = len(self.weights) - part.shape[2]  # units that this test set says nothing about
            centre = part.sum(2) / len(self.weights)
            total += ((part - centre[:, :, None]) ** 2).sum((2, 3)) + silent * (centre**2).sum(-1)
        return total / (len(self.weights) - 1)

    @property
    def separate(self) -> bool:
        """Whether no two units share test examples."""
        return all((self._present(stratum).sum(0) <= 1).all() for stratum in self.strata)

    @property
    def clusters(self) -> np.ndarray:
        """``[J]``: how many clusters judge every unit."""
        return np.sum([self._present(stratum).sum(1) for stratum in self.strata], 0)

    def pull(self, gradient: np.ndarray, unit: int | None = None) -> list[np.ndarray]:
        """``U[R, S, C]`` of every stratum: the influence of clusters on a statistic of units, ``gradient[R, S, J]``.

        Of a statistic of one ``unit`` alone, only the strata that say something about it.
        """
        places = slice(None) if unit is None else slice(unit, unit + 1)
        weights, gradient = self.weights[places], gradient[..., places]
        strata = [s for s in self.strata if unit is None or (weights[:, s.base] != 0).any()]
        base = [gradient @ weights[:, s.base] for s in strata]
        return [
            self.over_seeds(np.einsum('rsb,rsbc->rsc', own, s.influence)) for own, s in zip(base, strata, strict=True)
        ]

    def over_seeds(self, values: np.ndarray) -> np.ndarray:
        """``[R, S, ...]`` averaged over the seeds with the same data; as they are where every seed has the same."""
        if self.within == 1:
            return values
        return values.reshape(len(values), -1, self.within, *values.shape[2:]).mean(2)

    def _present(self, stratum: Stratum) -> np.ndarray:
        """``[J, C]``: which clusters a unit is about."""
        return (self.weights[:, stratum.base] != 0) @ stratum.present

    def _units(self, stratum: Stratum) -> np.ndarray:
        """``[J]``: the units that a test set says something about."""
        return (self.weights[:, stratum.base] != 0).any(1)

    def _of_units(self, stratum: Stratum) -> np.ndarray:
        """``[R, S, J', C]``: the influence of clusters on these units."""
        weights = self.weights[self._units(stratum)][:, stratum.base]
        return np.einsum('jb,rsbc->rsjc', weights, stratum.influence)


def distinct(cluster: np.ndarray) -> np.ndarray:
    """Clusters with a number each: an example whose cluster is unknown (-1) is one of its own, -2, -3, ...

    >>> distinct(np.array([4, -1, 4, -1])).tolist()
    [4, -2, 4, -3]
    """
    unknown = cluster < 0
    return np.where(unknown, -1 - np.cumsum(unknown), cluster)


def cluster_sums(influence: np.ndarray, cluster: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """``[..., n]`` summed by cluster to ``[..., C]``, in the order of ``keys``, and 0 for a cluster without examples.

    Times ``sqrt(P / (P - 1))``, with P clusters that have examples: few clusters vary less than many would.

    >>> cluster_sums(np.array([1.0, 2.0, -3.0]), np.array([5, 5, -2]), np.array([-2, 5])).round(3).tolist()
    [-4.243, 4.243]
    """
    sums = np.zeros((*influence.shape[:-1], len(keys)))
    np.add.at(np.moveaxis(sums, -1, 0), np.searchsorted(keys, cluster), np.moveaxis(influence, -1, 0))
    count = len(np.unique(cluster))
    return sums * np.sqrt(count / (count - 1))


class Base(NamedTuple):
    """One score of all recipes and seeds: of which rows, with the reason if it cannot be judged."""

    rows: np.ndarray
    score: np.ndarray
    influence: np.ndarray
    reason: str


def judge(rows: np.ndarray, cluster: np.ndarray, scored: Scored) -> Base:
    """The score of some rows, or why it says nothing. Clusters are :func:`distinct`."""
    score, influence = scored
    if not len(rows):
        return Base(rows, score, influence, 'has no test examples')
    if not np.all(np.isfinite(score)):
        return Base(rows, score, influence, 'has an undefined score (one class alone, or values that are not finite)')
    if len(np.unique(cluster[rows])) < 2:
        return Base(rows, score, influence, 'has a single test patient')
    return Base(rows, score, influence, '')


def make_sample(bases: Sequence[Base], cluster: np.ndarray, weights: np.ndarray, names: Sequence[str]) -> Sample:
    """A sample of the units ``weights[J, B]``; those that cannot be judged are left out and named.

    ``cluster[M]`` are :func:`distinct`. Bases that share clusters form one stratum.
    """
    reasons = [base.reason for base in bases]
    bad = np.array([bool(reason) for reason in reasons])
    unfit = (weights[:, bad] != 0).any(1)
    left_out = {
        names[j]: reasons[int(np.flatnonzero((weights[j] != 0) & bad)[0])] for j in map(int, np.flatnonzero(unfit))
    }
    if unfit.all():
        raise TooLittle('nothing can be judged: ' + '; '.join(f'{name} {why}' for name, why in left_out.items()))
    strata = []
    for members in _sharing([cluster[base.rows] for base in bases], bad):
        keys = np.unique(np.concatenate([cluster[bases[b].rows] for b in members]))
        parts = [cluster_sums(bases[b].influence, cluster[bases[b].rows], keys) for b in members]
        present = np.stack([np.isin(keys, cluster[bases[b].rows]) for b in members])
        strata.append(Stratum(np.array(members), np.stack(parts, 2), keys, present))
    good = next(base for base in bases if not base.reason)
    scores = np.stack([np.zeros(good.score.shape) if base.reason else base.score for base in bases], -1)
    kept = np.flatnonzero(~unfit)
    return Sample(scores, tuple(strata), weights[kept], tuple(names[int(j)] for j in kept), kept, left_out)


def _sharing(clusters: Sequence[np.ndarray], bad: np.ndarray) -> list[list[int]]:
    """The bases that can be judged, those that share a cluster together."""
    groups: list[tuple[list[int], set]] = []
    for b in map(int, np.flatnonzero(~bad)):
        members, keys = [b], set(clusters[b].tolist())
        apart = []
        for group in groups:
            if keys.isdisjoint(group[1]):
                apart.append(group)
            else:
                members, keys = [*group[0], *members], keys | group[1]
        groups = [*apart, (members, keys)]
    return sorted(sorted(members) for members, _ in groups)


def joined(samples: Sequence[Sample], matched: bool = True) -> Sample:
    """Samples of the same units with other data, side by side; each has the same number of seeds.

    Clusters are matched by their keys; one that a sample lacks has no influence there. All of them are one stratum:
    which test set a patient is in depends on the data. ``matched=False``: units have the same names and numbers, and
    nothing else in common, as clients of another partition.
    """
    names = [name for name in samples[0].names if all(name in s.names for s in samples)]
    recipes, within = samples[0].base.shape[:2]
    if not names or any(sample.base.shape[1] != within for sample in samples):
        raise TooLittle('nothing can be judged: no site or client can be judged for every data seed and seed')
    keys = np.unique(np.concatenate([stratum.keys for s in samples for stratum in s.strata]))
    base = np.zeros((recipes, len(samples) * within, len(names)))
    influence = np.zeros((recipes, len(samples) * within, len(names), len(keys)))
    present = np.zeros((len(names), len(keys)), bool)
    for number, sample in enumerate(samples):
        place = slice(number * within, (number + 1) * within)
        units = [sample.names.index(name) for name in names]
        base[:, place] = sample.scores[..., units]
        for stratum in sample.strata:
            at = np.searchsorted(keys, stratum.keys)
            effect = np.einsum('jb,rsbc->rsjc', sample.weights[units][:, stratum.base], stratum.influence)
            influence[:, place][..., at] += effect
            present[:, at] |= sample._present(stratum)[units]
    stratum = Stratum(np.arange(len(names)), influence, keys, present)
    left_out = {name: why for s in samples for name, why in s.left_out.items()}
    places = np.arange(len(names))
    return Sample(base, (stratum,), np.eye(len(names)), tuple(names), places, left_out, within, matched)
