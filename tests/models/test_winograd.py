"""Winograd's algorithms equal the definition of a convolution, in values and in every derivative."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax import lax

from fedjax_fair.models.winograd import F2, F4, winograd, winograd_pooled

SAME = ((1, 1), (1, 1))


def definition(algorithm, pads, x, kernel):
    return lax.conv_general_dilated(x, kernel, (1, 1), pads, dimension_numbers=('NHWC', 'HWIO', 'NHWC'))


def output_and_gradients(conv, algorithm, pads, shape, features):
    """In one jitted program, for random inputs and a random linear functional of the output."""
    draw = functools.partial(jax.random.normal, dtype=jnp.zeros(0).dtype)
    x, kernel = draw(jax.random.key(0), shape), draw(jax.random.key(1), (3, 3, shape[-1], features))

    def run(x, kernel):
        y, pull = jax.vjp(functools.partial(conv, algorithm, pads), x, kernel)
        return y, *pull(draw(jax.random.key(2), y.shape))

    return jax.jit(run)(x, kernel)


def relative_errors(got, expected):
    return [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(got, expected, strict=True)]


@pytest.mark.parametrize('algorithm', [F2, F4], ids=['F2', 'F4'])
def test_the_matrices_compute_a_correlation(algorithm):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=len(algorithm.input[0])), rng.normal(size=3)
    products = (np.array(algorithm.kernel) @ w) * (np.array(algorithm.input) @ x)
    expected = [x[i : i + 3] @ w for i in range(len(algorithm.output))]
    np.testing.assert_allclose(np.array(algorithm.output) @ products, expected, atol=1e-12)


@pytest.mark.parametrize(
    ('algorithm', 'shape', 'pads'),
    [
        (F2, (2, 4, 4, 3), SAME),
        (F2, (1, 5, 3, 2), ((0, 2), (1, 0))),
        (F4, (2, 8, 8, 3), SAME),
        (F4, (1, 9, 7, 2), ((0, 0), (2, 1))),
    ],
)
def test_equals_the_definition_in_double_precision(algorithm, shape, pads):
    with jax.enable_x64(True):
        got = output_and_gradients(winograd, algorithm, pads, shape, 4)
        expected = output_and_gradients(definition, algorithm, pads, shape, 4)
    assert max(relative_errors(got, expected)) < 1e-13


@pytest.mark.parametrize(
    ('algorithm', 'shape', 'features', 'tolerance'),
    [(F4, (2, 16, 16, 128), 128, 2e-5), (F2, (2, 4, 4, 256), 256, 3e-6)],
)
def test_single_precision_at_the_shapes_of_a_resnet(algorithm, shape, features, tolerance):
    got = output_and_gradients(winograd, algorithm, SAME, shape, features)
    expected = output_and_gradients(definition, algorithm, SAME, shape, features)
    assert max(relative_errors(got, expected)) < tolerance


@pytest.mark.parametrize(('algorithm', 'shape'), [(F2, (2, 4, 6, 3)), (F4, (2, 9, 11, 3))])
def test_pooling_on_the_way_equals_pooling_afterwards(algorithm, shape):
    def afterwards(*args):
        return nn.max_pool(definition(*args), (2, 2), (2, 2))

    with jax.enable_x64(True):
        got = output_and_gradients(winograd_pooled, algorithm, SAME, shape, 4)
        expected = output_and_gradients(afterwards, algorithm, SAME, shape, 4)
    assert max(relative_errors(got, expected)) < 1e-13


def test_second_derivatives_in_reverse_mode():
    def squared_gradient(conv, x, kernel):
        loss = lambda k: jnp.sum(jnp.tanh(conv(F2, SAME, x, k)))  # noqa: E731
        return jnp.sum(jnp.square(jax.grad(loss)(kernel)))

    with jax.enable_x64(True):
        x, kernel = (
            jax.random.normal(jax.random.key(0), (2, 4, 4, 2)),
            jax.random.normal(jax.random.key(1), (3, 3, 2, 3)),
        )
        got, expected = (
            jax.jit(jax.grad(functools.partial(squared_gradient, conv), 1))(x, kernel)
            for conv in (winograd, definition)
        )
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
