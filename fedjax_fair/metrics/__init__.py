"""Metrics of test sets (jnp) and fairness over clients and groups (NumPy)."""

from fedjax_fair.metrics.chance import chance_levels
from fedjax_fair.metrics.classification import (
    accuracy,
    auc_ovo_macro,
    auc_ovr_macro,
    balanced_accuracy,
    classification,
    confusion,
    ovo_from_wins,
    ovr_from_wins,
    pair_wins,
)
from fedjax_fair.metrics.fairness import (
    best_worst_gap,
    client_data_fairness,
    group_means,
    jain_index,
    mean,
    std,
    worst,
    worst_share,
)
from fedjax_fair.metrics.multilabel import label_aucs, multilabel
from fedjax_fair.metrics.segmentation import dice_loss, overlap, pixel_cross_entropy, segmentation
from fedjax_fair.metrics.summary import diverged, last_k, over_seeds, summarise
from fedjax_fair.metrics.task import TASKS, make_task

__all__ = [
    'TASKS',
    'accuracy',
    'auc_ovo_macro',
    'auc_ovr_macro',
    'balanced_accuracy',
    'best_worst_gap',
    'chance_levels',
    'classification',
    'client_data_fairness',
    'confusion',
    'dice_loss',
    'diverged',
    'group_means',
    'jain_index',
    'label_aucs',
    'last_k',
    'make_task',
    'mean',
    'multilabel',
    'over_seeds',
    'overlap',
    'ovo_from_wins',
    'ovr_from_wins',
    'pair_wins',
    'pixel_cross_entropy',
    'segmentation',
    'std',
    'summarise',
    'worst',
    'worst_share',
]
