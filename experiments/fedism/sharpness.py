"""How sharp the training losses of clients are at the last global model: Table 7."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from experiments.evidence import of_values
from experiments.fedism import published
from experiments.fedism.study import folders_of, why_not_comparable
from experiments.study import Study
from fedjax_fair.methods.fedism import client_sharpness
from fedjax_fair.training import finished

RHO = 0.05
ABOUT = {'mean': 'mean sharpness over clients', 'std': 'standard deviation of sharpness over clients'}
MARGIN = 0.02  # in units of the loss: the smallest difference of interest


def sharpness_of_clients(folder: pathlib.Path) -> np.ndarray:
    """``[seeds, clients]``: the sharpness of every client's training loss at the last global model."""
    experiment, states = finished(folder)
    cohort = experiment.federation.cohort(range(experiment.federation.num_clients))

    def of_seed(state):
        return experiment.algorithm.measure(state, cohort, lambda ctx: client_sharpness(ctx, ctx.variables, RHO))

    return np.asarray(jax.jit(lambda s: jax.lax.map(of_seed, s))(states))


def sharpness(study: Study, name: str, methods: Mapping[str, str]) -> None:
    """Mean and std of the sharpness over clients."""
    found = {method: sharpness_of_clients(folder) for method, folder in folders_of(study, methods).items()}
    ours = {
        method: {'mean': values.mean(1).tolist(), 'std': values.std(1).tolist(), 'clients': values.tolist()}
        for method, values in found.items()
    }
    rows = []
    for method, own in ours.items():
        paper = published.SHARPNESS.get(method)
        shown = ['', ''] if paper is None else [f'{number:.5f}' for number in paper]
        rows.append([method, *(f'{np.mean(own[what]):.5f}' for what in ABOUT), *shown])
    values = {what: {method: own[what] for method, own in ours.items()} for what in ABOUT}
    asked: dict[str, Any] = {'lower_is_better': list(ABOUT), 'margin': MARGIN, 'seeds': study.config.seeds}
    evidence = {'sharpness': of_values(values, 'FedAvg', ABOUT, **asked)}
    head = ['method', 'mean', 'std', 'paper: mean', 'paper: std']
    note = f'At the last global model, rho = {RHO} (the paper does not give its own); means over seeds. '
    study.table(name, head, rows, note + why_not_comparable(study), ours, evidence=evidence)
