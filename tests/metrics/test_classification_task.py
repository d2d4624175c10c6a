"""The classification task: per-example facts, and metrics that jit, vmap and ignore padding."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import log_loss

from fedjax_fair import metrics

TASK = metrics.classification(3)


def examples(seed, size=60):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, size)
    return jnp.asarray(rng.normal(size=(size, 3)) + np.eye(3)[y], jnp.float32), jnp.asarray(y, jnp.int32)


@jax.jit
def measure(logits, y, mask):
    return TASK.metrics(TASK.record(logits, y), y, mask)


def test_losses_are_cross_entropy_and_differentiable():
    logits, y = examples(0)
    prob = np.asarray(jax.nn.softmax(logits))
    np.testing.assert_allclose(TASK.losses(logits, y).mean(), log_loss(np.asarray(y), prob), rtol=1e-5)
    gradient = jax.grad(lambda z: TASK.losses(z, y).sum())(logits)
    np.testing.assert_allclose(gradient, prob - np.eye(3)[np.asarray(y)], atol=1e-6)


def test_record_gives_facts_of_each_example():
    logits, y = examples(1)
    facts = TASK.record(logits.astype(jnp.bfloat16), y)
    assert facts['prob'].dtype == facts['loss'].dtype == jnp.float32
    np.testing.assert_allclose(facts['prob'].sum(1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(facts['prediction'], jnp.argmax(logits.astype(jnp.bfloat16), 1))
    np.testing.assert_allclose(facts['loss'], -jnp.log(facts['prob'][jnp.arange(60), y]), rtol=1e-4)


def test_metrics_equal_those_of_the_real_examples():
    logits, y = examples(2)
    mask = jnp.arange(60) < 41
    noisy = jnp.where(mask[:, None], logits, jnp.nan)
    padded, real = measure(noisy, y, mask), measure(logits[:41], y[:41], jnp.ones(41, bool))
    assert padded.keys() == real.keys()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), padded, real)
    prob = jax.nn.softmax(logits[:41])
    assert int(padded['count']) == 41
    np.testing.assert_allclose(padded['auc_ovo'], metrics.auc_ovo_macro(prob, y[:41], jnp.ones(41, bool)), rtol=1e-6)
    np.testing.assert_allclose(padded['auc_ovr'], metrics.auc_ovr_macro(prob, y[:41], jnp.ones(41, bool)), rtol=1e-6)
    np.testing.assert_allclose(padded['accuracy'], np.mean(np.argmax(logits[:41], 1) == y[:41]), rtol=1e-6)


def test_metrics_vmap_over_test_sets():
    sets = [examples(seed) for seed in (3, 4)]
    logits, y = (jnp.stack([s[k] for s in sets]) for k in (0, 1))
    mask = jnp.arange(60)[None, :] < jnp.array([[25], [60]])
    together = jax.jit(jax.vmap(measure))(logits, y, mask)
    assert together['confusion'].shape == (2, 3, 3)
    for row in range(2):
        alone = measure(logits[row], y[row], mask[row])
        jax.tree.map(lambda a, b, row=row: np.testing.assert_allclose(a[row], b, rtol=1e-5), together, alone)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match='num_classes must be at least 2, got 1'):
        metrics.classification(1)


def test_kernels_of_methods_stand_below_metrics():
    code = "import fedjax_fair.ops, sys; sys.exit('fedjax_fair.metrics' in sys.modules)"
    assert subprocess.run([sys.executable, '-c', code], timeout=120).returncode == 0
