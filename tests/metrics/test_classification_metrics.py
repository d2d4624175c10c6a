"""Classification metrics against scikit-learn, brute force and golden vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import GOLDEN
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, roc_auc_score

from fedjax_fair import metrics


def softmax(logits):
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def sample(seed, size=150, classes=4, digits=None):
    """Informative random probabilities; rounding the logits makes ties."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, size, p=np.arange(1, classes + 1) / np.arange(1, classes + 1).sum())
    logits = rng.normal(size=(size, classes)) + np.eye(classes)[labels]
    logits = logits if digits is None else logits.round(digits)
    return jnp.asarray(softmax(logits), jnp.float32), jnp.asarray(labels, jnp.int32)


def reference(scores, labels, kind):
    return roc_auc_score(np.asarray(labels), np.asarray(scores, np.float64), multi_class=kind, average='macro')


AUC = {'ovo': metrics.auc_ovo_macro, 'ovr': metrics.auc_ovr_macro}


@pytest.mark.parametrize('kind', AUC)
@pytest.mark.parametrize('digits', [None, 0])
def test_auc_agrees_with_scikit_learn(kind, digits):
    for seed in range(4):
        scores, labels = sample(seed, digits=digits)
        found = AUC[kind](scores, labels, jnp.ones(len(labels), bool))
        np.testing.assert_allclose(found, reference(scores, labels, kind), atol=1e-6)


@pytest.mark.parametrize('kind', AUC)
def test_auc_of_two_classes_is_the_ordinary_one(kind):
    scores, labels = sample(0, classes=2, digits=1)
    found = AUC[kind](scores, labels, jnp.ones(len(labels), bool))
    np.testing.assert_allclose(found, roc_auc_score(np.asarray(labels), np.asarray(scores)[:, 1]), atol=1e-6)


@pytest.mark.parametrize('kind', AUC)
def test_auc_ignores_masked_examples_whatever_they_hold(kind):
    scores, labels = sample(1, digits=1)
    mask = jnp.arange(len(labels)) % 3 > 0
    padded = jnp.where(mask[:, None], scores, jnp.nan), jnp.where(mask, labels, 0)
    expected = reference(scores[mask], labels[mask], kind)
    np.testing.assert_allclose(AUC[kind](*padded, mask), expected, atol=1e-6)


@pytest.mark.parametrize('kind', AUC)
def test_absent_classes_drop_out(kind):
    scores, labels = sample(2, classes=3)
    wide = jnp.insert(scores, 1, 0.5, axis=1)  # a class between the others that no example belongs to
    found = AUC[kind](wide, jnp.where(labels > 0, labels + 1, 0), jnp.ones(len(labels), bool))
    np.testing.assert_allclose(found, reference(scores, labels, kind), atol=1e-6)


@pytest.mark.parametrize('kind', AUC)
def test_auc_of_fewer_than_two_classes_is_undefined(kind):
    scores, labels = sample(3)
    assert jnp.isnan(AUC[kind](scores, labels, labels == 1))
    assert jnp.isnan(AUC[kind](scores, labels, jnp.zeros(len(labels), bool)))
    assert jnp.isfinite(AUC[kind](scores, labels, labels < 2))


@pytest.mark.parametrize('kind', AUC)
def test_auc_depends_on_ranks_alone(kind):
    scores, labels = sample(4)
    mask, order = jnp.ones(len(labels), bool), np.random.default_rng(0).permutation(len(labels))
    expected = AUC[kind](scores, labels, mask)
    np.testing.assert_allclose(AUC[kind](jnp.log(scores) * 3 - 1, labels, mask), expected, atol=1e-6)
    np.testing.assert_allclose(AUC[kind](scores[order], labels[order], mask), expected, atol=1e-6)


@pytest.mark.parametrize('kind', AUC)
def test_scores_without_information_are_at_chance(kind):
    _, labels = sample(5)
    for value in (0.25, jnp.nan):
        scores = jnp.full((len(labels), 4), value, jnp.float32)
        np.testing.assert_allclose(AUC[kind](scores, labels, jnp.ones(len(labels), bool)), 0.5, atol=1e-6)


def test_pair_wins_counts_pairs():
    scores, labels = sample(6, size=40, classes=3, digits=0)
    mask = jnp.arange(40) < 33
    s, y = np.asarray(scores)[:33], np.asarray(labels)[:33]
    expected = np.zeros((3, 3))
    for a in range(3):
        above, below = s[y == a, a][:, None], [s[y == b, a][None, :] for b in range(3)]
        expected[a] = [(above > other).sum() + (above == other).sum() / 2 for other in below]
    wins, counts = metrics.pair_wins(scores, labels, mask)
    np.testing.assert_array_equal(wins, expected)
    np.testing.assert_array_equal(counts, np.bincount(y, minlength=3))


def test_confusion_and_what_follows_agree_with_scikit_learn():
    scores, labels = sample(7)
    predictions, mask = jnp.argmax(scores, 1), jnp.arange(len(labels)) < 90
    y, p = np.asarray(labels)[:90], np.asarray(predictions)[:90]
    matrix = metrics.confusion(predictions, labels, mask, 4)
    np.testing.assert_array_equal(matrix, confusion_matrix(y, p, labels=range(4)))
    np.testing.assert_allclose(metrics.accuracy(matrix), (y == p).mean(), rtol=1e-6)
    np.testing.assert_allclose(metrics.balanced_accuracy(matrix), balanced_accuracy_score(y, p), rtol=1e-6)


def test_balanced_accuracy_counts_present_classes_alone():
    matrix = jnp.array([[3, 1, 0], [0, 0, 0], [0, 1, 1]], jnp.int32)
    np.testing.assert_allclose(metrics.balanced_accuracy(matrix), (3 / 4 + 1 / 2) / 2)
    assert jnp.isnan(metrics.balanced_accuracy(jnp.zeros((3, 3), jnp.int32)))
    assert jnp.isnan(metrics.accuracy(jnp.zeros((3, 3), jnp.int32)))


def test_golden_evaluation_of_fedism():
    golden = np.load(GOLDEN / 'fedism_eval.npz')
    logits, labels = jnp.asarray(golden['logits'], jnp.float32), jnp.asarray(golden['targets'], jnp.int32)
    mask = jnp.ones(len(labels), bool)
    matrix = metrics.confusion(jnp.argmax(logits, 1), labels, mask, 5)
    prob = jax.nn.softmax(logits)
    np.testing.assert_array_equal(matrix, golden['cm'])
    np.testing.assert_allclose(metrics.accuracy(matrix), golden['acc'], atol=1e-6)
    np.testing.assert_allclose(metrics.balanced_accuracy(matrix), golden['bacc'], atol=1e-6)
    np.testing.assert_allclose(metrics.auc_ovo_macro(prob, labels, mask), golden['bauc'], atol=1e-6)
    np.testing.assert_allclose(metrics.auc_ovr_macro(prob, labels, mask), golden['auc_ovr_macro'], atol=1e-6)
