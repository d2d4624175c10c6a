"""Multi-label classification: any number of findings per image."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core.types import Array, Task, default_float
from fedjax_fair.errors import UserError
from fedjax_fair.metrics.classification import pair_wins
from fedjax_fair.metrics.reductions import ABSURD_LOSS, masked_average
from fedjax_fair.registry import register


def label_aucs(scores: Array, y: Array, mask: Array) -> Array:
    """Area under the ROC curve of every label, ``[K]``; NaN where all or none of the examples have it.

    >>> scores, y = jnp.array([[0.1], [0.4], [0.35], [0.8]]), jnp.array([[0], [0], [1], [1]])
    >>> label_aucs(scores, y, jnp.ones(4, bool)).tolist()
    [0.75]
    """

    def one(score: Array, label: Array) -> Array:
        wins, counts = pair_wins(jnp.stack([-score, score], -1), label, mask)
        pairs = counts[0] * counts[1]
        return jnp.where(pairs > 0, wins[1, 0] / jnp.maximum(pairs, 1), jnp.nan)

    return jax.vmap(one, in_axes=(1, 1))(scores, y)


@register.task
def multilabel(num_classes: int) -> Task:
    """Every example has any number of ``num_classes`` labels: ``logits[B, K]``, ``y[B, K]`` zeros and ones.

    The loss is the mean sigmoid cross-entropy over labels. ``metrics`` gives auc (mean over the labels that some but
    not all test examples have), f1 (mean over labels at threshold 1/2, a label neither found nor present counting 0),
    accuracy (share of right label values), exact (share of examples with all labels right), loss and count.
    """
    if num_classes < 1:
        raise UserError(f'num_classes must be at least 1, got {num_classes}')

    def losses(logits: Array, y: Array, mask: Array | None = None) -> Array:
        return optax.sigmoid_binary_cross_entropy(logits, y.astype(logits.dtype)).mean(-1)

    def predict(logits: Array) -> Array:
        return (logits > 0).astype(jnp.int32)

    def count(y: Array, mask: Array) -> Array:
        return jnp.where(mask, y, 0).sum(0).astype(default_float())

    def record(logits: Array, y: Array) -> dict[str, Array]:
        logits = logits.astype(jnp.float32)
        return {'logits': logits, 'loss': losses(logits, y), 'prediction': predict(logits)}

    def metrics(records: dict[str, Array], y: Array, mask: Array) -> dict[str, Array]:
        said, real = records['prediction'], mask[:, None]
        right = ((said == y) & real).astype(jnp.float32)
        hits, sizes = (jnp.where(real, v, 0).sum(0) for v in (said * y, said + y))
        return {
            'auc': jnp.nanmean(label_aucs(records['logits'], y, mask)),
            'f1': (2 * hits / jnp.maximum(sizes, 1)).mean(),
            'accuracy': masked_average(right.mean(-1), mask),
            'exact': masked_average(right.min(-1), mask),
            'loss': masked_average(records['loss'], mask),
            'count': mask.sum().astype(jnp.int32),
        }

    kept = {'prediction': 'prediction', 'logits': 'score'}
    return Task(
        'multilabel', num_classes, losses, record, metrics, predict, count, 'auc', kept, absurd_loss=ABSURD_LOSS
    )
