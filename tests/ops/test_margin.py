"""Margin control and the proximal term: published values and gradients, padding, special cases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import GOLDEN

from fedjax_fair.ops import margin_loss, margin_penalty, proximal_term


@pytest.mark.parametrize(('kind', 'source'), [('logits', 'paper'), ('softmax_batch', 'authors')])
@pytest.mark.parametrize('x64', [True, False])
def test_published_values_and_gradients(kind, source, x64):
    z = np.load(GOLDEN / 'fedld_margin_loss.npz')
    close = {'rtol': 1e-10, 'atol': 1e-12} if x64 else {'rtol': 2e-5, 'atol': 5e-6}
    with jax.enable_x64(x64):
        logits, lams = jnp.asarray(z['logits'], float), jnp.asarray(z['lams'], float)
        value, grad = jax.vmap(
            jax.value_and_grad(lambda f, lam: margin_loss(f, jnp.asarray(z['labels']), lam, kind)), (None, 0)
        )(logits, lams)
        np.testing.assert_allclose(value, z[f'{source}_value'], **close)
        np.testing.assert_allclose(grad, z[f'{source}_grad_logits'], **close)
        np.testing.assert_allclose(margin_loss(logits, jnp.asarray(z['labels']), 0.0, kind), z['ce'], **close)


@pytest.mark.parametrize('kind', ['logits', 'softmax_batch', 'squared'])
def test_padding_changes_nothing(kind):
    logits = jax.random.normal(jax.random.key(0), (4, 3))
    labels = jnp.array([0, 2, 1, 1])
    padded = jnp.concatenate([logits, jnp.full((2, 3), jnp.nan)])
    mask = jnp.arange(6) < 4

    def loss(f):
        return margin_loss(jnp.where(jnp.isnan(f), 7.0, f), jnp.pad(labels, (0, 2)), 0.3, kind, mask)

    value, grad = jax.value_and_grad(loss)(padded)
    plain = jax.value_and_grad(lambda f: margin_loss(f, labels, 0.3, kind))(logits)
    np.testing.assert_allclose(value, plain[0], rtol=1e-6)
    np.testing.assert_allclose(grad[:4], plain[1], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(grad[4:], 0)


def test_the_squared_penalty_is_the_mean_square_and_pixels_are_averaged():
    logits = jax.random.normal(jax.random.key(1), (2, 5, 3))
    np.testing.assert_allclose(margin_penalty(logits, 'squared'), jnp.mean(jnp.sum(logits**2, -1)), rtol=1e-6)
    with pytest.raises(ValueError, match="kind='damp' is not one of 'logits', 'softmax_batch', 'squared'"):
        margin_penalty(logits, 'damp')


def test_both_proximal_terms():
    """The squared one grows with the distance; the other has slope ``mu`` per tensor, and none at the centre."""
    w = {'a': jnp.array([[1.0, 2.0], [0.0, -1.0]]), 'b': jnp.array([2.0])}
    centre = {'a': jnp.array([[0.0, 2.0], [0.0, 1.0]]), 'b': jnp.array([2.0])}
    away = np.array([[1.0, 0.0], [0.0, -2.0]])
    value, grad = jax.value_and_grad(proximal_term)(w, centre, 0.4)
    assert float(value) == pytest.approx(0.2 * 5)
    np.testing.assert_allclose(grad['a'], 0.4 * away, rtol=1e-6)
    value, grad = jax.value_and_grad(lambda w: proximal_term(w, centre, 0.4, 'norms'))(w)
    assert float(value) == pytest.approx(0.4 * np.sqrt(5))
    np.testing.assert_allclose(grad['a'], 0.4 * away / np.sqrt(5), rtol=1e-6)
    np.testing.assert_array_equal(grad['b'], 0)
    with pytest.raises(ValueError, match="kind='cubed' is not one of 'squared', 'norms'"):
        proximal_term(w, centre, 0.4, 'cubed')
