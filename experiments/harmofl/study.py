"""What all tables and figures of HarmoFL share: methods, what was measured, and which data a part needs."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.study import Cell, Study
from fedjax_fair import results
from fedjax_fair.errors import UserError
from fedjax_fair.training import load_federation

HERE = pathlib.Path(__file__).parent
Methods = Mapping[str, tuple[str, dict[str, Any]]]  # recipe and settings by the name in a table
MEASURES = {  # over clients, of which tables keep evidence
    'avg': 'mean score over clients, %',
    'spread': 'sample deviation of scores over clients, points',
    'worst': 'lowest score of a client, %',
}
# The published networks of HarmoFL normalise by the batch at hand, at test too; others keep the network of the preset.
STATELESS: dict[str, Any] = {'norm': 'stateless'}
BASELINES: Methods = {
    'FedAvg': ('fedavg', {}),
    'FedProx': ('fedprox', {}),
    'FedNova': ('fednova', {}),
    'FedAdam': ('fedadam', {}),
    'FedBN': ('fedbn', {}),
    'SiloBN': ('silobn', {}),
    'MOON': ('moon', {}),
}
OURS: Methods = {
    'HarmoFL': ('harmofl', STATELESS),
    'HarmoFL, released code': ('harmofl_release', STATELESS),
}


def amplitude_alone(**options: str) -> tuple[str, dict[str, Any]]:
    """HarmoFL's first half with options of amplitude normalisation."""
    return 'amp_norm+uniform', STATELESS | {'hyper': {f'amp_norm.{name}': value for name, value in options.items()}}


# What the network and either half do alone: the mean is the half of the released code.
NETWORK = 'FedAvg, its network'
PARTS: Methods = {
    NETWORK: ('uniform', STATELESS),
    'amplitude alone': ('amp_norm+uniform', STATELESS),
    'mean alone': amplitude_alone(band='dc', seed='frozen_first_batch'),
    'perturbation alone': ('perturb+uniform', STATELESS),
}
# Networks that do not look at the batch at hand, and do not depend on shared statistics either.
CONTROLS: Methods = {
    'FedAvg, group norm': ('uniform', {'norm': 'group'}),
    'FedAvg, AdaBN': ('adabn+uniform', {}),
}
METHODS: Methods = {**BASELINES, **OURS, **PARTS, **CONTROLS}
ONE_VOTE: Methods = {'FedAvg, one vote': ('uniform', {})}
CAUSES = {
    name: {**METHODS, **ONE_VOTE}[name]
    for name in ('FedAvg', *ONE_VOTE, 'FedBN', *CONTROLS, NETWORK, 'mean alone', 'perturbation alone', *OURS)
}
BANDS = {
    NETWORK: METHODS[NETWORK],
    **{f'band {width}': amplitude_alone(band=width) for width in ('dc', '0.02', '0.05', '0.1', '0.25')},
    'band full': METHODS['amplitude alone'],
}
DRIFTING = {name: METHODS[name] for name in (*PARTS, *OURS)}  # all with the same network
CURVES = {name: METHODS[name] for name in ('FedAvg', 'FedBN', *OURS)}  # of Figure 5


def folder_of(study: Study, method: str, **changes: Any) -> pathlib.Path:
    """The run of a method of the paper's tables."""
    recipe, own = METHODS[method]
    return study.run(recipe, **own, **changes)[0]


def folders_of(study: Study, methods: Methods, watched: str = '') -> dict[str, pathlib.Path]:
    """The runs of some methods; ``watched`` is what joins a diagnostic to their recipes."""
    return {name: study.run(recipe + watched, **own)[0] for name, (recipe, own) in methods.items()}


def scores(folder: pathlib.Path) -> tuple[tuple[str, ...], list[Cell]]:
    """Names of the clients, and (mean, std over seeds) in percent of each and, last, (mean, std over clients).

    Scores are those of the model a client would use: the global one, or with FedBN its own. The last std is that of the
    clients' means with ddof 1, as in the paper.
    """
    summary, metrics = _deployed(folder)
    found = metrics[f'{"group" if summary["groups"] else "client"}_{summary["score"]}']
    mean, std = (100 * np.array(found[key], np.float64) for key in ('mean', 'std'))
    names = tuple(summary['groups']) or tuple(f'client {n}' for n in range(len(mean)))
    return names, [*zip(mean.tolist(), std.tolist(), strict=True), (float(mean.mean()), float(mean.std(ddof=1)))]


def by_seed(folder: pathlib.Path) -> np.ndarray:
    """``[seeds, clients]``: every client's score in percent, over the evaluations that are reported."""
    summary = results.summary(folder)
    key = f'{"group" if summary["groups"] else "client"}_{summary["score"]}'
    kind = 'deployed' if summary['deployed'] else 'global'
    rounds, values = results.series(results.history(folder), lambda line: line[kind][key])
    reported = zip(values, summary['rounds_reported'], strict=True)
    return 100 * np.stack([own[np.isin(rounds, chosen)].mean(0) for own, chosen in reported])


def tested_on_one(folder: pathlib.Path) -> bool:
    """Whether some client's test set is of a single patient."""
    patients = results.summary(folder)['tests']['patients']
    return patients is not None and min(patients) < 2


def foreground(folder: pathlib.Path) -> Cell:
    """Dice without the background in percent, the mean and the deviation (ddof 1) over hospitals."""
    _, metrics = _deployed(folder)
    each = 100 * np.atleast_1d(metrics.get('group_dice', metrics['dice'])['mean'])
    return float(each.mean()), float(each.std(ddof=1)) if len(each) > 1 else float('nan')


def _deployed(folder: pathlib.Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The summary of a run, and in it the numbers of the model that a client would use."""
    summary = results.summary(folder)
    return summary, summary['deployed'] or summary['global']


def curve(folder: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Rounds that were evaluated and the mean over clients, in percent, ``[seeds, rounds]``."""
    lines = results.history(folder)
    rounds, shares = results.series(lines, lambda line: (line.get('deployed') or line['global'])['avg'])
    return rounds, 100 * shares


def need(study: Study, task: str, what: str) -> None:
    """Refuse data of another task."""
    found = load_federation(study.config).task
    if found != task:
        fit = 'smoke_segmentation, or another preset of it' if task == 'segmentation' else 'smoke or paper'
        raise UserError(f'{what} shows {task}, but the data are for {found}; choose `preset`={fit}')


def why_not_comparable(study: Study, paper: str) -> str:
    """One sentence under every table."""
    return (
        f'{study.ours()} (deviation over them in brackets; from Avg. on that over clients). The paper: {paper}. '
        'Compare methods within a column, not numbers across.'
    )
