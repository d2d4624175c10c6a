"""What all tables and figures of FedTilt share: data conditions, methods, what was measured, and its evidence."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.evidence import of_runs, of_values, scored_by
from experiments.fedtilt import published
from experiments.study import Cell, Study, cell
from fedjax_fair import results
from fedjax_fair.training import Config

HERE = pathlib.Path(__file__).parent
ABOUT = {
    'acc': 'accuracy, mean over clients, %',
    'sigma': 'deviation of accuracy over clients, points',
    'mu_sigma': "mean over clients of the deviation over a client's classes, points",
    'sigma_sigma': "deviation over clients of the deviation over a client's classes, points",
}
COLUMNS = tuple(ABOUT)
MODELS = {'global': 'global', 'adapted': 'adapted', 'personal': 'deployed'}
# The model of each method that a client would use: FedAvg's is the global one after local training.
USED = {'FedAvg': 'adapted', 'Ditto': 'personal', 'FedTilt': 'personal'}
# Training data of each table: clean, or with outliers drawn anew in every round.
CONDITIONS: dict[str, dict[str, Any]] = {'2': {}, '3': {'outliers': 'pixels'}, '7': {'outliers': 'gaussian'}}
TITLES = {'2': 'clean data', '3': 'persistent random corruptions', '7': 'persistent Gaussian noise'}
DITTO_MU = 0.01  # as for FedTilt; the paper only says that Ditto was tuned
# Entries of evidence over clients that took part, beside those with FedAvg after local training.
CLASSES = 'classes'
GLOBAL = "FedAvg's global model"
WITH_DITTO, WITH_GLOBAL = f'{CLASSES}, with Ditto', f'{CLASSES}, with {GLOBAL}'

TOY = Config(model='logreg', rounds=20, local_epochs=10, batch_size=10, lr=0.05, eval_every=20, last_k=1)
Values = Mapping[str, Mapping[str, np.ndarray]]  # [model][column], one number per seed, in percent


def toy(study: Study, number: int, **settings: Any) -> Study:
    """A toy experiment of the paper, kept beside the study's own runs."""
    config = TOY.changed(scenario=f'gaussian_toy_{number}', hyper=study.config.hyper, **settings)
    return Study(config, study.out / f'toy{number}', study.quiet)


def data_set(study: Study) -> str:
    """The data set of the paper that ours is, or whose place it takes."""
    scenario = study.config.scenario.lower()
    return published.FASHION if 'fashion' in scenario else published.CIFAR if 'cifar' in scenario else published.MNIST


