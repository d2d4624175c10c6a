"""The sharpness kernels: against FedISM's own code, and what they reduce to."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from lab import GOLDEN

from fedjax_fair.ops import gsam_gradient, logit_adjusted_cross_entropy, sam_gradient, sharpness, sharpness_weights

LAYERS = ('fc1_weight', 'fc1_bias', 'fc2_weight', 'fc2_bias')


def golden_steps(name, batch_norm, optimizer):
    """Replay three GSAM steps; yields the direction of the first, and the parameters after and the loss of each."""
    z = np.load(GOLDEN / f'fedism_gsam_{name}.npz')
    names = LAYERS + (('bn_weight', 'bn_bias') if batch_norm else ())
    params = {n: jnp.asarray(z[f'init_{n}']) for n in names}
    state = optimizer.init(params)
    for step in range(3):

        def loss(p, step=step):
            hidden = z['X'][step] @ p['fc1_weight'].T + p['fc1_bias'][None]
            if batch_norm:
                spread = jnp.sqrt(hidden.var(0, keepdims=True) + 1e-5)
                hidden = (hidden - hidden.mean(0, keepdims=True)) / spread * p['bn_weight'][None] + p['bn_bias'][None]
            logits = jnp.tanh(hidden) @ p['fc2_weight'].T + p['fc2_bias'][None]
            return logit_adjusted_cross_entropy(logits, z['Y'][step], z['class_counts'])

        value, direction = gsam_gradient(jax.value_and_grad(loss), params, z['rho'], z['alpha'])
        updates, state = optimizer.update(direction, state, params)
        params = optax.apply_updates(params, updates)
        yield z, names, value, direction, params


@pytest.mark.parametrize(
    ('name', 'batch_norm', 'optimizer'),
    [
        ('mlp_sgd', False, optax.sgd(0.1)),
        ('bn_adam', True, optax.chain(optax.add_decayed_weights(5e-4), optax.adam(3e-4))),
    ],
)
def test_gsam_steps_are_those_of_fedism(name, batch_norm, optimizer):
    with jax.enable_x64(True), jax.numpy_dtype_promotion('standard'):  # optax's Adam mixes types
        for step, (z, names, value, direction, params) in enumerate(golden_steps(name, batch_norm, optimizer)):
            np.testing.assert_allclose(value, z['loss'][step], atol=1e-12)
            for n in names:
                np.testing.assert_allclose(params[n], z[f'after{step}_{n}'], atol=1e-12)
                if step == 0:
                    np.testing.assert_allclose(direction[n], z[f's0_dir_{n}'], atol=1e-12)


def quartic(w):
    return jnp.sum(w['a'] ** 4) + jnp.sum(w['b'] ** 2) + jnp.sum(w['a']) * w['b'][0]


POINT = {'a': jnp.array([0.3, -0.7]), 'b': jnp.array([0.5])}


def test_gsam_without_alpha_is_sam_and_without_rho_the_plain_gradient():
    fn = jax.value_and_grad(quartic)
    value, plain = fn(POINT)
    for got, expected in (
        (gsam_gradient(fn, POINT, 0.2, 0.0), sam_gradient(fn, POINT, 0.2)),
        (gsam_gradient(fn, POINT, 0.0, 0.7), (value, plain)),
    ):
        np.testing.assert_allclose(got[0], value)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), got[1], expected[1])


def test_a_flat_point_gives_no_nan():
    value, direction = gsam_gradient(jax.value_and_grad(lambda w: jnp.sum(w**2)), jnp.zeros(3), 0.1, 0.1)
    assert value == 0 and np.all(np.asarray(direction) == 0)


def test_what_the_value_carries_is_that_of_the_clean_pass():
    def fn(w):
        return (jnp.sum(w**2), {'seen_at': w}), 2 * w

    (value, extra), _ = gsam_gradient(fn, jnp.array([3.0, 4.0]), 0.5, 0.1)
    assert value == 25
    np.testing.assert_array_equal(extra['seen_at'], [3.0, 4.0])


def test_sharpness_is_the_rise_after_a_step_of_length_rho():
    grads = jax.grad(quartic)(POINT)
    step = optax.tree.scale(0.1 / optax.tree.norm(grads), grads)
    expected = quartic(optax.tree.add(POINT, step)) - quartic(POINT)
    for found in (
        sharpness(quartic, POINT, 0.1),
        sharpness(quartic, POINT, 0.1, (quartic(POINT), optax.tree.scale(7.0, grads))),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert sharpness(quartic, POINT, 0.0) == 0


@pytest.mark.parametrize('q', [0.5, 1.0, 2.0, 5.0, 10.0])
def test_weights_are_those_of_fedism(q):
    with jax.enable_x64(True):
        z = np.load(GOLDEN / 'fedism_saga_weights.npz')
        found = jax.vmap(lambda s: sharpness_weights(s, q))(z['sharpness_raw'])
        np.testing.assert_allclose(found, z[f'weights_q{q}_beta1.0'], atol=1e-12)


def test_weights_of_extreme_sharpness_and_masked_clients():
    weights = sharpness_weights(jnp.array([1e-30, 1e3, 5.0, 7.0]), 10.0, jnp.array([True, True, False, True]))
    assert np.all(np.isfinite(weights)) and weights[2] == 0
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(sharpness_weights(jnp.array([-1.0, -5.0, 0.0]), 2.0), [1 / 3] * 3, rtol=1e-6)
    np.testing.assert_allclose(sharpness_weights(jnp.array([3.0, 5.0]), 0.0), [0.5, 0.5])
    assert np.all(np.asarray(sharpness_weights(jnp.ones(2), 1.0, jnp.zeros(2, bool))) == 0)
