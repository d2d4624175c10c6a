"""What all tables and figures of FedLD share: splits, methods, and what was measured."""

from __future__ import annotations

import pathlib
from typing import Any

from experiments.fedld import published
from experiments.study import Cell, Study, percent
from fedjax_fair import results
from fedjax_fair.data import scenario_options
from fedjax_fair.errors import UserError

HERE = pathlib.Path(__file__).parent
# The paper prints 0.1 for the second split, which it calls moderate beside the third at 0.5; the data it takes has 1.
ALPHAS = dict(zip(published.SPLITS, (100.0, 1.0, 0.5), strict=True)) | {published.PRINTED: 0.1}
LAMBDAS = dict(zip(published.SPLITS, (0.1, 0.03, 0.03), strict=True)) | {published.PRINTED: 0.03, published.SITES: 0.01}
RECIPES = {
    'FedAvg': 'fedavg',
    'FedProx': 'fedprox',
    'FedBN': 'fedbn',
    'FedPAC': 'fedpac',
    'FedGH': 'fedgh',
    'FedLD': 'fedld',
}
HALVES = {
    (False, False): 'fedavg',
    (False, True): 'principal',
    (True, False): 'margin',
    (True, True): 'fedld',
}
MODELS = {'global': 'global', 'own': 'deployed'}
BY_SITE = ', mean of sites'  # after the name of a model
WITH_SITES = {'digits_common': 'tissue'}  # what takes the place of data that has no sites
MANY: dict[str, Any] = {'num_clients': 50, 'participation': 0.1}


def without_alpha(study: Study) -> Study:
    """The study, unless it was given a concentration: each column has its own."""
    alpha = study.config.data.get('alpha')
    if alpha is not None:
        own = ', '.join(f'{value:g} in {split}' for split, value in ALPHAS.items())
        raise UserError(f'`alpha`={alpha} does not apply: tables and figures have their own, {own}')
    return study


def by_sites(study: Study) -> Study:
    """The study on the sites of its data instead of a Dirichlet split; data without sites is refused when it is read.

    Scenarios that leave no choice of a split have sites by nature.
    """
    scenario = WITH_SITES.get(study.config.scenario, study.config.scenario)
    split = 'site' if 'split_by' in scenario_options(scenario.partition(':')[0]) else None
    return study.changed(scenario=scenario, split_by=split, num_clients=None)


def accuracies(folder: pathlib.Path) -> dict[str, Cell]:
    """Mean and std over seeds, in percent, of the global model and of clients' own where they have one.

    Each is over all test examples, as the paper's one test set has it; where data has sites the mean of the sites'
    accuracies stands beside it.
    """
    summary = results.summary(folder)
    scores = {'': summary['score']} | ({BY_SITE: 'avg'} if summary['groups'] else {})
    return {
        model + words: percent(summary[kind][score])
        for model, kind in MODELS.items()
        if summary[kind] is not None
        for words, score in scores.items()
    }


def of_place(place: str) -> dict[str, Any]:
    """The settings of a column: the concentration of a split, none for sites."""
    return {'alpha': ALPHAS[place]} if place in ALPHAS else {}


def measured(study: Study, recipe: str, place: str, **changes: Any) -> dict[str, Cell]:
    """A recipe's accuracies in one split or on sites, with the margin's weight as published for it."""
    if recipe in ('margin', 'fedld'):
        changes['hyper'] = {f'{recipe}.lam': LAMBDAS[place]}
    return accuracies(study.run(recipe, **changes, **of_place(place))[0])


def ran(study: Study, **changes: Any) -> dict[str, Any]:
    """What a column really runs: the settings in which it differs from the study, and its data."""
    return {**changes, **study.changed(**changes).data()}


def note(study: Study) -> str:
    """One sentence under every table."""
    return (
        f'{study.ours()} (deviation over them in brackets), accuracy over all test examples; the paper: ResNet-50, 200 '
        'rounds, one number each. Compare methods within a column, not numbers across. The global model of FedBN and '
        "FedPAC is no client's: their clients' own models are beside it, on the same test sets."
    )
