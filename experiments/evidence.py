"""What a table rests on: values by seed, and differences with a baseline with all that their intervals are made of.

An entry of evidence is plain JSON::

    {'baseline': name, 'margin': points, 'counts': what intervals count, 'seeds': [...], 'notes': [...],
     'measures': {key: {'about', 'higher_is_better', 'levels': {name: ...}, 'differences': {name: ...}}}}

A level holds ``values`` (one number per seed), ``estimate``, ``lo`` and ``hi``; a difference all fields of
:class:`fedjax_fair.results.Difference`: the estimate, its variances ``a`` (seeds) and ``kappa`` (test examples) with
their degrees of freedom, ``p``, intervals and the verdict. Nothing that a test example got is in it. What diverged is
left out with a note; where that is the baseline, the entry is empty.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_fair import results, stats
from fedjax_fair.results.comparison import Comparison, compare_runs
from fedjax_fair.results.findings import MARGIN
from fedjax_fair.results.measures import POINTS, Difference, Level, Measure, measures_of
from fedjax_fair.stats.inference import Errors, errors
from fedjax_fair.stats.verdicts import UNDECIDED

Runs = Mapping[str, pathlib.Path | results.Run]
BOTH, SEEDS_ALONE = 'seeds and test examples', 'seeds alone'


def of_runs(
    runs: Runs, baseline: str, keys: Sequence[str], *, metric: str | None = None, margin: float = MARGIN
) -> dict[str, Any]:
    """Evidence on some measures of finished runs, by the names that a table gives them.

    ``keys`` are those of :func:`fedjax_fair.results.measures_of`: avg, spread, worst, ``site:NAME``, ...; ``metric`` is
    the score that they are about, by default that of the task. Numbers are about the model that clients would use;
    :func:`scored_by` chooses another one.
    """
    named = [
        dataclasses.replace(run if isinstance(run, results.Run) else results.load(run), label=name)
        for name, run in runs.items()
    ]
    whole = {run.label: run for run in named if not run.diverged()}
    if baseline not in whole:
        return {}
    runs_left, place = list(whole.values()), list(whole).index(baseline)
    compared = compare_runs(runs_left, baseline=place, margin=margin / POINTS, metric=metric)
    found = measures_of(compared, metric or runs_left[0].score)
    values = _values(compared)
    notes = [*compared.notes, *_left_out(runs, whole)]
    return {
        **_head(baseline, margin, BOTH, list(compared.seeds), notes),
        'measures': {key: _entry(found[key], list(whole), values[key]) for key in keys},
    }


def _left_out(names: Iterable[str], whole: Container[str]) -> list[str]:
    return [f'{name} diverged and is left out' for name in names if name not in whole]


def scored_by(folder: pathlib.Path, kind: str) -> results.Run:
    """A finished run whose numbers are those of one kind of model: global, deployed or adapted."""
    run = results.load(folder)
    return dataclasses.replace(run, summary=run.summary | {'headline': kind})


def of_values(
    values: Mapping[str, Mapping[str, Sequence[float]]],
    baseline: str,
    about: Mapping[str, str],
    lower_is_better: Sequence[str] = (),
    *,
    seeds: Sequence[int],
    margin: float | Mapping[str, float] = MARGIN,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Evidence from ``values[measure][name]``, one number for each of ``seeds``, where no example was kept.

    Intervals are those of paired differences over seeds (Student's t); ``margin`` may differ by measure.

    >>> losses = {'a': [1.0, 2.0, 3.0], 'b': [0.0, 1.1, 1.9]}
    >>> found = of_values({'loss': losses}, 'a', {'loss': 'test loss'}, ['loss'], seeds=[0, 1, 2])
    >>> found['measures']['loss']['differences']['b']['verdict']
    'better'
    """
    names = list(next(iter(values.values())))
    whole = [name for name in names if all(np.isfinite(named[name]).all() for named in values.values())]
    if baseline not in whole:
        return {}
    measures = {}
    for key, named in values.items():
        table = {name: np.asarray(named[name], np.float64) for name in whole}
        least = margin[key] if isinstance(margin, Mapping) else margin
        levels = {name: _level(row) for name, row in table.items()}
        base = table[baseline]
        differences = {name: row - base for name, row in table.items() if name != baseline}
        better = key not in lower_is_better
        measures[key] = {
            'about': about[key],
            'higher_is_better': better,
            'levels': levels,
            'differences': _paired(differences, least, better),
        }
    told = margin if isinstance(margin, Mapping) else float(margin)
    head = _head(baseline, told, SEEDS_ALONE, list(seeds), [*notes, *_left_out(names, whole)])
    return {**head, 'measures': measures}


