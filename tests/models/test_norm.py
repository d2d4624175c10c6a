"""Normalisation layers against NumPy, and their indifference to padding."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from fedjax_fair.core.platform import Platform, machine, made_for
from fedjax_fair.models.norm import BatchNorm, GroupNorm, StatelessBatchNorm, norm_layer

SHAPES = [(6, 3), (6, 4, 5, 3)]


def torch_batch_norm(batches, scale, bias):
    """PyTorch's training-mode outputs and running statistics, in float64; every batch holds real examples only."""
    mean, var, outputs = np.zeros(3), np.ones(3), []
    for x in batches:
        flat = x.astype(np.float64).reshape(-1, 3)
        outputs.append((x - flat.mean(0)) / np.sqrt(flat.var(0) + 1e-5) * scale + bias)
        mean = 0.9 * mean + 0.1 * flat.mean(0)
        var = 0.9 * var + 0.1 * flat.var(0, ddof=1)
    return outputs, mean, var


def train_step(layer, variables, x, mask):
    y, changed = layer.apply(variables, x, mask, True, mutable=['batch_stats'])
    return y, {**variables, **changed}


@pytest.mark.parametrize('shape', SHAPES)
def test_batch_norm_is_pytorchs_over_masked_batches(shape):
    rng = np.random.default_rng(0)
    batches = [rng.normal(2, 3, shape).astype(np.float32) for _ in range(4)]
    masks = [np.array(m, bool) for m in ([1] * 6, [1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 1], [1, 1, 0, 0, 0, 0])]
    scale, bias = rng.normal(size=3).astype(np.float32), rng.normal(size=3).astype(np.float32)
    expected, mean, var = torch_batch_norm([x[m] for x, m in zip(batches, masks, strict=True)], scale, bias)

    layer = BatchNorm()
    variables = layer.init(jax.random.key(0), batches[0], None, True)
    assert {k: sorted(v) for k, v in variables.items()} == {'params': ['bias', 'scale'], 'batch_stats': ['mean', 'var']}
    variables = {**variables, 'params': {'scale': jnp.asarray(scale), 'bias': jnp.asarray(bias)}}
    for x, mask, y in zip(batches, masks, expected, strict=True):
        got, variables = train_step(layer, variables, x, jnp.asarray(mask))
        np.testing.assert_allclose(got[mask], y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variables['batch_stats']['mean'], mean, rtol=1e-5)
    np.testing.assert_allclose(variables['batch_stats']['var'], var, rtol=1e-5)
    in_eval = layer.apply(variables, batches[0], None, False)
    np.testing.assert_allclose(in_eval, (batches[0] - mean) / np.sqrt(var + 1e-5) * scale + bias, rtol=1e-4, atol=1e-5)


def test_initialisation_does_not_move_the_statistics():
    stats = BatchNorm().init(jax.random.key(0), 7 * jnp.ones((4, 2)), None, True)['batch_stats']
    np.testing.assert_array_equal(stats['mean'], [0, 0])
    np.testing.assert_array_equal(stats['var'], [1, 1])


def assert_trees_close(a, b):
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ('kind', 'garbage'),
    [('batch', 1e6), ('batch', np.nan), ('stateless', 1e6), ('stateless', np.nan), ('group', 1e6), ('none', 1e6)],
)
@pytest.mark.parametrize('shape', SHAPES)
def test_garbage_in_padding_rows_changes_nothing(kind, garbage, shape):
    """Outputs of real rows, running statistics and gradients are those of the batch without padding."""
    layer, x = norm_layer(kind)(), np.random.default_rng(0).normal(size=shape).astype(np.float32)
    variables = layer.init(jax.random.key(0), x, None, False)

    def loss(params, x, mask):
        y, stats = layer.apply({**variables, 'params': params}, x, mask, True, mutable=['batch_stats'])
        return jnp.sum(jnp.sin(y[:6])), (y[:6], stats)

    grad, params = jax.jit(jax.grad(loss, has_aux=True)), variables.get('params', {})
    padded = np.concatenate([x, np.full_like(x, garbage)])
    assert_trees_close(grad(params, padded, jnp.arange(12) < 6), grad(params, x, jnp.ones(6, bool)))


@pytest.mark.parametrize('real', [0, 1])
def test_batches_too_small_for_statistics_leave_them_alone(real):
    layer, x = BatchNorm(), 5 * jax.random.normal(jax.random.key(0), (4, 3))
    variables = layer.init(jax.random.key(0), x, None, True)

    def loss(variables):
        y, moved = train_step(layer, variables, x, jnp.arange(4) < real)
        return jnp.sum(y), moved

    grads, moved = jax.jit(jax.grad(loss, has_aux=True))(variables)
    jax.tree.map(np.testing.assert_array_equal, moved, variables)
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))


@pytest.mark.parametrize('shape', SHAPES)
def test_stateless_norm_uses_the_batch_in_training_and_at_test(shape):
    layer, x = StatelessBatchNorm(), np.random.default_rng(0).normal(2, 3, shape).astype(np.float32)
    assert layer.init(jax.random.key(0), x) == {}
    flat = x.reshape(-1, 3)
    expected = (x - flat.mean(0)) / np.sqrt(flat.var(0) + 1e-5)
    for train in (True, False):
        np.testing.assert_allclose(layer.apply({}, x, None, train), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('platform', [None, Platform('tpu', machine().devices[:1])], ids=['here', 'tpu'])
@pytest.mark.parametrize(('channels', 'groups'), [(64, 32), (6, 2), (48, 16)])
def test_group_norm_equals_flaxs(channels, groups, platform):
    x = 3 + 2 * jax.random.normal(jax.random.key(0), (2, 5, 4, channels))
    variables = {'params': {'scale': jnp.arange(channels, dtype=x.dtype), 'bias': jnp.ones(channels)}}
    theirs = nn.GroupNorm(groups, epsilon=1e-5, use_fast_variance=False)

    def with_gradients(layer, variables, x):
        y, pull = jax.vjp(layer.apply, variables, x)
        return y, *pull(jnp.cos(x))

    with made_for(platform):
        got = jax.jit(functools.partial(with_gradients, GroupNorm()))(variables, x)
    expected = jax.jit(functools.partial(with_gradients, theirs))(variables, x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3), got, expected)


def test_group_norm_keeps_its_digits_far_from_zero():
    x = np.random.default_rng(0).normal(1000, 1, (2, 8, 8, 6)).astype(np.float32)
    parts = x.astype(np.float64).reshape(2, 64, 2, 3)
    expected = (parts - parts.mean((1, 3), keepdims=True)) / parts.std((1, 3), keepdims=True)
    got = GroupNorm().apply({'params': {'scale': jnp.ones(6), 'bias': jnp.zeros(6)}}, x)
    np.testing.assert_allclose(got, expected.reshape(x.shape), atol=1e-3)


def test_unknown_kind_lists_the_choices():
    with pytest.raises(ValueError, match=r'norm=layer is not one of batch, group, none, stateless'):
        norm_layer('layer')
