"""What can be said about runs side by side, and where nothing can be said, why."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjax_fair.errors import OneLine, UserError
from fedjax_fair.results.captions import joined_words, model_words, repeats_words, rounds_words, score_of
from fedjax_fair.results.choice import BY_TEST, BY_VALIDATION, chosen_point
from fedjax_fair.results.comparison import (
    DELTA,
    DIVERGED,
    Comparison,
    check_metric,
    check_same_tests,
    compare_runs,
    predictions_of,
)
from fedjax_fair.results.measures import NAMES, POINTS, Level, Measure, measures_of
from fedjax_fair.results.prediction_file import Predictions, file_name
from fedjax_fair.results.runs import Run

MARGIN = POINTS * DELTA  # the smallest difference of interest, in points
NO_PREDICTIONS, OTHER_TESTS = 'no predictions', 'other test examples'
OTHER_SEEDS, OTHER_DATA_SEEDS = 'no common seeds', 'no common data seeds'
FROM_SUMMARY = {'avg': 'avg', 'spread': 'std', 'worst': 'worst'}  # keys of measures, and names in summary.json


@dataclasses.dataclass(frozen=True)
class Findings:
    """Runs of one scenario with their ``measures``, whose entries are in the order of ``runs``.

    ``comparison`` is about the runs at ``places``; None where the baseline cannot be compared with any. ``reasons`` say
    for each run why it has no verdict: empty where it has one, and for the baseline. The points of a sweep
    (``swept``) get no verdicts at all: the best of them would be a choice on test data. ``chosen`` is the one that
    validation data choose. Measures are of the score of the runs, or of another ``metric`` that was asked for.
    """

    runs: tuple[Run, ...]
    baseline: int
    margin: float
    comparison: Comparison | None
    places: tuple[int, ...]
    reasons: tuple[str, ...]
    measures: dict[str, Measure]
    swept: bool = False
    chosen: int | None = None
    metric: str | None = None

    @property
    def over(self) -> str:
        """What statistics are over: groups or clients."""
        return 'groups' if self.runs[0].groups else 'clients'

    @property
    def score(self) -> str:
        """In words, what the measures are about."""
        return score_of(self.runs, self.metric)

    @property
    def base(self) -> Run:
        """The run that the others are compared with."""
        return self.runs[self.baseline]

    @property
    def units(self) -> list[Measure]:
        """The scores of single groups, or of clients where there are no groups."""
        return [measure for key, measure in self.measures.items() if key.startswith('site:')]

    @property
    def hidden(self) -> tuple[Run, ...]:
        """The points of a sweep that validation data did not choose: nobody is shown how they do on test data."""
        return () if self.chosen is None else (*self.runs[: self.chosen], *self.runs[self.chosen + 1 :])

    @property
    def notes(self) -> list[str]:
        """Which rounds, models and folders the numbers are about, and what limits the verdicts."""
        repeats = repeats_words(self.runs) if self.comparison is None else ''  # or a note of the comparison
        told = [self._asked, rounds_words(self.runs), model_words(self.runs), repeats, self._choice]
        told = [line for line in told if line] + joined_words(self.runs)
        told += [] if self.comparison is None else list(self.comparison.notes)
        return told + [
            f'{run.label}: {why}' for run, why in zip(self.runs, self.reasons, strict=True) if why not in ('', DIVERGED)
        ]

    @property
    def _asked(self) -> str:
        if self.metric is None:
            return ''
        return f'numbers are of {self.score}; losses, curves over rounds and remarks are as the runs recorded them'

    @property
    def _choice(self) -> str:
        if not self.swept:
            return ''
        return OneLine(BY_TEST).with_flags() if self.chosen is None else BY_VALIDATION


def swept_findings(runs: Sequence[Run], metric: str | None = None) -> Findings:
    """The points of a sweep: levels alone, and the point that validation data choose."""
    found = findings(runs, metric=metric)
    nothing = (None,) * len(runs)
    measures = {key: one._replace(differences=nothing, best=nothing) for key, one in found.measures.items()}
    chosen = chosen_point([run.validation for run in runs])
    return dataclasses.replace(found, measures=measures, swept=True, chosen=chosen)


def findings(runs: Sequence[Run], baseline: int = 0, margin: float = MARGIN, metric: str | None = None) -> Findings:
    """Compare runs of one scenario with one of them, as far as their files allow; ``margin`` is in points.

    Runs that cannot be compared with the baseline keep their levels: with intervals where they have predictions, else
    with the deviation over seeds of summary.json. ``metric`` asks for another score than that of the runs; then numbers
    are from predictions alone.
    """
    kept, reasons = [_kept(run) for run in runs], [''] * len(runs)
    metric = None if all(run.score == metric for run in runs) else metric
    if metric is not None and any(one != DIVERGED for one in kept):
        check_metric([one for one in kept if isinstance(one, Predictions)], metric)
    for place, run in enumerate(runs):
        reasons[place] = _reason(run, kept[place], runs[baseline], kept[baseline], metric)
    places = [place for place, why in enumerate(reasons) if not why]
    comparison = _compared(runs, places, baseline, margin, reasons, metric) if baseline in places else None
    score = score_of(runs, metric)
    measures = _spread_out(measures_of(comparison, score), places, len(runs)) if comparison else {}
    for place, run in enumerate(runs):
        if comparison is None or place not in places:
            measures = _with_levels(measures, place, _alone(run, margin, score, metric), run, len(runs))
    reasons[baseline] = reasons[baseline] if comparison is None else ''
    return Findings(tuple(runs), baseline, margin, comparison, tuple(places), tuple(reasons), measures, metric=metric)


def _kept(run: Run) -> Predictions | str:
    """What a run kept, or why it cannot be used."""
    if run.diverged():
        return DIVERGED
    try:
        return predictions_of(run)
    except UserError as error:
        missing = not (run.folders[0] / file_name(run.headline)).exists()
        return NO_PREDICTIONS if missing else str(error)


def _reason(run: Run, kept: Predictions | str, base: Run, base_kept: Predictions | str, metric: str | None) -> str:
    """Why a run cannot be compared with the baseline; empty where it can."""
    if isinstance(kept, str):
        return kept
    if isinstance(base_kept, str):
        told = {NO_PREDICTIONS: f'{NO_PREDICTIONS} of {base.label}', DIVERGED: f'{base.label} {DIVERGED}'}
        return told.get(base_kept, base_kept)
    if max(len(run.units), len(base.units)) > 1:
        return '' if set(run.data_seeds) & set(base.data_seeds) else OTHER_DATA_SEEDS
    try:
        check_same_tests((base.label, run.label), (base_kept, kept), metric)
    except UserError:
        return OTHER_TESTS
    return '' if set(kept.seed.tolist()) & set(base_kept.seed.tolist()) else OTHER_SEEDS


def _compared(
    runs: Sequence[Run], places: list[int], baseline: int, margin: float, reasons: list[str], metric: str | None
) -> Comparison | None:
    """The comparison of runs with the baseline; what stands against it becomes the reason of all."""
    try:
        chosen = [runs[place] for place in places]
        return compare_runs(chosen, baseline=places.index(baseline), margin=margin / POINTS, metric=metric)
    except UserError as error:
        for place in places:
            reasons[place] = str(error)
        return None


def _spread_out(measures: dict[str, Measure], places: Sequence[int], count: int) -> dict[str, Measure]:
    """Measures of some runs as measures of all, with None for the others."""

    def wide(entries: Sequence[Any]) -> tuple[Any, ...]:
        found = dict(zip(places, entries, strict=True))
        return tuple(found.get(place) for place in range(count))

    return {
        key: one._replace(levels=wide(one.levels), differences=wide(one.differences), best=wide(one.best))
        for key, one in measures.items()
    }


@functools.lru_cache(maxsize=256)  # several columns show them
def global_levels(run: Run, metric: str | None = None) -> dict[str, Level]:
    """AVG, spread and worst of the global model of a run, whatever its headline is."""
    shared = dataclasses.replace(run, summary=run.summary | {'headline': 'global'})
    measures = _alone(shared, MARGIN, run.score, metric)
    return {key: level for key in FROM_SUMMARY if key in measures and (level := measures[key].levels[0]) is not None}


def _alone(run: Run, margin: float, score: str, metric: str | None = None) -> dict[str, Measure]:
    """The levels of one run: from its predictions, or else from its summary, which has no other metric."""
    try:
        return measures_of(compare_runs([run], margin=margin / POINTS, metric=metric), score)
    except UserError:
        return _summarised(run, score) if metric is None or run.diverged() else {}


def _with_levels(
    measures: dict[str, Measure], place: int, own: dict[str, Measure], run: Run, count: int
) -> dict[str, Measure]:
    """Measures with the levels of one more run, which alone has verdicts on nothing."""
    merged = dict(measures)
    for key, measure in own.items():
        nothing = (None,) * count
        known = merged.get(key, measure._replace(levels=nothing, differences=nothing, best=nothing))
        levels = (*known.levels[:place], measure.levels[0], *known.levels[place + 1 :])
        merged[key] = known._replace(levels=levels)
    return merged


def _summarised(run: Run, score: str) -> dict[str, Measure]:
    """The levels that summary.json has, with the deviation over seeds (ddof 1) in place of an interval.

    A run that diverged has all statistics, and no level in any.
    """
    result = run.result(run.headline) or {}
    over = 'groups' if run.groups else 'clients'
    found = {}
    for key, name in FROM_SUMMARY.items():
        level = _level(run, result.get(name))
        if level is not None or run.diverged():
            title, about = (text.replace('{score}', score).replace('{over}', over) for text in NAMES[key])
            if key == 'spread' and level is not None:
                level = _sample_spread(run, level)
            found[key] = Measure(key, title, about, key != 'spread', (level,), (None,), (None,))
    entry = result.get(f'group_{run.score}', {'mean': [], 'std': []})
    for group, mean, std in zip(run.groups, entry['mean'], entry['std'], strict=True):
        if (level := _level(run, {'mean': mean, 'std': std})) is not None:
            key = f'site:{group}'
            found[key] = Measure(key, group, f'{score} on {group}, %', True, (level,), (None,), (None,))
    return found


def _level(run: Run, entry: dict[str, Any] | None) -> Level | None:
    if entry is None or entry['mean'] is None or run.diverged():
        return None
    repeats = run.repeats
    known = repeats > 1 and entry['std'] is not None
    sd = POINTS * entry['std'] * np.sqrt(repeats / (repeats - 1)) if known else None
    return Level(POINTS * entry['mean'], seed_sd=sd)


def _sample_spread(run: Run, level: Level) -> Level:
    """A raw standard deviation with ddof 1: summaries have ddof 0 over clients, ddof 1 over groups."""
    scores = (run.result(run.headline) or {}).get(f'client_{run.score}', {'mean': []})['mean']
    count = sum(score is not None for score in scores)
    scale = 1.0 if run.groups or count < 2 else float(np.sqrt(count / (count - 1)))
    return Level(None, raw=scale * (level.estimate or 0.0), seed_sd=level.seed_sd and scale * level.seed_sd)
