"""What all tables and figures of FedTilt share: data conditions, methods, and what was measured."""

from __future__ import annotations

import pathlib
from typing import Any

from experiments.fedtilt import published
from experiments.study import Cell, Study, percent
from fedjax_fair import results
from fedjax_fair.training import Config

HERE = pathlib.Path(__file__).parent
COLUMNS = {'acc': 'client_mean', 'sigma': 'client_std', 'mu_sigma': 'mu_sigma', 'sigma_sigma': 'sigma_sigma'}
MODELS = {'global': 'global', 'adapted': 'adapted', 'personal': 'deployed'}
# Training data of each table: clean, or with outliers drawn anew in every round.
CONDITIONS: dict[str, dict[str, Any]] = {'2': {}, '3': {'outliers': 'pixels'}, '7': {'outliers': 'gaussian'}}
TITLES = {'2': 'clean data', '3': 'persistent random corruptions', '7': 'persistent Gaussian noise'}
DITTO_MU = 0.01  # as for FedTilt; the paper only says that Ditto was tuned


TOY = Config(model='logreg', rounds=20, local_epochs=10, batch_size=10, lr=0.05, eval_every=20, last_k=1)


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


def numbers(folder: pathlib.Path) -> dict[str, dict[str, Cell]]:
    """``[model][column]``: mean and std over seeds, in percent, of every kind of model that was evaluated."""
    summary = results.summary(folder)
    return {
        model: {column: percent(summary[kind][name]) for column, name in COLUMNS.items()}
        for model, kind in MODELS.items()
        if summary[kind] is not None
    }


def measured(study: Study, table: str, method: str) -> dict[str, dict[str, Cell]]:
    """A method's numbers under a table's condition."""
    recipe, hyper = recipes(study, table)[method]
    changes = CONDITIONS[table] | ({'hyper': hyper} if hyper else {})
    return numbers(study.run(recipe, **changes)[0])
