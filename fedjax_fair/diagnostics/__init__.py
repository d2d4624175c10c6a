"""What training does that accuracies do not show: where the loss comes from, how clients pull, which signs agree."""

from fedjax_fair.diagnostics.conflicts import (
    Conflicts,
    client_gradients,
    conflicts,
    mean_drift,
    track_drift,
    watch_conflicts,
)
from fedjax_fair.diagnostics.consistency import consistency, same_way, sign_histogram, watch_masks, watch_signs
from fedjax_fair.diagnostics.decomposition import Decomposition, decompose, keep_local_models, loss_decomposition
from fedjax_fair.diagnostics.distances import squared_distances, variance_objective, watch_distances

__all__ = [
    'Conflicts',
    'Decomposition',
    'client_gradients',
    'conflicts',
    'consistency',
    'decompose',
    'keep_local_models',
    'loss_decomposition',
    'mean_drift',
    'same_way',
    'sign_histogram',
    'squared_distances',
    'track_drift',
    'variance_objective',
    'watch_conflicts',
    'watch_distances',
    'watch_masks',
    'watch_signs',
]
