"""``python -m experiments.fedtilt.tables --table=2``: the paper's tables; ``--preset`` and flags of a run apply.

Besides those of the paper: ``protocols`` (what else the paper may have done), ``mu`` (how strongly personal models are
pulled, chosen on validation data), ``q`` (the tilt over clients on images) and ``theorems`` (in numbers).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from experiments.fedtilt import published
from experiments.fedtilt.checks import mu, protocols, q, theorems
from experiments.fedtilt.study import (
    COLUMNS,
    CONDITIONS,
    HERE,
    TITLES,
    data_set,
    evidence,
    folder_of,
    never_sampled,
    numbers,
    plain,
    recipes,
    sampled_words,
    shown,
    toy,
)
from experiments.study import Study, cell, main


def show(study: Study, table: str) -> None:
    """FedAvg, Ditto and FedTilt under one condition, every kind of model, and the paper's rows of all data sets."""
    here, rows = data_set(study), []
    folders = {method: folder_of(study, table, method) for method in recipes(study, table)}
    ours = {method: numbers(folder) for method, folder in folders.items()}
    for where, methods in published.NUMBERS[table].items():
        for method, row in methods.items():
            rows.append([where, method, 'paper', '', *(f'{value:.2f}' for value in row)])
            if where != here:
                rows.append(['', '', 'ours', 'not run', *[''] * len(COLUMNS)])
                continue
            for model, found in ours[method].items():
                rows.append(['', '', 'ours', model, *(shown(found[column]) for column in COLUMNS)])
    recipe, own = recipes(study, table)['FedTilt']
    tau, lam = (study.settings(recipe, own).hyper[f'fedtilt.{key}'] for key in ('tau', 'lam'))
    any_run = folders['FedTilt']
    note = (
        f'{study.ours()} (deviation over them in brackets), in the place of {here} with {TITLES[table]}; FedTilt with '
        f'tau = {tau:g} and lambda = {lam:g}. Accuracy is the mean over clients, sigma its standard deviation over '
        "clients, mu_sigma and sigma_sigma mean and deviation of that over each client's classes. The paper does not "
        'say which model of FedAvg it scores; personal models are those of Ditto and FedTilt. Differences are about '
        f'the models that clients would use, and FedAvg after local training. {sampled_words(any_run)}'
    )
    head = ['data', 'method', 'from', 'model', *COLUMNS]
    kept = plain({**ours, 'never sampled': never_sampled(any_run)})
    study.table(f'table{table}', head, rows, note, kept, evidence=evidence(folders))


def signs(study: Study) -> None:
    """Table I, measured on the toys: what the signs of q, tau and lambda do.

    Client fairness: deviation of the global model's accuracy over the clients of toy 1, which differ. Data fairness:
    mu_sigma of the personal models of toy 3, whose first class is wide and whose second is rare. Robustness: what noise
    on 30 % of the training points costs their accuracy.
    """
    differing, wide = (toy(study, number, seeds=tuple(range(10))) for number in (1, 3))
    asked = [{'fedtilt.q': q} for q in published.CLIENT_FAIRNESS]
    by_q = [numbers(folder)['global']['sigma'] for folder in differing.run('fedtilt', asked)]
    rows = [
        [f'q = {q:g}', said, cell(found), '', '', '', '']
        for (q, said), found in zip(published.CLIENT_FAIRNESS.items(), by_q, strict=True)
    ]
    points = [{'fedtilt.tau': tau, 'fedtilt.lam': lam} for tau, lam in published.SIGNS]
    clean, noisy = (
        [numbers(folder)['personal'] for folder in wide.run('fedtilt', points, **changes)]
        for changes in ({}, {'outliers': 'gaussian'})
    )
    drops = [one['acc'][0] - other['acc'][0] for one, other in zip(clean, noisy, strict=True)]
    for ((tau, lam), (fair, robust)), one, drop in zip(published.SIGNS.items(), clean, drops, strict=True):
        rows.append([f'tau = {tau:g}, lambda = {lam:g}', '', '', fair, cell(one['mu_sigma']), robust, f'{drop:.2f}'])
    head = [
        'tilts',
        'client fairness (paper)',
        'sigma',
        'data fairness (paper)',
        'mu_sigma',
        'robustness (paper)',
        'drop',
    ]
    note = 'Smaller is fairer and more robust; ten seeds, deviations over them in brackets.'
    kept = {'q': by_q, 'clean': clean, 'noisy': noisy}
    study.table('table1', head, rows, note, kept)


TABLES: Mapping[str, Callable[[Study], None]] = {
    '1': signs,
    **{table: functools.partial(show, table=table) for table in CONDITIONS},
    'protocols': protocols,
    'mu': mu,
    'q': q,
    'theorems': theorems,
}

if __name__ == '__main__':
    main('table', TABLES, HERE)
