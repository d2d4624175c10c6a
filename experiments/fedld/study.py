"""What all tables and figures of FedLD share: columns of data, rows of methods, and what was measured."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from experiments.fedld import published
from experiments.study import Cell, Study, percent
from fedjax_fair import results
from fedjax_fair.data import scenario_options
from fedjax_fair.errors import UserError

HERE = pathlib.Path(__file__).parent
ALPHAS = dict(zip(published.SPLITS, (100.0, 1.0, 0.5), strict=True)) | {published.PRINTED: 0.1, published.MANY: 0.5}
LAMBDAS = dict(zip(published.SPLITS, (0.1, 0.03, 0.03), strict=True)) | {
    published.PRINTED: 0.03,
    published.MANY: 0.03,
    published.SITES: 0.01,
}
WITH_MARGIN = ('margin', 'fedld', 'fedld_code')  # recipes that have the margin's weight lambda
PUBLISHER = 'ssl_fl:'  # the data in the layout of its publisher, who has dealt it out
MODELS = {'global': 'global', 'own': 'deployed'}
BY_SITE = ', mean of sites'  # after the name of a model
WITH_SITES = {'digits_common': 'tissue'}  # what takes the place of data that has no sites


class Row(NamedTuple):
    """What a row of a table runs."""

    recipe: str
    hyper: Mapping[str, Any] = MappingProxyType({})

    def at(self, place: str) -> dict[str, Any]:
        """Its hyper-parameters in a column, with the margin's weight as published for it."""
        own = {f'{self.recipe}.lam': LAMBDAS[place]} if self.recipe in WITH_MARGIN else {}
        return {**own, **self.hyper}


class Column(NamedTuple):
    """What a column runs: a place in the paper (or none), and the settings in which it differs from the study."""

    place: str
    changes: Mapping[str, Any] = MappingProxyType({})


PAPER = {
    'FedAvg': Row('fedavg'),
    'FedProx': Row('fedprox'),
    'FedBN': Row('fedbn'),
    'FedPAC': Row('fedpac'),
    'FedGH': Row('fedgh'),
    'FedLD': Row('fedld'),
}
# As the authors' code has it, which is not what the papers say.
CODE = {
    'FedGH, code': Row('fedgh_pcgrad'),
    'FedLD, code': Row('fedld_code'),
}
FROZEN = {'FedLD, code, frozen statistics': Row('fedld_code', {'fedld_code.frozen': True})}
# Principal aggregation makes the mean's step longer, by the code's normalisation shorter: these show the length alone.
LENGTHS = {
    'principal, sum of all': Row('principal', {'principal.normalizer': 'sum_all'}),
    'FedAvg, step x 1.2': Row('fedavg+server_momentum', {'server_momentum.lr': 1.2, 'server_momentum.momentum': 0.0}),
}
HALVES = {
    (False, False): Row('fedavg'),
    (False, True): Row('principal'),
    (True, False): Row('margin'),
    (True, True): Row('fedld'),
}
SPLITS = {place: Column(place) for place in published.SPLITS}
PRINTED = {published.PRINTED: Column(published.PRINTED)}
SITES = {published.SITES: Column(published.SITES)}
FIFTY = {'num_clients': 50, 'participation': 0.1}
MANY = {published.MANY: Column(published.MANY, FIFTY)}
MANY_GROUPED = {f'{published.MANY}, group norm': Column(published.MANY, {**FIFTY, 'norm': 'group'})}
# The deciding experiment: both uneven splits, with batch statistics as in the paper and without any.
UNEVEN = {
    f'Dirichlet {ALPHAS[place]:g}, {norm} norm': Column(place, {'norm': norm})
    for norm in ('batch', 'group')
    for place in published.SPLITS[1:]
}


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


def settings(study: Study, column: Column) -> dict[str, Any]:
    """The settings of a column: the split of the data's publisher, a concentration, or none for sites."""
    own: dict[str, Any]
    if column.place in published.SPLITS and study.config.scenario.startswith(PUBLISHER):
        own = {'split_by': 'site', 'num_clients': None, 'source_options': f'split={split_name(column.place)}'}
    else:
        own = {'alpha': ALPHAS[column.place]} if column.place in ALPHAS else {}
    return {**column.changes, **own}


def split_name(place: str) -> str:
    """The folder of a split at its publisher.

    >>> split_name('Split-1')
    'split_1'
    """
    return place.lower().replace('-', '_')


def ran(study: Study, row: Row, column: Column) -> pathlib.Path:
    """The folder of a row's run in one column."""
    return study.run(row.recipe, hyper=row.at(column.place), **settings(study, column))[0]


def accuracies(folder: pathlib.Path) -> dict[str, Cell]:
    """Mean and std over seeds, in percent, of the global model and of clients' own where they have one.

    Each is over all test examples, as the paper's one test set has it; where data has sites with tests of their own the
    mean of the sites' accuracies stands beside it.
    """
    summary = results.summary(folder)
    scores = {'': summary['score']} | ({BY_SITE: 'avg'} if summary['groups'] else {})
    return {
        model + words: percent(summary[kind][score])
        for model, kind in MODELS.items()
        if summary[kind] is not None
        for words, score in scores.items()
    }


def data_of(study: Study, columns: Mapping[str, Column]) -> dict[str, Any]:
    """What the columns really run: the settings in which each differs from the study, and its data."""
    found = {}
    for name, column in columns.items():
        own, lam = settings(study, column), {'lam': LAMBDAS[column.place]} if column.place in LAMBDAS else {}
        found[name] = {**lam, **own, **study.changed(**own).data()}
    return {'name': study.data()['name'], 'columns': found}


def note(study: Study, columns: Mapping[str, Column]) -> str:
    """What stands under every table, of the study as all columns have it."""
    first, *others = [settings(study, column) for column in columns.values()]
    study = study.changed(
        **{name: value for name, value in first.items() if all((name, value) in own.items() for own in others)}
    )
    last_k = study.config.last_k
    scored = 'the last evaluation' if last_k == 1 else f'the mean over the last {last_k} evaluations'
    classes = study.config.data.get('classes')
    kept = f', classes {", ".join(map(str, classes))} alone' if classes else ''
    return (
        f'{study.ours()}{kept} (deviation over them in brackets), accuracy over all test examples, {scored}; '
        'the paper: ResNet-50, 200 rounds, one number each. Compare methods within a column, not numbers across. The '
        "global model of FedBN and FedPAC is no client's: their clients' own models are beside it, on the same test "
        'sets, and differences are about these.'
    )