def recipes(study: Study, table: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Every method's recipe and hyper-parameters in one table."""
    tau, lam = published.TILTS[table][data_set(study)]
    return {
        'FedAvg': ('uniform', {}),
        'Ditto': ('ditto', {'ditto.mu': DITTO_MU}),
        'FedTilt': ('fedtilt', {'fedtilt.tau': tau, 'fedtilt.lam': lam}),
    }


def folder_of(study: Study, table: str, method: str, **changes: Any) -> pathlib.Path:
    """A method's run with the tilts and the data of one table; ``changes`` are of its settings."""
    recipe, hyper = recipes(study, table)[method]
    settings: dict[str, Any] = {**CONDITIONS[table], **changes, **({'hyper': hyper} if hyper else {})}
    return study.run(recipe, **settings)[0]


def values(folder: pathlib.Path) -> Values:
    """Every kind of model that was evaluated, at its last evaluation, over clients that took part at least once.

    A client that never did has no model of its own: its numbers would be those of the global model.
    """
    summary, lines = results.summary(folder), results.history(folder)
    seeds, count = summary['seeds'], summary['clients']
    taking = [~np.isin(np.arange(count), never) for never in summary['never_sampled']]

    def of_kind(kind: str) -> dict[str, np.ndarray]:
        last = {line['seed']: line[kind] for line in lines if kind in line}
        rows = [
            _statistics(*(np.asarray(last[seed][name], float)[own] for name in ('client_accuracy', 'client_class_std')))
            for seed, own in zip(seeds, taking, strict=True)
        ]
        return dict(zip(COLUMNS, 100 * np.array(rows).T, strict=True))

    return {model: of_kind(kind) for model, kind in MODELS.items() if summary[kind] is not None}


def _statistics(accuracy: np.ndarray, deviation: np.ndarray) -> tuple[float, ...]:
    """The columns from the accuracies of clients and the deviations over their classes."""
    return accuracy.mean(), accuracy.std(), deviation.mean(), deviation.std()


def numbers(folder: pathlib.Path) -> dict[str, dict[str, Cell]]:
    """``[model][column]``: mean and deviation over seeds of :func:`values`."""
    return {
        model: {column: (float(own.mean()), float(own.std())) for column, own in found.items()}
        for model, found in values(folder).items()
    }


def never_sampled(folder: pathlib.Path) -> dict[str, list[int]]:
    """By seed the clients that took part in no round, where there are any."""
    summary = results.summary(folder)
    pairs = zip(summary['seeds'], summary['never_sampled'], strict=True)
    return {str(seed): clients for seed, clients in pairs if clients}


def sampled_words(folder: pathlib.Path) -> str:
    """Over which clients numbers are, for the note under a table."""
    found = never_sampled(folder)
    left_out = '; '.join(f'seed {seed}: {", ".join(map(str, clients))}' for seed, clients in found.items())
    told = f'{sum(map(len, found.values()))} never did and are left out ({left_out})' if found else 'all of them did'
    everyone = 'Differences titled clients, which count test examples, are over all clients.'
    return f'Numbers are over clients that took part in at least one round: {told}. {everyone}'


def evidence(folders: Mapping[str, pathlib.Path]) -> dict[str, dict[str, Any]]:
    """Differences of methods by their names in :data:`USED`: FedAvg is the baseline, and Ditto where it can be.

    Entries on clients count test examples as well and have all clients; those on classes count seeds alone, and have
    the clients that took part. Personal models are also beside FedAvg's global model as it is, since the paper does not
    say which one it scores. A method whose models diverged has no differences.
    """
    whole = {name: one for name, one in folders.items() if np.isfinite(_used(one, name)['acc']).all()}
    entries = {}
    for baseline, title in (('FedAvg', ''), ('Ditto', ', with Ditto')):
        own = {name: one for name, one in whole.items() if name in (baseline, 'Ditto', 'FedTilt')}
        if baseline in own and len(own) > 1:
            runs = {name: scored_by(one, MODELS[USED[name]]) for name, one in own.items()}
            entries[f'clients{title}'] = of_runs(runs, baseline, ['avg', 'spread'])
            found = {name: _used(one, name) for name, one in own.items()}
            entries[f'{CLASSES}{title}'] = by_seed(found, baseline, results.summary(own[baseline])['seeds'])
    if 'FedAvg' in whole and len(whole) > 1:
        personal = {name: _used(one, name) for name, one in whole.items() if name != 'FedAvg'}
        shared = values(whole['FedAvg'])['global']
        seeds = results.summary(whole['FedAvg'])['seeds']
        entries[WITH_GLOBAL] = by_seed({GLOBAL: shared, **personal}, GLOBAL, seeds)
    return entries


def _used(folder: pathlib.Path, method: str) -> Mapping[str, np.ndarray]:
    return values(folder)[USED[method]]


def by_seed(found: Mapping[str, Mapping[str, np.ndarray]], baseline: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Evidence on all columns, over seeds."""
    columns = {column: {name: own[column].tolist() for name, own in found.items()} for column in COLUMNS}
    return of_values(columns, baseline, ABOUT, COLUMNS[1:], seeds=seeds)


def shown(value: Cell) -> str:
    """A cell of a table."""
    return 'diverged' if np.isnan(value[0]) else cell(value)


def plain(found: Any) -> Any:
    """Numbers as JSON holds them: those of models that diverged are null."""
    if isinstance(found, Mapping):
        return {str(name): plain(one) for name, one in found.items()}
    if isinstance(found, list | tuple):
        return [plain(one) for one in found]
    return None if isinstance(found, float) and np.isnan(found) else found
