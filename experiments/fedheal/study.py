"""What all tables and figures of FedHEAL share: methods, columns, and what was measured."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from experiments.evidence import of_runs, scored_by
from experiments.fedheal import published
from experiments.study import Cell, Study
from fedjax_fair import results
from fedjax_fair.training import finished, load_federation

HERE = pathlib.Path(__file__).parent
LAST = 5  # evaluations over which accuracies are averaged
BASES = {
    'FedAvg': 'fedavg',
    'FedProx': 'fedprox',
    'Scaffold': 'scaffold',
    'MOON': 'moon',
    'FedDyn': 'feddyn',
    'FedProc': 'fedproc',
    'FedProto': 'fedproto',
}
PLUGINS = dict(zip(published.PLUGINS, ('', '+afl', '+qffl', '+fedheal'), strict=True))
WATCHED = '+watch_distances+watch_masks'


class Method(NamedTuple):
    """What a row of a table is about.

    ``recipe`` with ``hyper`` and ``changes`` of other settings; ``paper`` names the paper's row of it, and ``kind``
    the models that are scored.
    """

    recipe: str
    hyper: Mapping[str, Any] = MappingProxyType({})
    paper: str | None = None
    kind: str = 'global'
    changes: Mapping[str, Any] = MappingProxyType({})


# Table 2: every base alone and with every plug-in.
JOINED = {
    base + plugin: Method(recipe + part, paper=base + plugin)
    for base, recipe in BASES.items()
    for plugin, part in PLUGINS.items()
}
FEDAVG, FEDHEAL = 'FedAvg', 'FedAvg+FedHEAL'
UNIFORM, RESTARTED, NORMALISED, MASKED, PRINTED = (
    'uniform weights', 'FedAvg+AFL, restarted', 'FedAvg+q-FFL, normalised', 'FedAvg+FPHL', 'FedAvg+FedHEAL, as printed',
)  # fmt: skip
# What the paper's rows may mean, or rest on: where its base is FedAvg.
CONTROLS = {
    UNIFORM: Method('uniform'),
    # The authors' other benchmark: weights start afresh in every round, from losses after training.
    RESTARTED: Method('fedavg+afl', {'afl.restart': True, 'afl.at': 'local', 'afl.floor': 0.001}, 'FedAvg+AFL'),
    NORMALISED: Method('fedavg+qfedavg', {'qfedavg.q': 0.1}, 'FedAvg+q-FFL'),
    MASKED: Method('fphl', paper='FPHL'),
    PRINTED: Method('fedavg+fedheal', {'fedheal.semantics': 'paper'}, FEDHEAL),
}
# The paper's Ditto is one model for all, of which it only says that personal models are aggregated into it.
ALONE = {
    'Ditto, mean of personal models': Method('ditto', {'ditto.aggregate': 'served'}, 'Ditto'),
    'Ditto, mean fed back': Method('ditto', {'ditto.aggregate': 'fed_back'}, 'Ditto'),
    'Ditto, personal models': Method('ditto', {'ditto.aggregate': 'served'}, None, 'deployed'),
    'FedFV': Method('fedfv', {}, 'FedFV'),
    'FedHEAL': Method('fedavg+fedheal', {}, 'FedHEAL'),
}
METHODS = JOINED | CONTROLS


def data_set(study: Study) -> str:
    """The data set of the paper that ours is, or whose place it takes."""
    return published.OFFICE if study.config.scenario.startswith('office_caltech:') else published.DIGITS


def domains(study: Study) -> tuple[str, ...]:
    """The names of our domains."""
    return load_federation(study.config).groups


def columns(study: Study) -> list[str]:
    """Head of a table: each of our domains with the paper's in whose place it stands, then mean and deviation."""
    ours, place = domains(study), places(study)
    theirs = [published.DOMAINS[data_set(study)][i] for i in place]
    return [mine if mine.lower() == his.lower() else f'{mine} ({his})' for mine, his in zip(ours, theirs, strict=True)]


def places(study: Study) -> list[int]:
    """For each of our domains the column of the paper: by name where all names are known, else by order."""
    names, ours = [name.lower() for name in published.DOMAINS[data_set(study)]], domains(study)
    known = all(name.lower() in names for name in ours)
    return [names.index(name.lower()) if known else i for i, name in enumerate(ours)]


def in_our_order(study: Study, row: published.Row) -> list[str]:
    """A published row under our columns; what cannot be read is left out."""
    values = [row[i] for i in places(study)] + list(row[-2:])
    return ['' if np.isnan(value) else f'{value:.2f}' for value in values]


