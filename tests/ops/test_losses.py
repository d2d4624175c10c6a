"""Logit adjustment: FedISM's numbers, absent classes, and no adjustment at all."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from lab import GOLDEN

from fedjax_fair.ops import logit_adjusted_cross_entropy


@pytest.mark.parametrize('kind', ['full', 'zero'])
def test_value_and_gradient_are_those_of_fedism(kind):
    with jax.enable_x64(True):
        z = np.load(GOLDEN / 'fedism_logit_adjust.npz')
        fn = jax.jit(jax.value_and_grad(logit_adjusted_cross_entropy))
        loss, grad = fn(jnp.asarray(z['logits']), z['targets'], z[f'counts_{kind}'])
        np.testing.assert_allclose(loss, z[f'loss_{kind}'], atol=1e-12)
        np.testing.assert_allclose(grad, z[f'grad_{kind}'], atol=1e-12)
        absent = z[f'counts_{kind}'] == 0
        assert np.all(np.asarray(grad)[:, absent] == 0)


def test_without_tau_it_is_plain_cross_entropy_over_all_classes():
    logits, labels = jax.random.normal(jax.random.key(0), (5, 3)), jnp.array([0, 1, 2, 1, 0])
    got = logit_adjusted_cross_entropy(logits, labels, jnp.array([4, 0, 1]), tau=0.0)
    np.testing.assert_allclose(got, optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), rtol=1e-6)


def test_masked_examples_do_not_count():
    logits, labels, counts = jax.random.normal(jax.random.key(0), (5, 3)), jnp.array([0, 1, 2, 1, 0]), jnp.ones(3)
    whole = logit_adjusted_cross_entropy(logits[:3], labels[:3], counts)
    masked = logit_adjusted_cross_entropy(logits, labels, counts, mask=jnp.arange(5) < 3)
    np.testing.assert_allclose(masked, whole, rtol=1e-6)
