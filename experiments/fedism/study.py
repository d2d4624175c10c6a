"""What all tables and figures of FedISM share: methods, columns, and what was measured."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from experiments.study import Cell, Study
from fedjax_fair import results

HERE = pathlib.Path(__file__).parent
LAST = 5  # evaluations whose numbers are pooled with those of all seeds
FAIR = {
    'FedAvg': 'fedavg',
    'Agnostic-FL': 'afl_worst',
    'q-FedAvg': 'qfedavg',
    'FairFed': 'fairfed',
    'FedCE': 'fedce',
    'FedGA': 'fedga',
}
# All of the authors' methods train with adjusted logits; FedISM brings them.
METHODS = {name: f'{recipe}+logit_adjust' for name, recipe in FAIR.items()} | {'FedISM': 'fedism'}
SALTED = {name: f'{recipe}+salt' for name, recipe in METHODS.items() if name != 'FedISM'}
ABLATION = {
    'FedAvg': METHODS['FedAvg'],
    'FedAvg+SALT': SALTED['FedAvg'],
    'FedAvg+SAGA': 'saga+logit_adjust',
    'FedISM': 'fedism',
}
COLUMNS = tuple(f'{kind} {score}' for kind in ('clean', 'corrupted', 'average') for score in ('ACC', 'AUC'))


def scores_of(study: Study, recipe: str, **changes: Any) -> dict[str, Cell]:
    """Mean and std of every column for one recipe."""
    return scores(study.run(recipe, **changes)[0])


def scores(folder: pathlib.Path) -> dict[str, Cell]:
    """Mean and population std, in percent, over the last five evaluations of all seeds pooled.

    ACC is balanced accuracy, AUC one against one (Hand and Till). The average of clean and corrupted is taken of each
    evaluation first.
    """
    names = ('group_balanced_accuracy', 'group_auc_ovo')
    _, values = results.series(results.history(folder), lambda line: [line['global'][name] for name in names])
    last = values[:, -LAST:].swapaxes(0, 1).reshape(-1, *values.shape[2:])
    table = 100 * np.concatenate([last, last.mean(2, keepdims=True)], 2)  # [evaluation, score, kind]
    flat = table.transpose(0, 2, 1).reshape(len(last), -1)
    return dict(zip(COLUMNS, zip(flat.mean(0).tolist(), flat.std(0).tolist(), strict=True), strict=True))


def why_not_comparable(study: Study) -> str:
    """One sentence under every table."""
    return (
        f'{study.ours()}. The paper: 19998 (ICH) or 20262 (ISIC 2019) images of 224x224, ResNet-18 pretrained on '
        'ImageNet, 300 rounds. Compare methods within a column, not numbers across.'
    )
