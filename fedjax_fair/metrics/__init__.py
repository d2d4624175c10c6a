"""Metrics of test sets (jnp) and fairness over clients and groups (NumPy)."""

from fedjax_fair.metrics.classification import (
    accuracy,
    auc_ovo_macro,
    auc_ovr_macro,
    balanced_accuracy,
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
from fedjax_fair.metrics.summary import last_k, over_seeds, summarise
from fedjax_fair.metrics.task import classification

__all__ = [
    'accuracy',
    'auc_ovo_macro',
    'auc_ovr_macro',
    'balanced_accuracy',
    'best_worst_gap',
    'classification',
    'client_data_fairness',
    'confusion',
    'group_means',
    'jain_index',
    'last_k',
    'mean',
    'over_seeds',
    'ovo_from_wins',
    'ovr_from_wins',
    'pair_wins',
    'std',
    'summarise',
    'worst',
    'worst_share',
]
