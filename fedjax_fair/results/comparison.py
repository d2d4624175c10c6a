"""Runs side by side: what may be said about their differences, from the predictions that they kept."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_fair import stats
from fedjax_fair.errors import UserError
from fedjax_fair.metrics.segmentation import SCORES as DICE
from fedjax_fair.metrics.segmentation import of_images
from fedjax_fair.options import not_one_of
from fedjax_fair.results.prediction_file import RECORDS, Predictions, predictions
from fedjax_fair.results.runs import Run
from fedjax_fair.stats.inference import Errors, errors
from fedjax_fair.stats.sample import Sample, joined, judge, make_sample
from fedjax_fair.stats.scores import SCORES, Scored
from fedjax_fair.stats.statistics import average

METRICS = ('accuracy', 'balanced_accuracy', 'auc', *DICE, 'iou')
DELTA = 0.01  # the smallest difference of interest, as a fraction: one point
DIVERGED = 'diverged'
ALL = 'everybody'  # clients or groups that share all there is to judge
NUMBERED = re.compile(r'client \d+')  # a client that is nobody: another partition has another one
FEWEST_PATIENTS = 10  # below it, the verdict about one site is withheld
FEWEST_IN_ALL = 40  # patients of the smallest setting in which the procedure was simulated
MOST_NAMED = 6  # more sites than these are counted


class NotComparable(UserError):
    """These runs cannot be compared: they lack predictions, or differ in what they are tested on."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Runs of one scenario, analysed over ``over`` (groups or clients); ``clients`` is the analysis over clients.

    ``baseline`` is the place of the run that the others are compared with. ``seeds`` are those that all runs have, or
    their data seeds, if there are several.
    ``notes`` say what limits the verdicts.
    """

    runs: tuple[Run, ...]
    baseline: int
    margin: float
    seeds: tuple[int, ...]
    over: str
    analysis: stats.Analysis
    clients: stats.Analysis
    patients: int
    patients_known: bool
    notes: tuple[str, ...]


def compare_runs(
    runs: Sequence[Run], *, baseline: int = 0, margin: float = DELTA, metric: str | None = None
) -> Comparison:
    """Analyse the headline models of several runs that share seeds and test examples.

    ``metric`` is another score than the one that runs say fairness is about, see :func:`metrics_of`.

    Raises:
        NotComparable: names the run that differs, and how.
    """
    labels = [run.label for run in runs]
    samples, seeds, units, notes = _paired(runs, metric)
    first = units[0][0]
    known = bool((first.cluster >= 0).any())
    over = 'groups' if first.groups else 'clients'
    analysis = stats.analyse_sample(samples.groups, margin)
    clients = analysis if samples.clients is samples.groups else stats.analyse_sample(samples.clients, margin)
    patients = len(np.unique(np.concatenate([_keys(one[0]) for one in units])))
    notes += _limits(samples.groups, over, known, len(seeds), patients)
    alike = [label for label, half in zip(labels, analysis.outcomes['avg'].level_half, strict=True) if half == 0]
    if alike:
        notes.append(f'{", ".join(alike)}: all seeds and test patients agree, so AVG has no interval')
    return Comparison(tuple(runs), baseline, margin, seeds, over, analysis, clients, patients, known, tuple(notes))


def average_of_run(run: Run) -> Errors:
    """The AVG of the headline models of one run with its errors: what :func:`compare_runs` says of it, and no more."""
    sample = _paired([run]).samples.groups
    values, gradient = average(sample)
    return errors(sample.over_seeds(values), sample.pull(gradient), smooth=True)


class Samples(NamedTuple):
    """The same scores by group and by client; one sample where there are no groups."""

    groups: Sample
    clients: Sample


class _Paired(NamedTuple):
    """Runs as one sample: their common ``seeds`` or data seeds, and their predictions, one list per data seed."""

    samples: Samples
    seeds: tuple[int, ...]
    units: list[list[Predictions]]
    notes: list[str]


def _paired(runs: Sequence[Run], metric: str | None = None) -> _Paired:
    labels = [run.label for run in runs]
    data_seeds = _common_data_seeds(runs)
    units = [[predictions_of(run, seed) for run in runs] for seed in data_seeds]
    kept = units[0]
    seeds, notes = _common_seeds(labels, kept)
    samples = samples_of(kept, labels, metric)
    if len(data_seeds) == 1:
        return _Paired(samples, seeds, units, notes)
    parts = [samples, *(samples_of(one, labels, metric) for one in units[1:])]
    named = not any(NUMBERED.fullmatch(name) for name in samples.clients.names)
    everyone = joined([part.clients for part in parts], matched=named)
    samples = Samples(joined([part.groups for part in parts]) if kept[0].groups else everyone, everyone)
    own = f'the mean over its {len(seeds)} seeds' if len(seeds) > 1 else 'it has one'
    notes.append(f'each of {len(data_seeds)} data seeds counts as one seed: {own}')
    return _Paired(samples, data_seeds, units, notes)


def judged_by(records: Collection[str], label_axes: int) -> list[str]:
    """The scores that can be judged from these records of test examples, whose labels have so many axes.

    >>> judged_by(['prediction', 'score'], 1), judged_by(['prediction'], 2), judged_by(['iou'], 3)
    (['accuracy', 'balanced_accuracy', 'auc'], ['accuracy'], ['iou'])
    """
    found = []
    if 'prediction' in records:
        found += ['accuracy', 'balanced_accuracy'] if label_axes == 1 else ['accuracy']
    found += ['auc'] * ('score' in records)
    return found + list(DICE) * ('dice' in records) + ['iou'] * ('iou' in records)


def metrics_of(kept: Predictions) -> list[str]:
    """The scores that can be judged from what a run kept."""
    records = {name for name in RECORDS if getattr(kept, name) is not None}
    return judged_by(records, kept.label.ndim) if kept.label is not None else judged_by(records & {*DICE, 'iou'}, 0)


def check_metric(kept: Sequence[Predictions], metric: str) -> None:
    """Refuse a score that some of these runs cannot be judged by."""
    if not kept:
        raise UserError(f'`metric`={metric} needs what every test example got, and no run kept it')
    known = [one for one in METRICS if all(one in metrics_of(predictions) for predictions in kept)]
    if metric not in known:
        raise UserError(f'`metric`={metric} {not_one_of(metric, known)}, which these runs keep predictions for')


def samples_of(kept: Sequence[Predictions], labels: Sequence[str], metric: str | None = None) -> Samples:
    """Predictions of several recipes on the same test examples, paired by their common seeds."""
    check_same_tests(labels, kept, metric)
    seeds, _ = _common_seeds(labels, kept)
    metric = metric or kept[0].metric
    by_client = any(one.kind != 'global' for one in kept)
    _check_same_clients(labels, kept if by_client else ())
    tables = [_table(one, by_client) for one in kept]
    clients = _sample(tables, seeds, metric, _as_one(*_client_units(kept[0], by_client)))
    if not kept[0].groups:
        return Samples(clients, clients)
    return Samples(_sample(tables, seeds, metric, _as_one(*_group_units(kept[0], by_client))), clients)


def _as_one(weights: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """Units that all have the same model and the same test set are one: there is no spread to speak of."""
    return (weights[:1], [ALL]) if len(weights) > 1 and not np.ptp(weights, axis=0).any() else (weights, names)


def _limits(sample: Sample, over: str, known: bool, seeds: int, patients: int) -> list[str]:
    """What limits the verdicts, in words."""
    notes = [f'{name} {why}: it is left out' for name, why in sample.left_out.items()]
    if not known:
        notes.append('patients are unknown: intervals are too narrow if several images are of one patient')
    if sample.names == (ALL,):
        notes.append(f'all {over} share one test set and one model: nothing can be said about the spread between them')
    elif len(sample.names) == 1:
        notes.append(f'one test site, {sample.names[0]}: nothing can be said about the spread between sites')
    if seeds == 1:
        notes.append('one seed: intervals are about these trained models, not about the methods')
    what = 'test patients' if known else 'test examples'
    if patients < FEWEST_IN_ALL:
        tried = f'intervals were tried out with {FEWEST_IN_ALL} and more'
        notes.append(f'{patients} {what} in all: {tried}, and may be too narrow here')
    few = [name for name, count in zip(sample.names, sample.clusters, strict=True) if count < FEWEST_PATIENTS]
    if few and len(sample.names) > 1:
        who = ', '.join(few) if len(few) <= MOST_NAMED else f'{len(few)} of {len(sample.names)} {over}'
        notes.append(f'{who}: fewer than {FEWEST_PATIENTS} {what}, so nothing is said about them alone')
    if 1 < len(sample.names) < 4:
        notes.append(f'the spread is one of {len(sample.names)} {over} only')
    return notes


def _common_data_seeds(runs: Sequence[Run]) -> tuple[int, ...]:
    """The data seeds that all runs have; where no run has several, they may differ in name."""
    if all(len(run.data_seeds) == 1 for run in runs):
        return tuple(runs[0].data_seeds)
    common = set.intersection(*(set(run.data_seeds) for run in runs))
    if not common:
        raise NotComparable(f'{runs[0].label} and {runs[-1].label} have no data seed in common')
    return tuple(sorted(common))


def _common_seeds(labels: Sequence[str], kept: Sequence[Predictions]) -> tuple[tuple[int, ...], list[str]]:
    sets = [set(map(int, one.seed)) for one in kept]
    common = set.intersection(*sets)
    if not common:
        raise NotComparable(f'{labels[0]} and {labels[-1]} have no seed in common')
    dropped = sorted(set.union(*sets) - common)
    notes = [f'seeds {", ".join(map(str, dropped))} are left out: not all runs have them'] if dropped else []
    return tuple(sorted(common)), notes


def check_same_tests(labels: Sequence[str], kept: Sequence[Predictions], metric: str | None = None) -> None:
    """Refuse runs that are judged by other scores than the first, unless by one metric, or on other examples."""
    first = kept[0]
    for label, other in zip(labels, kept, strict=True):
        if other.task != first.task or (metric is None and other.metric != first.metric):
            raise NotComparable(f'{label} is judged by {other.metric}, {labels[0]} by {first.metric}')
        same = other.sets == first.sets and other.groups == first.groups
        if not same or not np.array_equal(_identity(other), _identity(first)):
            raise NotComparable(f'{label} and {labels[0]} are not tested on the same examples')


def _check_same_clients(labels: Sequence[str], kept: Sequence[Predictions]) -> None:
    """Models of clients' own are paired client by client."""
    for label, other in zip(labels, kept, strict=False):
        if not np.array_equal(other.test_of, kept[0].test_of):
            raise NotComparable(f'{label} and {labels[0]} do not have the same clients')


