"""Segmentation: losses and overlaps against NumPy written from the formulas, masks, empty classes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.errors import UserError
from fedjax_fair.metrics import TASKS, dice_loss, make_task, overlap, pixel_cross_entropy, segmentation

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(3, 4, 5, 2)).astype(np.float32)
Y = RNG.integers(2, size=(3, 4, 5)).astype(np.uint8)
MASK = np.array([True, True, False])


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def reference_dice(p, y):
    """HarmoFL's loss: sums over everything it is given, classes averaged."""
    terms = []
    for k in range(p.shape[-1]):
        truth = y == k
        terms.append((2 * (p[..., k] * truth).sum() + 1e-5) / (p[..., k].sum() + truth.sum() + 1e-5))
    return 1 - np.mean(terms)


def reference_ce(logits, y):
    p = softmax(logits)
    return -np.log(np.take_along_axis(p, y[..., None].astype(int), -1)).mean()


def test_losses_of_single_images():
    for i in range(3):
        expected = reference_dice(softmax(LOGITS[i]), Y[i]), reference_ce(LOGITS[i], Y[i])
        got = dice_loss(LOGITS, Y)[i], pixel_cross_entropy(LOGITS, jnp.asarray(Y))[i]
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_the_joint_loss_of_a_batch_is_harmofls():
    """(pixel-mean cross-entropy + Dice over the whole batch) / 2, padding left out."""
    losses = segmentation(2, 'joint_batch').losses(jnp.asarray(LOGITS), jnp.asarray(Y), jnp.asarray(MASK))
    real = LOGITS[:2], Y[:2]
    expected = (reference_ce(*real) + reference_dice(softmax(real[0]), real[1])) / 2
    np.testing.assert_allclose(np.asarray(losses)[MASK].mean(), expected, rtol=1e-5)


def test_losses_by_name():
    found = {name: segmentation(2, name).losses(LOGITS, jnp.asarray(Y), MASK) for name in ('ce', 'dice', 'joint')}
    np.testing.assert_allclose(found['joint'], (found['ce'] + found['dice']) / 2, rtol=1e-6)
    np.testing.assert_allclose(found['dice'], dice_loss(LOGITS, Y), rtol=1e-6)


def test_a_perfect_prediction_has_no_dice_loss_and_full_overlap():
    certain = 50 * jax.nn.one_hot(Y, 2)
    np.testing.assert_allclose(dice_loss(certain, Y), 0, atol=1e-5)
    for values in overlap(jnp.asarray(Y), jnp.asarray(Y), 2):
        np.testing.assert_allclose(values, 1, atol=1e-5)


def test_overlap_counts_pixels():
    said, truth = np.array([[[1, 1, 0, 0]]]), np.array([[[1, 0, 0, 0]]])
    dice, iou = overlap(jnp.asarray(said), jnp.asarray(truth), 2)
    np.testing.assert_allclose(dice[0], [2 * 2 / 5, 2 * 1 / 3], rtol=1e-4)
    np.testing.assert_allclose(iou[0], [2 / 3, 1 / 2], rtol=1e-4)


@pytest.mark.parametrize('empty', [0.0, 1.0])
def test_a_class_that_nobody_sees_counts_as_empty(empty):
    nothing = jnp.zeros((1, 2, 2), jnp.int32)
    for values in overlap(nothing, nothing, 2, empty):
        np.testing.assert_allclose(values[0], [1, empty], atol=1e-4)


def test_metrics_are_means_over_real_images_and_classes():
    task = segmentation(2)
    y, mask = jnp.asarray(Y), jnp.asarray(MASK)
    found = jax.jit(lambda z: task.metrics(task.record(z, y), y, mask))(LOGITS)
    said = LOGITS.argmax(-1)
    dice = np.array([[2 * ((said[i] == k) & (Y[i] == k)).sum() / ((said[i] == k).sum() + (Y[i] == k).sum() + 1e-5)
                      for k in (0, 1)] for i in (0, 1)])  # fmt: skip
    np.testing.assert_allclose(found['dice'], dice[:, 1].mean(), rtol=1e-5)
    np.testing.assert_allclose(found['dice_with_background'], dice.mean(), rtol=1e-5)
    np.testing.assert_allclose(found['accuracy'], (said[:2] == Y[:2]).mean(), rtol=1e-5)
    np.testing.assert_allclose(found['loss'], task.losses(LOGITS, y)[:2].mean(), rtol=1e-5)
    assert int(found['count']) == 2
    assert task.score == 'dice'


def test_what_is_nowhere_and_not_found_is_right_in_the_foreground_and_nothing_in_harmofls_dice():
    task, nothing = segmentation(3), jnp.zeros((1, 2, 2), jnp.int32)
    logits = jax.nn.one_hot(nothing, 3)
    records = task.record(logits, nothing)
    np.testing.assert_array_equal(np.isnan(records['dice'][0]), [False, True, True])
    found = task.metrics(records, nothing, jnp.ones(1, bool))
    assert (float(found['dice']), float(found['iou'])) == (1, 1)
    assert float(found['dice_with_background']) == pytest.approx(1 / 3, rel=1e-4)
    wrong = task.metrics(task.record(jax.nn.one_hot(nothing + 1, 3), nothing), nothing, jnp.ones(1, bool))
    assert float(wrong['dice']) == 0.5  # class 1 was found where it is not, class 2 was not


def test_the_score_may_be_harmofls():
    assert make_task('segmentation', 2, score='dice_with_background').score == 'dice_with_background'
    assert 'background included' in segmentation(2, score='dice_with_background').about
    with pytest.raises(UserError, match=r'^score=dice does not apply to task=classification'):
        make_task('classification', 2, score='dice')


def test_classes_are_counted_by_pixel():
    task = segmentation(3)
    got = task.tally(jnp.asarray(Y), jnp.asarray(MASK)[:, None, None])
    np.testing.assert_array_equal(got, np.bincount(Y[:2].ravel(), minlength=3))


def test_mistakes():
    with pytest.raises(ValueError, match=r"^loss='focal' is not one of 'joint', 'ce', 'dice'"):
        make_task('segmentation', 2, 'focal')
    with pytest.raises(UserError, match=r"segmentation\.loss='focal' is not one of 'joint'"):
        segmentation(2, loss='focal')
    with pytest.raises(ValueError, match=r'^loss=ce does not apply to task=classification'):
        make_task('classification', 2, 'ce')
    with pytest.raises(ValueError, match=r'^task=detection is not one of classification'):
        make_task('detection', 2)
    with pytest.raises(ValueError, match="over='pixel' is not one of 'image', 'batch'"):
        dice_loss(LOGITS, Y, over='pixel')


def test_a_task_that_is_registered_can_be_made_at_once(monkeypatch):
    with pytest.raises(UserError, match='ranking'):
        make_task('ranking', 3)
    monkeypatch.setitem(TASKS, 'ranking', lambda num_classes: segmentation(num_classes)._replace(name='ranking'))
    assert make_task('ranking', 3).name == 'ranking'
