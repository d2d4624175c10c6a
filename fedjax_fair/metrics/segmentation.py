"""Segmentation: a class for every pixel."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.types import Array, Task
from fedjax_fair.errors import UserError
from fedjax_fair.metrics.reductions import ABSURD_LOSS, count_classes, masked_average, most_likely
from fedjax_fair.ops.entropy import cross_entropy
from fedjax_fair.options import chosen
from fedjax_fair.registry import register

SMOOTH = 1e-5
Loss = Literal['joint', 'ce', 'dice', 'joint_batch', 'dice_batch']
LOSSES: tuple[str, ...] = typing.get_args(Loss)
Score = Literal['dice', 'dice_with_background']
SCORES: dict[Score, str] = {
    'dice': 'Dice of the foreground: mean over images of the mean over classes without the background; a class that '
    'neither prediction nor truth has counts as 1',
    'dice_with_background': 'Dice as HarmoFL computes it: mean over images and all classes, background included; a '
    'class that neither prediction nor truth has counts as 0',
}


def pixel_cross_entropy(logits: Array, y: Array) -> Array:
    """Mean cross-entropy over the pixels of each image: ``logits[B, H, W, K]`` and ``y[B, H, W]`` give ``[B]``."""
    losses = cross_entropy(logits, y)
    return losses.mean(tuple(range(1, losses.ndim)))


SUMS: dict[str, Callable[[Array, Array], Array]] = {  # of numbers [B, K] of images, of which some are real
    'image': lambda values, real: values,
    'batch': lambda values, real: jnp.broadcast_to(real @ values, values.shape),
}


def dice_loss(logits: Array, y: Array, mask: Array | None = None, over: str = 'image') -> Array:
    """``1 - mean_k (2 sum p_k y_k + s) / (sum p_k + sum y_k + s)``: ``[B]``, with softmax ``p`` and ``s = 1e-5``.

    ``over='image'`` sums over the pixels of each image. ``over='batch'`` sums over all real images of the batch, as
    HarmoFL's code does, and every image is given the same loss: their mean is the loss of the batch.
    """
    summed = chosen('over', over, SUMS)
    p = jax.nn.softmax(logits)
    truth = jax.nn.one_hot(y.astype(jnp.int32), logits.shape[-1], dtype=p.dtype)
    pixels = tuple(range(1, y.ndim))
    both, total = (p * truth).sum(pixels), p.sum(pixels) + truth.sum(pixels)  # [B, K]
    real = jnp.ones(y.shape[:1], p.dtype) if mask is None else mask.astype(p.dtype)
    both, total = (summed(v, real) for v in (both, total))
    return 1 - ((2 * both + SMOOTH) / (total + SMOOTH)).mean(-1)


def _joint(logits: Array, y: Array, mask: Array | None, over: str) -> Array:
    return (pixel_cross_entropy(logits, y) + dice_loss(logits, y, mask, over)) / 2


LOSS_FUNCTIONS: dict[str, Callable[[Array, Array, Array | None, str], Array]] = {
    'ce': lambda logits, y, mask, over: pixel_cross_entropy(logits, y),
    'dice': dice_loss,
    'joint': _joint,
}


def overlap(predictions: Array, y: Array, num_classes: int, empty: float = 0.0) -> tuple[Array, Array]:
    """Dice and IoU of every image and class, ``[B, K]`` each.

    ``dice = 2 |P & Y| / (|P| + |Y| + 1e-5)`` and ``iou = |P & Y| / (|P or Y| + 1e-5)``. A class that neither the
    prediction nor the truth has counts as ``empty``: 0 as in HarmoFL's code; 1 rewards saying nothing where there is
    nothing; NaN leaves it open.

    >>> dice, iou = overlap(jnp.array([[[0, 1], [1, 1]]]), jnp.array([[[0, 0], [1, 1]]]), 2)
    >>> [round(float(v), 3) for v in (*dice[0], *iou[0])]
    [0.667, 0.8, 0.5, 0.667]
    """
    said, truth = (jax.nn.one_hot(v, num_classes, dtype=jnp.float32) for v in (predictions, y.astype(jnp.int32)))
    pixels = tuple(range(1, y.ndim))
    both, total = (said * truth).sum(pixels), said.sum(pixels) + truth.sum(pixels)
    dice, iou = 2 * both / (total + SMOOTH), both / (total - both + SMOOTH)
    return jnp.where(total > 0, dice, empty), jnp.where(total > 0, iou, empty)


def of_images(overlaps: Any, score: str = 'dice') -> Any:
    """One number per image from the Dice (or IoU) of its classes ``[..., K]``, NaN where a class is nowhere.

    >>> dice = jnp.array([[0.9, 0.5, jnp.nan]])
    >>> [round(float(of_images(dice, score)[0]), 3) for score in SCORES]
    [0.75, 0.467]
    """
    arrays: Any = np if isinstance(overlaps, np.ndarray) else jnp
    if score == 'dice':
        return arrays.where(arrays.isnan(overlaps), 1, overlaps)[..., 1:].mean(-1)
    return arrays.where(arrays.isnan(overlaps), 0, overlaps).mean(-1)


@register.task
def segmentation(num_classes: int, loss: Loss = 'joint', score: Score = 'dice') -> Task:
    """A class for every pixel: ``logits[B, H, W, K]``, ``y[B, H, W]`` integers, class 0 the background.

    ``loss`` is ``'ce'`` (pixel cross-entropy), ``'dice'``, or ``'joint'`` = (ce + dice) / 2; ``'dice_batch'`` and
    ``'joint_batch'`` take the Dice of the whole batch at once, as HarmoFL's code does.

    ``metrics`` gives dice (of the foreground: mean over images of the mean over its classes), dice_with_background
    (HarmoFL's number), iou (foreground), accuracy (share of pixels), loss and count. Fairness is about the ``score``,
    one of the two Dice. A class that neither prediction nor truth has counts as 1; in HarmoFL's number as 0.
    """
    if num_classes < 2:
        raise UserError(f'num_classes must be at least 2, got {num_classes}')
    kind, _, batch = loss.partition('_')

    def losses(logits: Array, y: Array, mask: Array | None = None, over: str = batch or 'image') -> Array:
        return LOSS_FUNCTIONS[kind](logits, y, mask, over)

    def record(logits: Array, y: Array) -> dict[str, Array]:
        logits = logits.astype(jnp.float32)
        said = most_likely(logits)
        dice, iou = overlap(said, y, num_classes, empty=jnp.nan)
        pixels = tuple(range(1, y.ndim))
        right = (said == y.astype(said.dtype)).astype(jnp.float32).mean(pixels)
        return {'dice': dice, 'iou': iou, 'accuracy': right, 'loss': losses(logits, y, over='image')}

    def metrics(records: dict[str, Array], y: Array, mask: Array) -> dict[str, Array]:
        return {
            **{name: masked_average(of_images(records['dice'], name), mask) for name in SCORES},
            'iou': masked_average(of_images(records['iou']), mask),
            'accuracy': masked_average(records['accuracy'], mask),
            'loss': masked_average(records['loss'], mask),
            'count': mask.sum().astype(jnp.int32),
        }

    tally, kept = count_classes(num_classes), {'dice': 'dice', 'iou': 'iou'}
    says = most_likely, tally, score, kept, SCORES[score]
    return Task('segmentation', num_classes, losses, record, metrics, *says, absurd_loss=ABSURD_LOSS)
