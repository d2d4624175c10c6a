"""``python -m experiments.fedtilt.tables --table=2``: the paper's tables; ``--preset`` and flags of a run apply."""

from __future__ import annotations

from experiments.fedtilt import published
from experiments.fedtilt.study import COLUMNS, CONDITIONS, HERE, TITLES, data_set, measured
from experiments.study import Study, cell, main, markdown


def show(study: Study, table: str) -> None:
    """FedAvg, Ditto and FedTilt under one condition, every kind of model, and the paper's rows of all data sets."""
    here, ours, rows = data_set(study), {}, []
    for where, methods in published.NUMBERS[table].items():
        for method, row in methods.items():
            rows.append([where, method, 'paper', '', *(f'{value:.2f}' for value in row)])
            if where != here:
                rows.append(['', '', 'ours', 'not run', *[''] * len(COLUMNS)])
                continue
            ours[method] = measured(study, table, method)
            for model, found in ours[method].items():
                rows.append(['', '', 'ours', model, *(cell(found[column]) for column in COLUMNS)])
    tau, lam = published.TILTS[table][here]
    config = study.config
    note = (
        f'Ours: {study.data()["name"]} in the place of {here} with {TITLES[table]}, {config.rounds} rounds, seeds '
        f'{", ".join(map(str, config.seeds))} (deviation over them in brackets), FedTilt with tau = {tau:g} and '
        f'lambda = {lam:g}. Accuracy is the mean over clients, sigma its standard deviation over clients, mu_sigma and '
        "sigma_sigma mean and deviation of that over each client's classes. The paper does not say which model of "
        'FedAvg it scores; personal models are those of Ditto and FedTilt.'
    )
    head = ['data', 'method', 'from', 'model', *COLUMNS]
    study.write(f'table{table}', [*markdown(head, rows), '', note], ours)


if __name__ == '__main__':
    main(show, 'table', tuple(CONDITIONS), HERE)
