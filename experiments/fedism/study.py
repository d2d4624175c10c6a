"""What all tables and figures of FedISM share: methods, columns, and what was measured."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

from experiments.study import Cell, Study

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
    lines = [json.loads(line) for line in (folder / 'metrics.jsonl').read_text().splitlines()]
    last = sorted({line['round'] for line in lines})[-LAST:]
    kept = [line['global'] for line in lines if line['round'] in last]
    values = np.array([[line['group_balanced_accuracy'], line['group_auc_ovo']] for line in kept], np.float64)
    table = 100 * np.concatenate([values, values.mean(2, keepdims=True)], 2)  # [evaluation, score, kind]
    flat = table.transpose(0, 2, 1).reshape(len(kept), -1)
    return dict(zip(COLUMNS, zip(flat.mean(0).tolist(), flat.std(0).tolist(), strict=True), strict=True))


def why_not_comparable(study: Study) -> str:
    """One sentence under every table."""
    data, config = study.data(), study.config
    side = 'x'.join(map(str, data['shape']))
    return (
        f'Ours: {data["name"]}, {sum(data["train"])} images of {side}, {config.model}, {config.rounds} rounds. '
        'The paper: 19998 (ICH) or 20262 (ISIC 2019) images of 224x224, ResNet-18 pretrained on ImageNet, 300 rounds. '
        'Compare methods within a column, not numbers across.'
    )