def predictions_of(run: Run, data_seed: int | None = None) -> Predictions:
    """What every test example got from the headline models of a run, all its seeds side by side.

    Of several data seeds it is the one that is asked for, by default the first. Models that diverged got nothing.
    """
    if run.diverged():
        raise NotComparable(f'{run.label} {DIVERGED}')
    own = run.folders[run.data_seeds.index(data_seed) if data_seed in run.data_seeds else 0]
    first, *rest = (predictions(folder, run.headline) for folder in (own, *run.more))
    if any(not np.array_equal(_identity(one), _identity(first)) for one in rest):
        raise NotComparable(f'the seeds of {run.label} are not tested on the same examples')
    if not rest:
        return first
    along_seeds = ('seed', 'round', *(name for name in RECORDS if getattr(first, name) is not None))
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in (first, *rest)]) for name in along_seeds
    }
    return dataclasses.replace(first, **arrays)


def _identity(kept: Predictions) -> np.ndarray:
    """Test sets and examples with their labels, in one order, whatever the kind of model."""
    label = np.zeros(len(kept.set)) if kept.label is None else kept.label.reshape(len(kept.set), -1) @ _weights(kept)
    return np.unique(np.stack([kept.set, kept.example, label], -1), axis=0)


def _weights(kept: Predictions) -> np.ndarray:
    """Several labels of an example as one number."""
    count = 1 if kept.label is None or kept.label.ndim == 1 else kept.label.shape[1]
    return 2.0 ** np.arange(count)