def curves(folder: pathlib.Path, kind: str = 'global') -> tuple[np.ndarray, np.ndarray]:
    """Rounds ``[E]`` and accuracies in percent ``[seeds, E, domains]`` of one kind of model.

    ``global``: one model on every domain. ``deployed``: the models that clients use, each on its own domain, and the
    mean over the clients of the domain.
    """
    rounds, shares = results.series(results.history(folder), lambda line: line[kind]['group_accuracy'])
    return rounds, 100 * shares


def scores(folder: pathlib.Path, kind: str = 'global') -> list[Cell]:
    """Every domain, AVG and STD of one kind of model: means and deviations over seeds.

    Of every seed, accuracies are averaged over the last five evaluations; AVG and STD are mean and sample standard
    deviation of these over domains.
    """
    means = curves(folder, kind)[1][:, -LAST:].mean(1)
    table = np.concatenate([means, means.mean(1, keepdims=True), means.std(1, ddof=1, keepdims=True)], 1)
    return list(zip(table.mean(0).tolist(), table.std(0).tolist(), strict=True))


def hyper_of(study: Study, recipe: str) -> dict[str, Any]:
    """The bar of the masks alone is FedHEAL's, where the preset or the user gives it one."""
    given = study.config.hyper
    return {'fphl.tau': given['fedheal.tau']} if 'fphl' in recipe.split('+') and 'fedheal.tau' in given else {}


def without_published_bar(study: Study) -> Study:
    """The study for a sweep over the bar, in which the published one has no place; a user's own is refused there."""
    published_bar = ('fedheal.tau', published.TAU[data_set(study)])
    return study.changed(hyper=dict(item for item in study.config.hyper.items() if item != published_bar))


def run_of(study: Study, method: Method, watched: bool = False) -> pathlib.Path:
    """Where a method's run is kept, after running it; ``watched``: its distances and weights are recorded."""
    hyper = {**hyper_of(study, method.recipe), **method.hyper}
    changes = {**method.changes, **({'hyper': hyper} if hyper else {})}
    return study.run(method.recipe + (WATCHED if watched else ''), **changes)[0]


def folder_of(study: Study, recipe: str, **hyper: Any) -> pathlib.Path:
    """Where a recipe's run is kept, after running it."""
    return run_of(study, Method(recipe, hyper))


def swept(study: Study, recipe: str, key: str, values: Sequence[float], **hyper: Any) -> list[pathlib.Path]:
    """Folders of a recipe for all values of one hyper-parameter, run as one program with all seeds."""
    changes: dict[str, Any] = {'hyper': hyper} if hyper else {}
    return study.run(recipe, [{key: value} for value in values], **changes)


def weights_by_beta(study: Study) -> list[pathlib.Path]:
    """Table 4: the client weights alone, started by examples, for all its values of beta; 0 is FedAvg."""
    return swept(study, 'fael', 'fael.beta', tuple(published.TABLE4), **{'fael.p_init': 'sizes'})


def over_domains(
    study: Study, runs: Mapping[str, pathlib.Path | results.Run], baseline: str, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Evidence on mean, spread and every domain; ``names`` are the runs that the baseline is beside, by default all."""
    chosen = {name: run for name, run in runs.items() if not names or name in (baseline, *names)}
    scored = {name: run if isinstance(run, results.Run) else scored_by(run, 'global') for name, run in chosen.items()}
    return of_runs(scored, baseline, ['avg', 'spread', *(f'site:{name}' for name in domains(study))])


def watched_by(folder: pathlib.Path, name: str) -> dict[str, np.ndarray]:
    """What a diagnostic recorded in a run; arrays begin with seeds and rounds."""
    return {key: np.asarray(leaf) for key, leaf in finished(folder)[1].server[name].items()}


def variance_shares(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """``[seeds, rounds]``: the variance of distances, Eq. 10, in percent of that under weights by examples.

    Of the model that the recipe made, and of the same clients' models with the best weights there are.
    """
    seen = watched_by(folder, 'watch_distances')
    return {name: 100 * seen[name] / seen['by_examples'] for name in ('aggregated', 'least')}


def why_not_comparable(study: Study) -> str:
    """One sentence under every table."""
    return (
        f'{study.ours()} (deviation over them in brackets). The paper: 20 clients, ResNet-10, 10 local epochs, 200 '
        f'rounds, one seed. Accuracies are means over the last {LAST} evaluations; AVG and STD their mean and sample '
        'standard deviation over domains.'
    )
