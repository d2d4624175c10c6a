"""Tasks: the loss per example and the metrics of a test set."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array, Task
from fedjax_fair.metrics.classification import (
    accuracy,
    balanced_accuracy,
    confusion,
    ovo_from_wins,
    ovr_from_wins,
    pair_wins,
)
from fedjax_fair.metrics.multilabel import multilabel
from fedjax_fair.metrics.parts import count_classes, cross_entropy, masked_average, most_likely
from fedjax_fair.metrics.segmentation import segmentation


def classification(num_classes: int) -> Task:
    """Single-label classification with cross-entropy: ``y[B]`` integers.

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
        return {
            'accuracy': accuracy(matrix),
            'balanced_accuracy': balanced_accuracy(matrix),
            'loss': masked_average(records['loss'], mask),
            'auc_ovo': ovo_from_wins(wins, counts),
            'auc_ovr': ovr_from_wins(wins, counts),
            'confusion': matrix,
            'count': mask.sum().astype(jnp.int32),
        }

    return Task('classification', num_classes, _losses, _record, metrics, most_likely, count_classes(num_classes))


def _losses(logits: Array, y: Array, mask: Array | None = None) -> Array:
    return cross_entropy(logits, y)


def _record(logits: Array, y: Array) -> dict[str, Array]:
    logits = logits.astype(jnp.float32)  # probabilities of a half-precision model would tie
    return {'prob': jax.nn.softmax(logits), 'loss': _losses(logits, y), 'prediction': most_likely(logits)}


TASKS: dict[str, Callable[..., Task]] = {
    'classification': classification,
    'segmentation': segmentation,
    'multilabel': multilabel,
}


def make_task(name: str, num_classes: int, loss: str | None = None) -> Task:
    """A task of :data:`TASKS` by name; ``loss`` chooses among the losses of a task that has several."""
    if name not in TASKS:
        raise ValueError(f'--task={name} is unknown; choose one of {", ".join(TASKS)}')
    if loss is None:
        return TASKS[name](num_classes)
    if 'loss' not in inspect.signature(TASKS[name]).parameters:
        raise ValueError(f'--loss={loss} does not apply to --task={name}, which has one loss')
    return TASKS[name](num_classes, loss=loss)
