"""What all tables and figures of FedHEAL share: methods, columns, and what was measured."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.fedheal import published
from experiments.study import Cell, Study
from fedjax_fair import results
from fedjax_fair.methods import RECIPES
from fedjax_fair.training import load_federation

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


class Alone(NamedTuple):
    """A method that is no plug-in: its recipe, which of its models are scored, and the paper's row about these."""

    recipe: str
    hyper: dict[str, Any]
    paper: str | None
    kind: str = 'global'


# The paper's Ditto is one model for all, of which it only says that personal models are aggregated into it.
ALONE = {
    'Ditto, mean of personal models': Alone('ditto', {'ditto.aggregate': 'served'}, 'Ditto'),
    'Ditto, mean fed back': Alone('ditto', {'ditto.aggregate': 'fed_back'}, 'Ditto'),
    'Ditto, personal models': Alone('ditto', {'ditto.aggregate': 'served'}, None, 'deployed'),
    'FedFV': Alone('fedfv', {}, 'FedFV'),
    'FedHEAL': Alone('fedavg+fedheal', {}, 'FedHEAL'),
}


def bases() -> dict[str, str]:
    """The bases there are recipes for."""
    return {name: recipe for name, recipe in BASES.items() if recipe in RECIPES}


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
    """FedHEAL's bar where it is not the default."""
    tau = published.TAU[data_set(study)]
    parts = [part for part in ('fedheal', 'fphl') if part in recipe.split('+')]
    return {f'{part}.tau': tau for part in parts if tau != 0.3}


def folder_of(study: Study, recipe: str, **hyper: Any) -> pathlib.Path:
    """Where a recipe's run is kept, after running it."""
    hyper = hyper_of(study, recipe) | hyper
    changes: dict[str, Any] = {'hyper': hyper} if hyper else {}
    return study.run(recipe, **changes)[0]


def swept(study: Study, recipe: str, key: str, values: Sequence[float], **hyper: Any) -> list[pathlib.Path]:
    """Folders of a recipe for all values of one hyper-parameter, run as one program with all seeds."""
    changes: dict[str, Any] = {'hyper': hyper} if hyper else {}
    return study.run(recipe, [{key: value} for value in values], **changes)


def alone(study: Study, method: str) -> pathlib.Path:
    """The run of a method that is no plug-in."""
    return folder_of(study, ALONE[method].recipe, **ALONE[method].hyper)


def weights_by_beta(study: Study) -> list[pathlib.Path]:
    """Table 4: the client weights alone, started by examples, for all its values of beta; 0 is FedAvg."""
    return swept(study, 'fael', 'fael.beta', tuple(published.TABLE4), **{'fael.p_init': 'sizes'})


def why_not_comparable(study: Study) -> str:
    """One sentence under every table."""
    return (
        f'{study.ours()} (deviation over them in brackets). The paper: 20 clients, ResNet-10, 10 local epochs, 200 '
        f'rounds, one seed. Accuracies are means over the last {LAST} evaluations; AVG and STD their mean and sample '
        'standard deviation over domains.'
    )
