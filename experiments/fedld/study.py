"""What all tables and figures of FedLD share: splits, methods, and what was measured."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from experiments.fedld import published
from experiments.study import Cell, Study
from fedjax_fair.training import output, results

HERE = pathlib.Path(__file__).parent
# The paper prints 0.1 for the second split, which it calls moderate beside the third at 0.5; the data it takes has 1.
ALPHAS = dict(zip(published.SPLITS, (100.0, 1.0, 0.5), strict=True))
LAMBDAS = dict(zip(published.SPLITS, (0.1, 0.03, 0.03), strict=True)) | {published.SITES: 0.01}
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
MODELS = {'global': 'metrics', 'own': 'deployed'}
WITH_SITES = {'digits_common': 'tissue'}  # what takes the place of data that has no sites
MANY: dict[str, Any] = {'num_clients': 50, 'participation': 0.1}


def by_sites(study: Study) -> Study:
    """The study on the sites of its data instead of a Dirichlet split."""
    scenario = WITH_SITES.get(study.config.scenario, study.config.scenario)
    config = dataclasses.replace(study.config, scenario=scenario, split_by=None, num_clients=None, alpha=None)
    return dataclasses.replace(study, config=config)


def accuracies(folder: pathlib.Path) -> dict[str, Cell]:
    """Mean and std over seeds, in percent, of the global model and of clients' own where they have one.

    Each is the mean over clients of the accuracy on the client's test set, which is one for all but for sites.
    """
    summary = results.read_json(folder / output.SUMMARY)
    return {
        model: (100 * summary[kind]['client_mean']['mean'], 100 * summary[kind]['client_mean']['std'])
        for model, kind in MODELS.items()
        if summary[kind] is not None
    }


def measured(study: Study, recipe: str, place: str, **changes: Any) -> dict[str, Cell]:
    """A recipe's accuracies in one split or on sites, with the margin's weight as published for it."""
    if recipe in ('margin', 'fedld'):
        changes['hyper'] = {f'{recipe}.lam': LAMBDAS[place]}
    if place in ALPHAS:
        changes['alpha'] = ALPHAS[place]
    return accuracies(study.run(recipe, **changes)[0])


def note(study: Study) -> str:
    """One sentence under every table."""
    data, config = study.data(), study.config
    return (
        f'Ours: {data["name"]}, {sum(data["train"])} training examples, {config.model}, {config.rounds} rounds, seeds '
        f'{", ".join(map(str, config.seeds))} (deviation over them in brackets); the paper: ResNet-50, 200 rounds, one '
        'number each. Compare methods within a column, not numbers across. The global model of FedBN and FedPAC is '
        "no client's: their clients' own models are beside it, on the same test sets."
    )
