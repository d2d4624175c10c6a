"""What all tables and figures of FedISM share: methods, columns, what was measured, and evidence of differences."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.evidence import of_runs
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
SCORES = {'ACC': 'balanced_accuracy', 'AUC': 'auc'}
COLUMNS = tuple(f'{kind} {score}' for kind in ('clean', 'corrupted', 'average') for score in SCORES)
MEASURES = ('avg', 'site:clean', 'site:corrupted')


def folders_of(study: Study, methods: Mapping[str, str], **changes: Any) -> dict[str, pathlib.Path]:
    """The run of every method by its name."""
    return {method: study.run(recipe, **changes)[0] for method, recipe in methods.items()}


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


def evidence_of(folders: Mapping[str, pathlib.Path], *baselines: str) -> dict[str, dict[str, Any]]:
    """Differences in both scores with every baseline, on images of both kinds and in their mean.

    They rest on what every test example got at the last evaluations: 'ACC against FedAvg' and so on.
    """
    return {
        f'{score} against {baseline}': of_runs(folders, baseline, MEASURES, metric=metric)
        for baseline in baselines
        for score, metric in SCORES.items()
    }


def why_not_comparable(study: Study) -> str:
    """One sentence under every table."""
    return (
        f'{study.ours()}. The paper: 19998 (ICH) or 20262 (ISIC 2019) images of 224x224, ResNet-18 pretrained on '
        'ImageNet, 300 rounds. Compare methods within a column, not numbers across.'
    )
