"""Everything that can be said about several recipes from what every test example got."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjax_fair.errors import UserError
from fedjax_fair.stats import inference
from fedjax_fair.stats.distribution import holm
from fedjax_fair.stats.extremes import corrected_gap, corrected_worst
from fedjax_fair.stats.inference import Errors
from fedjax_fair.stats.sample import Sample, distinct, judge, make_sample
from fedjax_fair.stats.scores import MATRIX_SCORES, Scored, score_function
from fedjax_fair.stats.statistics import Statistic, statistics_of
from fedjax_fair.stats.verdicts import best_set, verdicts

MISSING = 255  # in whole numbers of one byte: the example is not in the client's test set
JAIN_SHARE = 0.1  # of delta: Jain's index of scores moves about ten times less than their spread


class Outcome(NamedTuple):
    """One statistic of all recipes: values ``[R, S]``, levels ``[R]`` and pairs ``A < B``.

    ``p_holm`` is adjusted over all pairs, ``verdict`` is not. ``best`` marks the recipes that cannot be told from the
    best one.
    """

    statistic: Statistic
    values: np.ndarray
    level: Errors
    level_half: np.ndarray
    first: np.ndarray
    second: np.ndarray
    pairs: Errors
    a_own: np.ndarray
    p: np.ndarray
    p_holm: np.ndarray
    half95: np.ndarray
    half90: np.ndarray
    delta: np.ndarray
    verdict: np.ndarray
    best: np.ndarray
    influences: list[np.ndarray]


class Analysis(NamedTuple):
    """All statistics of one sample; ``corrected`` says whether worst and gap could be corrected for test noise."""

    sample: Sample
    outcomes: dict[str, Outcome]
    delta: float | Mapping[str, float]

    @property
    def spread(self) -> np.ndarray:
        """``sqrt(max(0, mean over seeds of spread^2))``, by recipe."""
        return _spread(self.outcomes['spread2'].values)

    @property
    def raw_std(self) -> np.ndarray:
        """The standard deviation between units (ddof 1), the noise of tests included; mean over seeds."""
        return self.sample.scores.std(-1, ddof=1).mean(1)

    @property
    def worst_corrected(self) -> np.ndarray:
        """The lowest score without the bias of noise; NaN where units share test examples."""
        return self._corrected(corrected_worst).mean(1)

    @property
    def gap_corrected(self) -> np.ndarray:
        """Best minus worst without the bias of noise; NaN where units share test examples."""
        return np.maximum(0, self._corrected(corrected_gap)).mean(1)

    def _corrected(self, function) -> np.ndarray:
        if not self.sample.separate:
            return np.full(self.sample.base.shape[:2], np.nan)
        return function(self.sample.scores, self.sample.variances)


def _spread(squares: np.ndarray) -> np.ndarray:
    """Of squared spreads ``[R, S]``; a spread that is exactly that of test noise is seldom exactly 0 after rounding."""
    mean = squares.mean(1)
    return np.sqrt(np.where(mean <= inference.ROUNDING, 0, mean))


def margin(name: str, delta: float | Mapping[str, float], spread: np.ndarray, first, second) -> np.ndarray:
    """The smallest difference of interest of one statistic, for every pair.

    ``delta`` is one for scores. On squared spreads it is ``delta max(delta, spread_A + spread_B)``, so that it means
    ``delta`` on the scale of spreads; on Jain's index a tenth of it. A mapping gives each statistic its own.
    """
    if isinstance(delta, Mapping):
        return np.full(len(first), delta.get(name, np.nan))
    if name == 'spread2':
        return delta * np.maximum(delta, spread[first] + spread[second])
    return np.full(len(first), delta * JAIN_SHARE if name == 'jain' else delta)


def analyse_sample(sample: Sample, delta: float | Mapping[str, float] = 0.01) -> Analysis:
    """All statistics of a sample, with intervals and verdicts."""
    recipes, seeds = len(sample.base), sample.base.shape[1] // sample.within
    found = {name: _estimated(sample, one, recipes, seeds) for name, one in statistics_of(sample).items()}
    spread = _spread(found['spread2'].values) if 'spread2' in found else np.zeros(recipes)
    # P values and half widths of all statistics at once: one by one they would take several times as long.
    levels, pairs = (inference.joined([getattr(one, kind) for one in found.values()]) for kind in ('level', 'pairs'))
    numbers = (levels.half(0.95), pairs.p, pairs.half(0.95), pairs.half(0.9))
    by_statistic = zip(found.items(), *(np.split(one, len(found)) for one in numbers), strict=True)
    outcomes = {
        name: _judged(one, level_half, p, half95, half90, margin(name, delta, spread, one.first, one.second))
        for (name, one), level_half, p, half95, half90 in by_statistic
    }
    return Analysis(sample, outcomes, delta)


class _Estimated(NamedTuple):
    """What an :class:`Outcome` is made from."""

    statistic: Statistic
    values: np.ndarray
    level: Errors
    first: np.ndarray
    second: np.ndarray
    pairs: Errors
    a_own: np.ndarray
    influences: list[np.ndarray]


def _estimated(sample: Sample, statistic: Statistic, recipes: int, seeds: int) -> _Estimated:
    by_seed, gradient = statistic.value(sample)
    values, influences = sample.over_seeds(by_seed), sample.pull(gradient, statistic.unit)
    level = inference.errors(values, influences, statistic.smooth)
    own = inference.pair_errors(values, influences, statistic.smooth)
    pairs = inference.moderated(own, recipes, seeds)
    return _Estimated(statistic, values, level, *inference.pair_places(recipes), pairs, own.a, influences)


def _judged(
    one: _Estimated,
    level_half: np.ndarray,
    p: np.ndarray,
    half95: np.ndarray,
    half90: np.ndarray,
    least: np.ndarray,
) -> Outcome:
    adjusted, up = holm(p), one.statistic.higher_is_better
    word = verdicts(one.pairs.estimate, p, half90, least, up)
    best = best_set(one.pairs.estimate, adjusted, one.first, one.second, len(one.values), up)
    return Outcome(
        one.statistic, one.values, one.level, level_half, one.first, one.second, one.pairs, one.a_own, p, adjusted,
        half95, half90, least, word, best, one.influences,
    )  # fmt: skip


def analyse(
    values, site, patient, *, score: str, label=None, delta: float | Mapping[str, float] = 0.01
) -> dict[str, Any]:
    """Levels, paired differences and verdicts of R recipes with S common seeds on the same M examples.

    Args:
        values: ``[R, S, M]``: right answers (accuracy, balanced_accuracy), Dice, or scores of the positive class (auc);
            ``[R, S, M, K]``: a score per class (auc_ovo, auc_ovr) or label (auc_multilabel). For models of N clients'
            own, means only: ``[R, S, N, M]``, with NaN (255 in bytes) for examples of other clients' test sets.
        site: ``[M]``, the test set of every example.
        patient: ``[M]``, numbered within a site; -1 is unknown.
        score: accuracy, dice, balanced_accuracy, auc, auc_ovo, auc_ovr, auc_multilabel.
        label: ``[M]``, or ``[M, K]`` for several labels; where the score needs it.
        delta: the smallest difference of interest, of every score or by statistic.

    Returns:
        Arrays by name. For each statistic ``t`` (avg, spread2, jain, worst, worst10, best10, gap, site0, ...):
        ``t[R, S]``; ``t_level``, ``t_level_lo95``, ``t_level_hi95`` ``[R]``; ``t_pair_*`` by pair: ``A``, ``B``,
        ``estimate``, ``a_own``, ``a``, ``df_a``, ``kappa``, ``df_kappa`` (``own``, ``df_own`` for worst, worst10,
        best10 and gap), ``p``, ``p_holm``, ``lo95``, ``hi95``, ``lo90``, ``hi90``, ``verdict``; ``t_best_set[R]``.
        Besides ``site_score``, ``site_variance`` ``[R, S, J]``, ``clusters``, ``noise[R, S]``, ``example_influence``
        (rows ordered by site), ``spread``, ``raw_std``, ``worst_raw``, ``worst_corrected``, ``gap_raw``,
        ``gap_corrected``.

    >>> right = np.array([[[1, 1, 0, 1], [1, 0, 0, 1]], [[0, 1, 0, 0], [1, 0, 0, 0]]])
    >>> found = analyse(right, [0, 0, 1, 1], [0, 1, 0, 1], score='accuracy')
    >>> found['avg'].tolist(), found['avg_pair_verdict'].tolist()
    ([[0.75, 0.5], [0.25, 0.25]], ['undecided'])
    """
    values, site, patient = np.asarray(values), np.asarray(site), np.asarray(patient)
    label = None if label is None else np.asarray(label)
    _check_arguments(values, patient, delta)
    name, function = score_function(score, values, label)
    own_models = values.ndim == 4 and name not in MATRIX_SCORES
    examples = values.shape[2] if name in MATRIX_SCORES else values.shape[-1]
    if not (len(site) == len(patient) == examples):
        raise UserError(f'`site`, `patient` and `values` differ in length: {len(site)}, {len(patient)}, {examples}')
    if label is not None and len(label) != examples:
        raise UserError(f'`label` and `values` differ in length: {len(label)}, {examples}')
    cluster = _keys(site, patient)
    rows = [np.flatnonzero(site == one) for one in np.unique(site)]

    def scored(given: np.ndarray, own: np.ndarray) -> Scored:
        return function(given[:, :, own].astype(np.float64), None if label is None else label[own])

    if own_models:
        owners = [(n, own) for own in rows for n in _owners(values, own)]
        owners.sort(key=lambda owner: owner[0])
        bases = [judge(own, cluster, scored(values[:, :, n], own)) for n, own in owners]
    else:
        bases = [judge(own, cluster, scored(values, own)) for own in rows]
    sample = make_sample(bases, cluster, np.eye(len(bases)), [str(place) for place in range(len(bases))])
    found = flat(analyse_sample(sample, delta))
    if not own_models:
        found['example_influence'] = np.concatenate([base.influence for base in bases], -1)
    found['clusters'] = np.array([len(np.unique(cluster[own])) for own in rows])
    return found


def _check_arguments(values: np.ndarray, patient: np.ndarray, delta: float | Mapping[str, float]) -> None:
    if values.ndim not in (3, 4) or not values.size:
        raise UserError(f'`values` must be [recipes, seeds, examples] or have one axis more, not {list(values.shape)}')
    if not isinstance(delta, Mapping) and not delta > 0:
        raise UserError(f'`delta`={delta} must be above 0')
    if patient.dtype.kind not in 'iu':
        raise UserError(f'`patient` must be whole numbers, not {patient.dtype}')


def _keys(site: np.ndarray, patient: np.ndarray) -> np.ndarray:
    """Patients are numbered within a site; -1 is one of its own."""
    _, place = np.unique(np.stack([site, patient], -1), axis=0, return_inverse=True)
    return distinct(np.where(patient < 0, -1, place.ravel()))


def _owners(values: np.ndarray, rows: np.ndarray) -> list[int]:
    """The clients that a test set belongs to: a client has values for the examples of its own set alone."""
    there = np.isfinite(values) if np.issubdtype(values.dtype, np.floating) else values != MISSING
    return [int(n) for n in np.flatnonzero(there.all((0, 1))[:, rows].all(1))]


def flat(analysis: Analysis) -> dict[str, Any]:
    """The arrays of an analysis by the names that :func:`analyse` lists."""
    sample, found = analysis.sample, {}
    for name, o in analysis.outcomes.items():
        found[name] = o.values
        if not o.statistic.judged:
            continue
        shared = ('kappa', 'df_kappa') if o.statistic.smooth else ('own', 'df_own')
        found |= {
            f'{name}_level': o.level.estimate,
            f'{name}_level_lo95': o.level.estimate - o.level_half,
            f'{name}_level_hi95': o.level.estimate + o.level_half,
            f'{name}_best_set': o.best,
            f'{name}_delta': o.delta,
        }
        pair = {
            'A': o.first, 'B': o.second, 'estimate': o.pairs.estimate, 'a_own': o.a_own, 'a': o.pairs.a,
            'df_a': o.pairs.df_a, shared[0]: o.pairs.kappa, shared[1]: o.pairs.df_kappa, 'p': o.p, 'p_holm': o.p_holm,
            'lo95': o.pairs.estimate - o.half95, 'hi95': o.pairs.estimate + o.half95,
            'lo90': o.pairs.estimate - o.half90, 'hi90': o.pairs.estimate + o.half90, 'verdict': o.verdict,
        }  # fmt: skip
        found |= {f'{name}_pair_{key}': value for key, value in pair.items()}
    found |= {'site_score': sample.scores, 'site_variance': sample.variances}
    if len(sample.names) > 1:
        found |= {
            'noise': sample.noise,
            'spread': analysis.spread,
            'raw_std': analysis.raw_std,
            'worst_raw': found['worst'].mean(1),
            'worst_corrected': analysis.worst_corrected,
            'gap_raw': found['gap'].mean(1),
            'gap_corrected': analysis.gap_corrected,
        }
    return found