def _head(baseline: str, margin: Any, counts: str, seeds: list[int], notes: list[str]) -> dict[str, Any]:
    return {'baseline': baseline, 'margin': margin, 'counts': counts, 'seeds': seeds, 'notes': notes}


def _values(compared: Comparison) -> dict[str, np.ndarray]:
    """``[recipes, seeds]`` of every measure, in the units that are shown."""
    found = {}
    for prefix, analysis in {'': compared.analysis, 'client_': compared.clients}.items():
        sites = {f'site{place}': name for place, name in zip(analysis.sample.kept, analysis.sample.names, strict=True)}
        for name, outcome in analysis.outcomes.items():
            key = f'site:{sites[name]}' if name in sites else name.replace('spread2', 'spread')
            shown = np.sqrt(np.maximum(0, outcome.values)) if name == 'spread2' else outcome.values
            found[prefix + key] = shown * (1.0 if name in ('jain', 'gini') else POINTS)
    return found


def _entry(measure: Measure, names: Sequence[str], values: np.ndarray) -> dict[str, Any]:
    def level(one: Level | None, row: np.ndarray) -> dict[str, Any]:
        known = {} if one is None else {'estimate': one.estimate, 'lo': one.lo, 'hi': one.hi}
        return {'values': row.tolist(), **known}

    levels = zip(names, measure.levels, values, strict=True)
    pairs = zip(names, measure.differences, strict=True)
    return {
        'about': measure.about,
        'higher_is_better': measure.higher_is_better,
        'levels': {name: level(one, row) for name, one, row in levels},
        'differences': {name: _plain(one) for name, one in pairs if one is not None},
    }


def _errors(rows: np.ndarray) -> Errors:
    """Of means over seeds ``[N, S]``, about which no test example says anything."""
    return errors(rows, [np.zeros((*rows.shape, 2))], smooth=True)


def _level(row: np.ndarray) -> dict[str, Any]:
    mean, half = float(row.mean()), float(_errors(row[None]).half(0.95)[0])
    around = {'lo': mean - half, 'hi': mean + half} if len(row) > 1 else {'lo': None, 'hi': None}
    return {'values': row.tolist(), 'estimate': mean, **around}


def _paired(differences: Mapping[str, np.ndarray], margin: float, better: bool) -> dict[str, dict[str, Any]]:
    """Differences over seeds as :class:`Difference` has them, with p values corrected over all of them."""
    seeds = len(next(iter(differences.values()), ()))
    if seeds < 2:
        return {}
    rows = np.stack(list(differences.values()))
    found = _errors(rows)
    p, half95, half90 = found.p, found.half(0.95), found.half(0.9)
    p_holm = stats.holm(p)
    words = stats.verdicts(found.estimate, p_holm, half90, margin, better)
    shown = {}
    for place, name in enumerate(differences):
        d, wide, narrow, a = (float(v[place]) for v in (found.estimate, half95, half90, found.a))
        need = stats.seeds_to_decide(margin, a, seeds, 0.0, np.inf) if words[place] == UNDECIDED else None
        shown[name] = _plain(Difference(
            d, d - wide, d + wide, d - narrow, d + narrow, a, float(found.df_a[place]), 0.0, float('inf'),
            float(p[place]), float(p_holm[place]), str(words[place]), need, None, float(1 - p[place] / 2), None,
        ))  # fmt: skip
    return shown


def _plain(difference: Difference) -> dict[str, Any]:
    """As JSON: what is not a finite number is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in difference._asdict().items()
    }
