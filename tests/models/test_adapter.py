"""Users' linen modules become models, whatever their keywords and outputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from fedjax_fair.models import from_linen

KEY, OTHER = jax.random.split(jax.random.key(0))
X = jax.random.normal(KEY, (8, 4))
MASK = jnp.arange(8) < 6


class Plain(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(x)


class WithFeatures(nn.Module):
    @nn.compact
    def __call__(self, x):
        z = nn.relu(nn.Dense(5)(x))
        return nn.Dense(3)(z), z


class FlaxBatchNorm(nn.Module):
    @nn.compact
    def __call__(self, x, use_running_average, mask):
        norm = nn.BatchNorm(use_running_average=use_running_average, momentum=0.9)
        return nn.Dense(3)(norm(x, mask=jnp.broadcast_to(mask[:, None], x.shape)))


class TrainDropout(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        return nn.Dropout(0.5)(x, deterministic=not train)


class TrainingDropout(nn.Module):
    @nn.compact
    def __call__(self, x, *, training=False):
        return nn.Dropout(0.5)(x, deterministic=not training)


class DeterministicDropout(nn.Module):
    @nn.compact
    def __call__(self, x, deterministic=True):
        return nn.Dropout(0.5)(x, deterministic=deterministic)


def test_logits_alone_serve_as_features():
    model = from_linen(Plain())
    variables = model.init(KEY, X)
    assert variables['batch_stats'] == {}
    out = model.apply(variables, X, MASK, True, KEY)
    dense = variables['params']['Dense_0']
    np.testing.assert_allclose(out.logits, X @ dense['kernel'] + dense['bias'][None], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(out.features, out.logits)
    assert out.batch_stats == {}


def test_features_are_kept_when_returned():
    model = from_linen(WithFeatures(), name='mine')
    out = model.apply(model.init(KEY, X), X, MASK, False, KEY)
    assert (out.logits.shape, out.features.shape, model.name) == ((8, 3), (8, 5), 'mine')


@pytest.mark.parametrize('module', [TrainDropout(), TrainingDropout(), DeterministicDropout()])
def test_dropout_follows_the_mode_and_the_key(module):
    model = from_linen(module)
    variables = model.init(KEY, X)
    first, again, other = (model.apply(variables, X, MASK, True, k).logits for k in (KEY, KEY, OTHER))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    assert set(np.unique(np.round(first / X, 4))) == {0, 2}
    np.testing.assert_array_equal(model.apply(variables, X, MASK, False, KEY).logits, X)


def test_batch_statistics_move_in_training_only_and_without_padding():
    model = from_linen(FlaxBatchNorm())
    variables = model.init(KEY, X)
    in_eval = model.apply(variables, X, MASK, False, KEY).batch_stats
    assert in_eval is variables['batch_stats']
    moved = model.apply(variables, X, MASK, True, KEY).batch_stats['BatchNorm_0']['mean']
    np.testing.assert_allclose(moved, 0.1 * X[:6].mean(0), rtol=1e-5, atol=1e-7)


def test_apply_is_pure_under_jit_and_vmap():
    model = from_linen(FlaxBatchNorm())
    stacked = jax.vmap(lambda k: model.init(k, X))(jax.random.split(KEY, 3))
    out = jax.jit(jax.vmap(lambda v: model.apply(v, X, MASK, True, KEY)))(stacked)
    one = model.apply(jax.tree.map(lambda a: a[1], stacked), X, MASK, True, KEY)
    np.testing.assert_allclose(out.logits[1], one.logits, rtol=1e-5, atol=1e-6)


def test_integer_inputs_are_refused():
    with pytest.raises(ValueError, match='x has dtype uint8; a model takes floating-point inputs'):
        from_linen(Plain()).init(KEY, jnp.ones((1, 4), jnp.uint8))


def test_other_collections_are_refused():
    class Cached(nn.Module):
        @nn.compact
        def __call__(self, x):
            self.variable('cache', 'last', lambda: x)
            return x

    with pytest.raises(ValueError, match=r"variables in \['cache'\]; only params and batch_stats"):
        from_linen(Cached()).init(KEY, X)


def test_three_outputs_are_refused():
    class Three(nn.Module):
        def __call__(self, x):
            return x, x, x

    with pytest.raises(ValueError, match=r'tuple of 3; return logits or \(logits, features\)'):
        from_linen(Three()).apply({'params': {}, 'batch_stats': {}}, X, MASK, False, KEY)
