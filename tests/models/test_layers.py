"""Pooling and initialisation against independent references."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from fedjax_fair.core.platform import Platform, machine, made_for
from fedjax_fair.models.layers import UpConv, linear, torch_uniform
from fedjax_fair.models.linear import dot_general, matmul
from fedjax_fair.models.pooling import average_pool, global_average_pool, max_pool, max_pool_stem

TPU = Platform('tpu', machine().devices[:1])


def flax_pool(x):
    return nn.max_pool(x, (2, 2), (2, 2))


@pytest.mark.parametrize('shape', [(2, 8, 6, 3), (2, 7, 9, 3)])
def test_max_pool_equals_flaxs_with_gradients(shape):
    x = jax.random.normal(jax.random.key(0), shape)  # continuous values: no ties

    def both(x):
        (ours, our_pull), (theirs, their_pull) = (jax.vjp(f, x) for f in (max_pool, flax_pool))
        weights = jax.random.normal(jax.random.key(1), ours.shape)
        return (ours, *our_pull(weights)), (theirs, *their_pull(weights))

    jax.tree.map(np.testing.assert_array_equal, *jax.jit(both)(x))


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_max_pool_of_accelerators_equals_that_of_cpu_in_all_derivatives(dtype):
    """For every client under vmap: values, gradients, tangents, and products with the Hessian."""
    x = jax.random.normal(jax.random.key(0), (3, 2, 7, 6, 4)).astype(dtype)
    loss = lambda x: jnp.sum(jnp.sin(max_pool(x)))  # noqa: E731

    def all_of(x):
        values, tangents = jax.jvp(max_pool, (x,), (jnp.cos(x),))
        return values, tangents, jax.grad(loss)(x), jax.grad(lambda x: jnp.vdot(jax.grad(loss)(x), jnp.cos(x)))(x)

    results = []
    for platform in (None, TPU):
        with made_for(platform):
            results.append(jax.jit(jax.vmap(all_of))(x))
            assert ('reduce_window' in str(jax.make_jaxpr(max_pool)(x[0]))) == (platform is TPU)
    close = lambda a, b: np.testing.assert_allclose(a.astype('float32'), b.astype('float32'), atol=1e-6)  # noqa: E731
    jax.tree.map(close, *results)


@pytest.mark.parametrize('shape', [(2, 8, 6, 3), (2, 7, 9, 3)])
def test_the_stems_max_pool_equals_flaxs_with_gradients(shape):
    x = jax.random.normal(jax.random.key(0), shape)

    def both(x):
        theirs = lambda x: nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))  # noqa: E731
        weights = jax.random.normal(jax.random.key(1), jax.eval_shape(theirs, x).shape)
        return tuple(jax.value_and_grad(lambda x, f=f: (weights * f(x)).sum())(x) for f in (max_pool_stem, theirs))

    (ours, slope), (expected, their_slope) = jax.jit(both)(x)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    np.testing.assert_allclose(slope, their_slope, rtol=1e-6)


def test_of_tied_maxima_one_has_the_gradient():
    slope = jax.grad(lambda x: max_pool(x).sum())(jnp.zeros((1, 4, 4, 1)))[0, :, :, 0]
    np.testing.assert_array_equal(slope, np.tile([[1.0, 0.0], [0.0, 0.0]], (2, 2)))


def test_average_pool_is_the_mean_of_windows():
    x = jax.random.normal(jax.random.key(0), (2, 5, 6, 3))
    expected = [[np.asarray(x)[:, i : i + 2, j : j + 2].mean((1, 2)) for j in (0, 2, 4)] for i in (0, 2)]
    np.testing.assert_allclose(
        average_pool(x), np.stack([np.stack(row, 1) for row in expected], 1), rtol=1e-5, atol=1e-6
    )


def test_upsampling_is_the_transposed_convolution():
    x = jax.random.normal(jax.random.key(0), (2, 3, 4, 5))
    layer = UpConv(6)
    variables = layer.init(jax.random.key(1), x)
    kernel, bias = variables['params']['kernel'], variables['params']['bias']
    expected = jax.lax.conv_transpose(
        x, kernel[::-1, ::-1], (2, 2), 'VALID', dimension_numbers=('NHWC', 'HWIO', 'NHWC')
    )
    flipped = jax.lax.conv_transpose(x, kernel, (2, 2), 'VALID', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
    y = layer.apply(variables, x) - bias.reshape(1, 1, 1, -1)
    square = np.asarray(jnp.einsum('i,pqio->pqo', x[0, 0, 0], kernel))  # the definition, for the first pixel
    np.testing.assert_allclose(y[0, :2, :2], square, rtol=1e-4, atol=1e-5)
    assert any(np.allclose(y, e, atol=1e-4) for e in (expected, flipped))


def test_global_average_pool():
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype(np.float32)
    np.testing.assert_allclose(global_average_pool(jnp.asarray(x)), x.mean((1, 2)), rtol=1e-5, atol=1e-6)


def test_initialisation_is_uniform_within_one_over_root_fan_in():
    draw = np.asarray(torch_uniform(25)(jax.random.key(0), (20_000,), jnp.float32))
    assert -0.2 <= draw.min() < -0.199
    assert 0.199 < draw.max() <= 0.2
    np.testing.assert_allclose(draw.std(), 0.2 / np.sqrt(3), rtol=0.02)


@pytest.mark.parametrize('implementation', [matmul, lambda x, w: dot_general(x, w, (((1,), (0,)), ((), ())))])
def test_the_matmul_of_layers_differentiates_as_any_other(implementation):
    x, w = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(4, 7), (7, 3)]))

    def derivatives(product):
        loss = lambda x, w: jnp.sum(jnp.tanh(product(x, w)))  # noqa: E731
        gradient = jax.grad(loss, (0, 1))
        return loss(x, w), gradient(x, w), jax.jvp(gradient, (x, w), (x, w)), jax.vmap(gradient)(x[None], w[None])

    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    jax.tree.map(close, derivatives(implementation), derivatives(jnp.matmul))


def test_linear_draws_weights_and_bias_from_the_same_law():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return linear(x, 500, name='layer')

    params = Net().init(jax.random.key(0), jnp.ones((1, 100)))['params']['layer']
    for leaf in (params['kernel'], params['bias']):
        assert 0.099 < np.abs(leaf).max() <= 0.1
