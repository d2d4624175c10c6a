"""Tasks: the loss per example and the metrics of a test set."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.types import Array, Task
from fedjax_fair.metrics.classification import (
    accuracy,
    balanced_accuracy,
    confusion,
    ovo_from_wins,
    ovr_from_wins,
    pair_wins,
)


def classification(num_classes: int) -> Task:
    """Single-label classification with cross-entropy.

    ``metrics`` gives accuracy, balanced_accuracy, loss (mean cross-entropy), auc_ovo, auc_ovr, confusion ``[K, K]`` and
    count, over the real examples only; it vmaps over test sets.

    >>> task = classification(3)
    >>> task.record(jnp.array([[0.0, 2.0, 1.0]]), jnp.array([2]))['prediction'].tolist()
    [1]
    """
    if num_classes < 2:
        raise ValueError(f'num_classes must be at least 2, got {num_classes}')

    def metrics(records: dict[str, Array], y: Array, mask: Array) -> dict[str, Array]:
        matrix = confusion(records['prediction'], y, mask, num_classes)
        wins, counts = pair_wins(records['prob'], y, mask)
        count = mask.sum().astype(jnp.int32)
        return {
            'accuracy': accuracy(matrix),
            'balanced_accuracy': balanced_accuracy(matrix),
            'loss': jnp.where(mask, records['loss'], 0).sum() / count.astype(jnp.float32),
            'auc_ovo': ovo_from_wins(wins, counts),
            'auc_ovr': ovr_from_wins(wins, counts),
            'confusion': matrix,
            'count': count,
        }

    return Task('classification', num_classes, _losses, _record, metrics)


def _losses(logits: Array, y: Array) -> Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, y)


def _record(logits: Array, y: Array) -> dict[str, Array]:
    logits = logits.astype(jnp.float32)  # probabilities of a half-precision model would tie
    return {
        'prob': jax.nn.softmax(logits),
        'loss': _losses(logits, y),
        'prediction': jnp.argmax(logits, axis=-1).astype(jnp.int32),
    }
