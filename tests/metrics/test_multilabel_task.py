"""Multi-label classification against scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss, roc_auc_score

from fedjax_fair.metrics import label_aucs, multilabel

RNG = np.random.default_rng(0)
LOGITS = np.round(RNG.normal(size=(40, 3)), 1).astype(np.float32)  # rounded: there are ties
Y = RNG.integers(2, size=(40, 3)).astype(np.int32)
MASK = np.arange(40) < 30


def test_metrics_equal_scikit_learns_on_the_real_examples():
    task = multilabel(3)
    found = jax.jit(lambda z, y, m: task.metrics(task.record(z, y), y, m))(LOGITS, Y, MASK)
    y, logits = Y[MASK], LOGITS[MASK]
    said = logits > 0
    np.testing.assert_allclose(found['auc'], roc_auc_score(y, logits, average='macro'), rtol=1e-5)
    np.testing.assert_allclose(found['f1'], f1_score(y, said, average='macro'), rtol=1e-5)
    np.testing.assert_allclose(found['accuracy'], (said == y).mean(), rtol=1e-5)
    np.testing.assert_allclose(found['exact'], (said == y).all(1).mean(), rtol=1e-5)
    p = 1 / (1 + np.exp(-logits.astype(np.float64)))
    np.testing.assert_allclose(found['loss'], np.mean([log_loss(y[:, k], p[:, k]) for k in range(3)]), rtol=1e-5)
    assert task.score == 'auc'


def test_a_label_that_all_or_none_have_has_no_auc():
    y = Y.copy()
    y[:, 0], y[:, 1] = 0, 1
    aucs = np.asarray(label_aucs(jnp.asarray(LOGITS), jnp.asarray(y), jnp.asarray(MASK)))
    assert np.isnan(aucs[:2]).all()
    np.testing.assert_allclose(aucs[2], roc_auc_score(Y[MASK][:, 2], LOGITS[MASK][:, 2]), rtol=1e-5)


def test_labels_are_counted():
    got = multilabel(3).tally(jnp.asarray(Y), jnp.asarray(MASK)[:, None])
    np.testing.assert_array_equal(got, Y[MASK].sum(0))


def test_mistakes():
    with pytest.raises(ValueError, match='num_classes must be at least 1, got 0'):
        multilabel(0)
