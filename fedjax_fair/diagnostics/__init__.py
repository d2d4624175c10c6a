"""What happens in a round: where the loss comes from, and how clients pull."""

from fedjax_fair.diagnostics.conflicts import Conflicts, client_gradients, conflicts, mean_drift, track_drift
from fedjax_fair.diagnostics.decomposition import Decomposition, decompose, keep_local_models, loss_decomposition

__all__ = [
    'Conflicts',
    'Decomposition',
    'client_gradients',
    'conflicts',
    'decompose',
    'keep_local_models',
    'loss_decomposition',
    'mean_drift',
    'track_drift',
]
