"""The numbers of a comparison as they are shown: levels, and differences with the baseline, in points.

A point is a hundredth of a score. Variances (``a``, ``kappa``) are in squared points; those of the spread belong to the
squared spread, about which verdicts are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedjax_fair import stats
from fedjax_fair.results.chance import unlearned
from fedjax_fair.results.comparison import FEWEST_PATIENTS, Comparison
from fedjax_fair.stats.verdicts import IDENTICAL, UNDECIDED, best_set, certainty

POINTS = 100.0
ONE_SEED, TOO_FEW, NO_SPREAD = 'undecided (one seed)', 'too few patients', 'no spread beyond test noise'
PRIMARY = ('avg', 'spread')
FAIRNESS = ('spread2', 'jain', 'worst', 'worst10', 'best10', 'gap')  # statistics that compare sites
PLAIN = ('jain', 'gini')  # indices between 0 and 1, not points
NAMES = {
    'avg': ('AVG', 'mean {score} over {over}, %'),
    'spread': ('spread', 'standard deviation of {score} over {over} beyond the noise of tests, points'),
    'worst': ('worst', 'lowest {score} over {over}, %'),
    'worst10': ('worst 10 %', 'mean {score} of the worst tenth of {over}, %'),
    'best10': ('best 10 %', 'mean {score} of the best tenth of {over}, %'),
    'gap': ('gap', 'best minus worst {score} over {over}, points'),
    'jain': ('Jain', "Jain's index of {score} over {over}, corrected for the noise of tests"),
    'gini': ('Gini', "Gini's coefficient of {score} over {over}"),
}


class Level(NamedTuple):
    """One statistic of one recipe with its 95 % interval, inside what is possible; None where unknown.

    The ``estimate`` of a spread is without the noise of tests and ``raw`` has it. That of worst and gap is as it was
    measured, and ``corrected`` is without the bias that noise brings.
    """

    estimate: float | None
    lo: float | None = None
    hi: float | None = None
    a: float | None = None
    df_a: float | None = None
    kappa: float | None = None
    df_kappa: float | None = None
    seed_sd: float | None = None
    raw: float | None = None
    corrected: float | None = None


class Difference(NamedTuple):
    """A recipe minus the baseline, with 95 and 90 % intervals; ``p_holm`` is corrected over all such differences.

    ``seeds_needed`` and ``patients_needed`` (times as many) say what would decide a difference of the margin;
    ``certainty`` is that of the direction, ``chance`` that one run of the recipe beats one of the baseline.
    """

    estimate: float
    lo: float
    hi: float
    lo90: float
    hi90: float
    a: float
    df_a: float
    kappa: float
    df_kappa: float
    p: float | None
    p_holm: float | None
    verdict: str
    seeds_needed: int | None
    patients_needed: float | None
    certainty: float | None
    chance: float | None

    @property
    def seed_share(self) -> float | None:
        """The share of the variance that seeds cause; the rest is from test patients."""
        total = self.a + self.kappa
        return self.a / total if total > 0 else None

    def withheld(self, why: str) -> Difference:
        """The numbers without a verdict, and without all that would stand for one."""
        return self._replace(
            verdict=why, p=None, p_holm=None, seeds_needed=None, patients_needed=None, certainty=None, chance=None
        )


class Measure(NamedTuple):
    """One statistic of all recipes; ``differences`` and ``best`` are None where there is nothing to say.

    ``best`` marks the recipes that cannot be told from the best one. ``patients`` judge a single site or client, or
    the extreme ones that a worst, best or gap rests on: the fewest of any recipe and seed.
    """

    key: str
    name: str
    about: str
    higher_is_better: bool
    levels: tuple[Level | None, ...]
    differences: tuple[Difference | None, ...]
    best: tuple[bool | None, ...]
    patients: int | None = None

    @property
    def primary(self) -> bool:
        """Verdicts on the other statistics are exploratory."""
        return self.key in PRIMARY


def measures_of(comparison: Comparison, score: str) -> dict[str, Measure]:
    """Every statistic of a comparison by key; ``score`` is what the numbers are about, in words.

    Keys are avg, spread, worst, worst10, best10, gap, jain, gini; ``site:NAME`` for every group or client; where there
    are groups, ``client_avg`` and so on for the statistics over clients.
    """
    found = dict(_measures(comparison, comparison.analysis, score, comparison.over, ''))
    if comparison.clients is not comparison.analysis:
        found |= dict(_measures(comparison, comparison.clients, score, 'clients', 'client_'))
    return found


def _measures(
    comparison: Comparison, analysis: stats.Analysis, score: str, over: str, prefix: str
) -> Iterator[tuple[str, Measure]]:
    sample = analysis.sample
    patients = dict(zip((f'site{place}' for place in sample.kept), map(int, sample.clusters), strict=True))
    sites = dict(zip(patients, sample.names, strict=True))
    for name, outcome in analysis.outcomes.items():
        key = f'{prefix}site:{sites[name]}' if name in sites else prefix + name.replace('spread2', 'spread')
        known = NAMES.get(key.removeprefix(prefix), (sites.get(name, ''), f'{{score}} on {sites.get(name)}, %'))
        title, about = (text.replace('{score}', score).replace('{over}', over) for text in known)
        title = f'client {title}' if prefix and name not in sites else title
        levels = _levels(analysis, name)
        own = patients.get(name) if outcome.statistic.smooth else _of_extremes(sample, outcome)
        best = _best(comparison, outcome, own)
        differences = _differences(comparison, analysis, name, own)
        better = outcome.statistic.higher_is_better
        yield key, Measure(key, title, about, better, levels, differences, best, own)


def _of_extremes(sample: stats.Sample, outcome: stats.Outcome) -> int | None:
    """The fewest patients that the extreme sites of any recipe and seed have together, at either end; None: no gap."""
    _, gradient = outcome.statistic.value(sample)
    counts = [(end @ sample.clusters)[end.any(-1)] for end in (gradient > 0, gradient < 0)]
    return min(map(int, np.concatenate(counts)), default=None)


def _best(comparison: Comparison, outcome: stats.Outcome, patients: int | None) -> tuple[bool | None, ...]:
    """The recipes that cannot be told from the best one of those that learned; of the others there is nothing to say.

    A model that answers alike everywhere may have the lowest spread, and must not take the mark from others.
    """
    count = len(comparison.runs)
    if min(count, len(comparison.seeds)) == 1 or not outcome.statistic.judged or too_few(patients):
        return (None,) * count
    judged = np.isfinite(outcome.level.estimate) & [not doubt for doubt in _doubts(comparison)]
    pairs = judged[outcome.first] & judged[outcome.second]
    places = (outcome.first[pairs], outcome.second[pairs])
    p_holm, higher = stats.holm(outcome.p[pairs]), outcome.statistic.higher_is_better
    member = best_set(outcome.pairs.estimate[pairs], p_holm, *places, count, higher)
    return tuple(bool(one) if known else None for one, known in zip(member, judged, strict=True))


def _doubts(comparison: Comparison) -> list[str]:
    """Why a recipe must not be called fair, see :func:`~fedjax_fair.results.chance.unlearned`."""
    return [unlearned(run, run.headline) for run in comparison.runs]


def _levels(analysis: stats.Analysis, name: str) -> tuple[Level, ...]:
    outcome, level = analysis.outcomes[name], analysis.outcomes[name].level
    scale = _scale(name)
    squared = name == 'spread2'
    shown = {'spread2': _root, 'jain': _at_most_one}.get(name, lambda value: value)
    seeds = outcome.values.shape[1]
    values = shown(outcome.values)
    judged = outcome.statistic.judged
    known = judged & (outcome.level_half > 0)  # where all seeds and patients agree, nothing is known of others
    raw = analysis.raw_std if squared else None
    corrected = {'worst': 'worst_corrected', 'gap': 'gap_corrected'}.get(name)
    better = getattr(analysis, corrected) if corrected else None
    if name == 'worst' and better is not None:  # the correction is about the mean of many trials, and may overshoot
        better = np.minimum(better, analysis.outcomes['avg'].level.estimate)
    variance = (scale**2) ** (2 if squared else 1)
    return tuple(
        Level(
            estimate=_number(scale * shown(level.estimate[r])),
            lo=_number(scale * shown(np.maximum(0, level.estimate[r] - outcome.level_half[r]))) if known[r] else None,
            hi=_number(scale * shown(np.minimum(1, level.estimate[r] + outcome.level_half[r]))) if known[r] else None,
            a=_number(variance * level.a[r]) if judged and seeds > 1 else None,
            df_a=_number(level.df_a[r]) if judged and seeds > 1 else None,
            kappa=_number(variance * level.kappa[r]) if judged else None,
            df_kappa=_number(level.df_kappa[r]) if judged else None,
            seed_sd=_number(scale * values[r].std(ddof=1)) if seeds > 1 else None,
            raw=None if raw is None else _number(scale * raw[r]),
            corrected=None if better is None else _number(scale * better[r]),
        )
        for r in range(len(outcome.values))
    )


def _differences(
    comparison: Comparison, analysis: stats.Analysis, name: str, patients: int | None
) -> tuple[Difference | None, ...]:
    """Of every recipe with the baseline, which itself has none."""
    outcome, base, recipes = analysis.outcomes[name], comparison.baseline, len(comparison.runs)
    found: list[Difference | None] = [None] * recipes
    others = [r for r in range(recipes) if r != base]
    if not outcome.statistic.judged or not others:
        return tuple(found)
    pairs = {(int(a), int(b)): place for place, (a, b) in enumerate(zip(outcome.first, outcome.second, strict=True))}
    places = np.array([pairs[min(r, base), max(r, base)] for r in others])
    signs = np.array([1.0 if r < base else -1.0 for r in others])
    p_holm = stats.holm(outcome.p[places])
    estimates, half90, least = signs * outcome.pairs.estimate[places], outcome.half90[places], outcome.delta[places]
    words = stats.verdicts(estimates, p_holm, half90, least, outcome.statistic.higher_is_better)
    for r, place, sign, p, word in zip(others, places, signs, p_holm, words, strict=True):
        spreads = float(analysis.spread[[r, base]].sum()) if name == 'spread2' else None
        one = _difference(comparison, outcome, name, int(place), float(sign), _number(p), str(word), spreads)
        why = _why_withheld(comparison, name, r, str(word), spreads, patients)
        found[r] = one.withheld(why) if one is not None and why else one
    return tuple(found)


def _why_withheld(
    comparison: Comparison, name: str, recipe: int, word: str, spreads: float | None, patients: int | None
) -> str:
    """Why there is no verdict on a recipe beside the baseline; empty where there is one."""
    if len(comparison.seeds) == 1:
        return word if word == IDENTICAL else ONE_SEED
    if name in FAIRNESS and (doubt := _doubt(comparison, recipe)):
        return doubt
    if spreads == 0:
        return NO_SPREAD
    return TOO_FEW if too_few(patients) else ''


def _doubt(comparison: Comparison, recipe: int) -> str:
    """Which of two recipes did not learn, or may not have: how even its scores are is no fairness."""
    doubts, base = _doubts(comparison), comparison.baseline
    told = [doubts[recipe], f'{comparison.runs[base].label} {doubts[base]}' if doubts[base] else '']
    return f'undecided ({"; ".join(filter(None, told))})' if any(told) else ''


def too_few(patients: int | None) -> bool:
    """Whether the patients of one site are too few for a verdict about it."""
    return patients is not None and patients < FEWEST_PATIENTS


def _difference(
    comparison: Comparison,
    outcome: stats.Outcome,
    name: str,
    place: int,
    sign: float,
    p_holm: float | None,
    word: str,
    spreads: float | None,
) -> Difference | None:
    """One pair of an outcome, turned round where ``sign`` is -1; None where it is not finite, as Jain's index of 0.

    A difference of spreads is shown as ``(spread_A^2 - spread_B^2) / (spread_A + spread_B)``, with ``spreads`` the sum.
    Where the sum is below the margin the margin divides, so that the verdict, which is about squares, is also one about
    the numbers that are shown.
    """
    pairs, seeds = outcome.pairs, len(comparison.seeds)
    scale, unit = _scale(name), _scale(name) ** 2
    if spreads is not None:
        scale, unit = POINTS / max(comparison.margin, spreads), POINTS**4
    d, half95, half90 = (float(scale * v[place]) for v in (sign * pairs.estimate, outcome.half95, outcome.half90))
    a, kappa, df_kappa = float(pairs.a[place]), float(pairs.kappa[place]), float(pairs.df_kappa[place])
    if not np.isfinite([d, half95, half90, a, kappa, df_kappa]).all():
        return None
    need, times, delta = None, None, float(outcome.delta[place])
    if word == UNDECIDED:
        need = stats.seeds_to_decide(delta, a, seeds, kappa, df_kappa)
        times = stats.patients_to_decide(delta, kappa) if need is None else None
    p, gain = _number(outcome.p[place]), sign if outcome.statistic.higher_is_better else -sign
    return Difference(
        d, d - half95, d + half95, d - half90, d + half90, unit * a, float(pairs.df_a[place]), unit * kappa, df_kappa,
        p, p_holm, word, need, times, None if p is None else float(certainty(p)),
        _number(stats.chance_of_winning(gain * pairs.estimate[place], pairs.sd[place], seeds)),
    )  # fmt: skip


def _root(value):
    return np.sqrt(np.maximum(0, value))


def _at_most_one(value):
    """The index of Jain, which the correction of the spread may carry beyond what is possible."""
    return np.minimum(1, value)


def _scale(name: str) -> float:
    return 1.0 if name in PLAIN else POINTS


def _number(value) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
