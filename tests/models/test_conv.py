"""The convolution equals ``nn.Conv`` in every implementation, and its CPU form holds no XLA convolution."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from fedjax_fair.core.platform import machine, made_for
from fedjax_fair.models import conv as conv_lib
from fedjax_fair.models.adapter import from_linen
from fedjax_fair.models.conv import IMPLEMENTATIONS, Conv, conv2d, with_conv

CASES = [  # height, width, kernel, strides, padding
    (8, 8, 1, 1, 'SAME'),
    (9, 7, 1, 2, 0),
    (8, 8, 3, 1, 'SAME'),
    (9, 7, 3, 2, 'SAME'),
    (8, 8, 3, 2, 1),
    (7, 10, 3, 2, ((0, 1), (2, 1))),
    (9, 9, 5, 1, 'VALID'),
    (8, 7, 5, 1, 'VALID'),
    (7, 8, 4, 1, ((1, 2), (0, 3))),
    (6, 9, 3, 1, 'VALID'),
    (8, 11, 5, 2, (2, 1)),
    (9, 8, 7, 1, 'SAME'),
    (11, 9, 7, 2, 3),
]


def value_and_grads(f, x, kernel):
    """The output, and gradients of a random linear functional of it."""
    y, pull = jax.vjp(f, x, kernel)
    return y, *pull(jax.random.normal(jax.random.key(7), y.shape, y.dtype))


def reference(kernel, strides, padding):
    layer = nn.Conv(kernel.shape[-1], kernel.shape[:2], strides, padding, use_bias=False)
    return lambda x, k: layer.apply({'params': {'kernel': k}}, x)


def all_implementations(strides, padding):
    """``(x, kernel) -> {name: (output, gradients)}``, with ``nn.Conv`` under the name 'flax'."""

    def run(x, kernel):
        ours = {n: lambda x, k, n=n: conv2d(x, k, strides, padding, n) for n in IMPLEMENTATIONS}
        functions = {**ours, 'flax': reference(kernel, strides, padding)}
        return {name: value_and_grads(f, x, kernel) for name, f in functions.items()}

    return run


def assert_all_equal_flax(results):
    for name in IMPLEMENTATIONS:
        for ours, theirs in zip(results[name], results['flax'], strict=True):
            # Winograd's sums pass through larger numbers: its errors are relative to the largest output.
            scale = np.abs(theirs).max() if name == 'winograd' else 1
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-5 * scale, err_msg=name)


@pytest.mark.parametrize(('height', 'width', 'size', 'strides', 'padding'), CASES)
def test_equals_nn_conv(height, width, size, strides, padding):
    x = jax.random.normal(jax.random.key(0), (2, height, width, 3))
    kernel = jax.random.normal(jax.random.key(1), (size, size, 3, 4))
    assert_all_equal_flax(jax.jit(all_implementations(strides, padding))(x, kernel))


@pytest.mark.parametrize(('height', 'width', 'size', 'padding'), [(8, 8, 3, 1), (9, 7, 5, 0), (7, 10, 4, 'SAME')])
def test_pooling_inside_a_folded_convolution_changes_nothing(height, width, size, padding):
    x = jax.random.normal(jax.random.key(0), (2, height, width, 3))
    kernel = jax.random.normal(jax.random.key(1), (size, size, 3, 4))

    def run(implementation):
        pooled = lambda x, k: conv2d(x, k, 1, padding, implementation, pool=True)  # noqa: E731
        return jax.jit(lambda x, k: value_and_grads(pooled, x, k))(x, kernel)

    for ours, plain in zip(run('folded'), run('exact'), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=2e-5)


def test_a_kernel_per_client_under_vmap():
    x = jax.random.normal(jax.random.key(0), (3, 2, 9, 8, 4))
    kernels = jax.random.normal(jax.random.key(1), (3, 3, 3, 4, 5))
    run = all_implementations(1, 1)
    together = jax.jit(jax.vmap(run))(x, kernels)
    one_by_one = jax.jit(lambda x, k: jax.lax.map(lambda a: run(*a)['flax'], (x, k)))(x, kernels)
    assert_all_equal_flax({**together, 'flax': one_by_one})


def test_layer_has_the_parameters_of_nn_conv():
    x = jax.random.normal(jax.random.key(0), (2, 6, 5, 3))
    for bias in (True, False):
        ours, theirs = Conv(4, (3, 5), 2, use_bias=bias), nn.Conv(4, (3, 5), 2, use_bias=bias)
        variables = jax.eval_shape(theirs.init, jax.random.key(1), x)
        assert jax.eval_shape(ours.init, jax.random.key(1), x) == variables
        variables = jax.tree.map(lambda a: jnp.linspace(-1, 1, a.size).reshape(a.shape), variables)
        np.testing.assert_allclose(ours.apply(variables, x), theirs.apply(variables, x), rtol=1e-5, atol=1e-5)


def test_a_pooling_layer_is_convolution_bias_and_max_pool():
    x = jax.random.normal(jax.random.key(0), (2, 7, 6, 3))
    variables = Conv(4, 3).init(jax.random.key(1), x)
    variables = jax.tree.map(lambda a: jnp.linspace(-1, 1, a.size).reshape(a.shape), variables)
    expected = nn.max_pool(Conv(4, 3).apply(variables, x), (2, 2), (2, 2))
    np.testing.assert_allclose(Conv(4, 3, pool=True).apply(variables, x), expected, rtol=1e-5, atol=1e-5)


def test_hessian_vector_products_by_forward_over_reverse():
    x = jax.random.normal(jax.random.key(0), (2, 6, 6, 3))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 3, 4))

    def hessian_vector(implementation):
        loss = lambda k: jnp.sum(jnp.tanh(conv2d(x, k, 1, 'SAME', implementation)))  # noqa: E731
        return jax.jit(lambda k: jax.jvp(jax.grad(loss), (k,), (k,))[1])(kernel)

    for name in ('patches', 'folded'):
        np.testing.assert_allclose(hessian_vector(name), hessian_vector('exact'), rtol=1e-4, atol=1e-4)


def trained_in_scan(conv):
    """Three gradient steps inside ``lax.scan``, of a model that computes by ``conv``."""
    model = with_conv(from_linen(Conv(4, 3, use_bias=False)), conv)

    def train(x, kernel):
        def loss(kernel):
            variables = {'params': {'kernel': kernel}, 'batch_stats': {}}
            logits = model.apply(variables, x, jnp.ones(len(x), bool), False, jax.random.key(0)).logits
            return jnp.sum(jnp.square(logits))

        return jax.lax.scan(lambda kernel, _: (kernel - 0.1 * jax.grad(loss)(kernel), None), kernel, None, length=3)[0]

    return train


def compiled_convolutions(f, *args):
    return len(
        re.findall(r'\bconvolution\(|__\$?(?:onednn\$)?conv|EigenConv', jax.jit(f).lower(*args).compile().as_text())
    )


def test_cpu_training_loop_holds_no_xla_convolution():
    train = trained_in_scan('auto')
    for channels in (3, 16):  # patches and Winograd
        x, kernel = jnp.ones((2, 8, 8, channels)), jnp.ones((3, 3, channels, 4))
        assert compiled_convolutions(train, x, kernel) == 0
        assert compiled_convolutions(jax.vmap(train), x[None], kernel[None]) == 0
    # The same search finds them when they are there: beside each other, models compute each in its own way.
    assert compiled_convolutions(trained_in_scan('exact'), x, kernel) > 0
    assert compiled_convolutions(train, x, kernel) == 0


def used(monkeypatch, model, x):
    """Implementations that one evaluation of a model calls."""
    names = []
    for name, function in IMPLEMENTATIONS.items():
        spy = lambda *args, name=name, function=function: names.append(name) or function(*args)  # noqa: E731
        monkeypatch.setitem(IMPLEMENTATIONS, name, spy)
    variables = model.init(jax.random.key(0), x)
    names.clear()
    model.apply(variables, x, jnp.ones(len(x), bool), False, jax.random.key(0))
    return names


@pytest.mark.parametrize('conv', IMPLEMENTATIONS)
def test_a_model_computes_by_its_own_implementation(conv, monkeypatch):
    x, layer = jnp.ones((2, 8, 8, 3)), from_linen(Conv(4, 3))
    assert used(monkeypatch, with_conv(layer, conv), x)[0] == conv
    assert used(monkeypatch, layer, x)[0] == 'folded'  # nothing is left of it


def test_a_model_that_fails_leaves_no_setting_behind(monkeypatch):
    x, layer = jnp.ones((2, 8, 8, 3)), from_linen(Conv(4, 3))
    with pytest.raises(ValueError, match='dtype'):
        with_conv(layer, 'exact').init(jax.random.key(0), jnp.ones((2, 8, 8, 3), int))
    assert used(monkeypatch, layer, x)[0] == 'folded'


def test_accelerators_use_the_native_convolution():
    with made_for(machine()._replace(name='tpu')):
        assert conv_lib.choose((3, 3, 64, 64), (1, 1)) == 'exact'


def test_thin_layers_are_folded_on_cpu():
    assert conv_lib.choose((5, 5, 3, 6), (1, 1)) == 'folded'
    assert conv_lib.choose((5, 5, 3, 6), (2, 2)) == 'patches'
    assert conv_lib.choose((1, 1, 3, 6), (1, 1)) == 'patches'
    assert conv_lib.choose((3, 3, 64, 64), (1, 1)) == 'winograd'


def test_mistakes_name_the_choices():
    x, kernel = jnp.ones((1, 4, 4, 1)), jnp.ones((5, 5, 1, 1))
    with pytest.raises(ValueError, match='conv=fast is not one of auto, exact, patches'):
        with_conv(from_linen(Conv(4, 3)), 'fast')
    with pytest.raises(ValueError, match="implementation='fast' is not one of 'exact', 'patches'"):
        conv2d(x, kernel, implementation='fast')
    with pytest.raises(ValueError, match=r"padding='CIRCULAR'.*SAME, VALID"):
        conv2d(x, kernel, padding='CIRCULAR')
    with pytest.raises(ValueError, match=r'kernel_size=\(5, 5\) does not fit'):
        conv2d(x, kernel, padding='VALID')