def _keys(kept: Predictions) -> np.ndarray:
    """The cluster of every row: its patient, or the example itself."""
    return np.where(kept.cluster >= 0, kept.cluster, -2 - kept.example)


class _Table(NamedTuple):
    """The rows of one run, base by base: ``rows[b]`` are the places in its file, in the order of examples."""

    kept: Predictions
    rows: list[np.ndarray]


def _table(kept: Predictions, by_client: bool) -> _Table:
    """Bases are test sets or, where some run has models of clients' own, clients."""
    order = np.lexsort((kept.example, kept.set))
    if not by_client:
        owner, count = kept.set[order], len(kept.sets)
    elif kept.kind == 'global':
        places = [order[kept.set[order] == s] for s in range(len(kept.sets))]
        return _Table(kept, [places[s] for s in kept.test_of])
    else:
        owner, count = kept.client[order], len(kept.test_of)
    return _Table(kept, [order[owner == b] for b in range(count)])


def _client_units(kept: Predictions, by_client: bool) -> tuple[np.ndarray, list[str]]:
    """Clients as means of base scores, ``weights[N, B]``, and their names."""
    count = len(kept.test_of)
    names = [kept.sets[s] for s in kept.test_of]
    if len(set(names)) < count:
        names = [f'client {n}' for n in range(count)]
    return np.eye(count) if by_client else np.eye(len(kept.sets))[kept.test_of], names


