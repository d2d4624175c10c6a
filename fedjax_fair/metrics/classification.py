"""Single-label classification: the task, and its metrics over a padded test set, safe under jit and vmap."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array, Task
from fedjax_fair.errors import UserError
from fedjax_fair.metrics.reductions import ABSURD_LOSS, count_classes, masked_average, most_likely
from fedjax_fair.ops.entropy import cross_entropy
from fedjax_fair.registry import register


@register.task
def classification(num_classes: int) -> Task:
    """Single-label classification with cross-entropy: ``y[B]`` integers.

    ``metrics`` gives accuracy, balanced_accuracy, loss (mean cross-entropy), auc_ovo, auc_ovr, confusion ``[K, K]`` and
    count, over the real examples only; it vmaps over test sets.

    >>> task = classification(3)
    >>> task.record(jnp.array([[0.0, 2.0, 1.0]]), jnp.array([2]))['prediction'].tolist()
    [1]
    """
    if num_classes < 2:
        raise UserError(f'num_classes must be at least 2, got {num_classes}')

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

    tally, kept = count_classes(num_classes), {'prediction': 'prediction', 'prob': 'score'}
    return Task(
        'classification', num_classes, _losses, _record, metrics, most_likely, tally, kept=kept, absurd_loss=ABSURD_LOSS
    )


def _losses(logits: Array, y: Array, mask: Array | None = None) -> Array:
    return cross_entropy(logits, y)


def _record(logits: Array, y: Array) -> dict[str, Array]:
    logits = logits.astype(jnp.float32)  # probabilities of a half-precision model would tie
    return {'prob': jax.nn.softmax(logits), 'loss': _losses(logits, y), 'prediction': most_likely(logits)}


# --- metrics ---------------------------------------------------------------------------------------------------------


def confusion(predictions: Array, labels: Array, mask: Array, num_classes: int) -> Array:
    """Count examples by true class (rows) and predicted class (columns): ``[K, K]`` int32.

    ``mask`` marks the real examples; padding counts nowhere, whatever its label.

    >>> confusion(jnp.array([0, 1, 1, 0]), jnp.array([0, 0, 1, 1]), jnp.array([True, True, True, False]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    counts = jnp.zeros((num_classes, num_classes), jnp.int32)
    return counts.at[labels, predictions].add(mask.astype(jnp.int32))


def accuracy(confusion: Array) -> Array:
    """Share of examples on the diagonal of a confusion matrix; NaN for an empty test set."""
    return jnp.trace(confusion).astype(jnp.float32) / confusion.sum().astype(jnp.float32)


def balanced_accuracy(confusion: Array) -> Array:
    """Mean recall over the classes present in the labels; equals accuracy when these are equally frequent.

    A class no example belongs to has no recall and drops out. NaN for an empty test set.
    """
    size = confusion.sum(1)
    recall = jnp.diagonal(confusion).astype(jnp.float32) / jnp.maximum(size, 1).astype(jnp.float32)
    return _mean(recall, size > 0)


def pair_wins(scores: Array, labels: Array, mask: Array) -> tuple[Array, Array]:
    """Pairs of examples put in the right order, for every pair of classes; the kernel of every AUC here.

    ``wins[a, b]`` counts the pairs (i of class a, j of class b) with ``scores[i, a] > scores[j, a]``, ties as half.
    One sort per column gives, for every j, how many members of class a lie above it, so the work is O(K M log M) and
    no M x M matrix is formed. Equal scores of any kind tie, NaN with NaN too: a diverged model is at chance.

    Args:
        scores: ``[M, K]``, larger for a more likely class.
        labels: ``[M]`` integers.
        mask: ``[M]``, the real examples.

    Returns:
        ``wins[K, K]`` and the class counts ``[K]``, both float32.
    """
    member = jax.nn.one_hot(labels, scores.shape[1], dtype=jnp.float32) * mask.astype(jnp.float32)[:, None]

    def members_above(score, is_member):
        order = jnp.argsort(score)
        below = jnp.concatenate([jnp.zeros(1, jnp.float32), jnp.cumsum(is_member[order])])
        left, right = (jnp.searchsorted(score[order], score, side=side) for side in ('left', 'right'))
        return below[-1] - (below[left] + below[right]) / 2

    above = jax.vmap(members_above, in_axes=(1, 1))(scores, member)
    return jnp.matmul(above, member, precision='highest'), member.sum(0)


def ovo_from_wins(wins: Array, counts: Array) -> Array:
    """One-vs-one macro AUC from :func:`pair_wins`; see :func:`auc_ovo_macro`."""
    pairs = counts[:, None] * counts[None, :]
    valid = (pairs > 0) & ~jnp.eye(len(counts), dtype=bool)
    return _mean(wins / jnp.maximum(pairs, 1), valid)


def ovr_from_wins(wins: Array, counts: Array) -> Array:
    """One-vs-rest macro AUC from :func:`pair_wins`; see :func:`auc_ovr_macro`."""
    pairs = counts * (counts.sum() - counts)
    against_rest = wins.sum(1) - jnp.diagonal(wins)
    return _mean(against_rest / jnp.maximum(pairs, 1), pairs > 0)


def auc_ovo_macro(scores: Array, labels: Array, mask: Array) -> Array:
    """Area under the ROC curve, one class against one other, averaged over all pairs of classes.

    The mean over unordered pairs {a, b} of ``(A(a|b) + A(b|a)) / 2`` where ``A(a|b) = wins[a, b] / (n_a n_b)``.
    Insensitive to class frequencies. Classes absent from the labels drop out; NaN with fewer than two classes. With
    two classes and probabilities it is the ordinary AUC.

    Reference: Hand and Till, A Simple Generalisation of the Area Under the ROC Curve, Machine Learning 45, 2001.
    """
    return ovo_from_wins(*pair_wins(scores, labels, mask))


def auc_ovr_macro(scores: Array, labels: Array, mask: Array) -> Array:
    """Area under the ROC curve of each class against the rest, averaged over the classes without weights.

    Classes absent from the labels drop out; NaN with fewer than two classes.
    """
    return ovr_from_wins(*pair_wins(scores, labels, mask))


def _mean(values: Array, valid: Array) -> Array:
    """Mean of the valid entries; NaN where there are none."""
    return jnp.where(valid, values, 0).sum() / valid.sum().astype(values.dtype)