def _group_units(kept: Predictions, by_client: bool) -> tuple[np.ndarray, list[str]]:
    """Groups as means over their clients."""
    members = (kept.group_of[None] == np.arange(len(kept.groups))[:, None]).astype(np.float64)
    return members / np.maximum(members.sum(1, keepdims=True), 1) @ _client_units(kept, by_client)[0], list(kept.groups)


def _sample(tables: Sequence[_Table], seeds: Sequence[int], metric: str, units: tuple[np.ndarray, list[str]]) -> Sample:
    """Scores of all runs on every base, with the influence of every patient."""
    first = tables[0]
    lengths = [len(rows) for rows in first.rows]
    cluster = np.concatenate([_keys(first.kept)[rows] for rows in first.rows])
    places = np.split(np.arange(len(cluster)), np.cumsum(lengths)[:-1])
    bases = []
    for b, own in enumerate(places):
        scored = [_scored(table.kept, table.rows[b], seeds, metric) for table in tables] if len(own) else []
        score, influence = (np.stack(parts) for parts in zip(*scored, strict=True)) if scored else (np.zeros(0),) * 2
        bases.append(judge(own, cluster, (score, influence)))
    return make_sample(bases, cluster, *units)


def _scored(kept: Predictions, rows: np.ndarray, seeds: Sequence[int], metric: str) -> Scored:
    """``score[S]`` and ``influence[S, n]`` of some rows, means over the evaluations that are reported."""
    chosen = [int(np.flatnonzero(kept.seed == seed)[0]) for seed in seeds]
    name, values = _values(kept, rows, metric)
    score, influence = SCORES[name](values[chosen], None if kept.label is None else kept.label[rows])
    return score.mean(1), influence.mean(1)


def _values(kept: Predictions, rows: np.ndarray, metric: str) -> tuple[str, np.ndarray]:
    """The exact name of the score, and what examples got for it, ``[S, E, n]`` or ``[S, E, n, K]``."""
    if metric in ('accuracy', 'balanced_accuracy') and kept.prediction is not None and kept.label is not None:
        right = kept.prediction[:, :, rows] == kept.label[rows]
        return metric, (right.mean(-1) if right.ndim == 4 else right).astype(np.float64)
    overlaps = kept.iou if metric == 'iou' else kept.dice
    if metric in (*DICE, 'iou') and overlaps is not None:
        return 'mean', of_images(overlaps[:, :, rows].astype(np.float64), 'dice' if metric == 'iou' else metric)
    if metric == 'auc' and kept.score is not None and kept.label is not None:
        values = kept.score[:, :, rows]
        if kept.label.ndim == 2:
            return 'auc_multilabel', values
        return ('auc', values[..., 0]) if values.shape[-1] == 1 else ('auc_ovo', values)
    raise NotComparable(f'{metric} cannot be judged: the run did not keep what every test example got for it')
