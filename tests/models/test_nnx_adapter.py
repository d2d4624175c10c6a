"""nnx modules in the engine: batch norm, dropout, lists of layers, training end to end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from fedjax_fair.core import Local, build
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.models import from_nnx
from fedjax_fair.testing import tiny_federation

KEY = jax.random.key(0)


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, rate: float = 0.0, norm: bool = True):
        self.layers = nnx.List([nnx.Linear(4, 8, rngs=rngs), nnx.Linear(8, 8, rngs=rngs)])
        self.norm = nnx.BatchNorm(8, rngs=rngs) if norm else None
        self.dropout = nnx.Dropout(rate, rngs=rngs)
        self.head = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x, mask):
        x = self.layers[0](x)
        x = x if self.norm is None else self.norm(x, mask=jnp.broadcast_to(mask[:, None], x.shape))
        x = nnx.relu(self.layers[1](self.dropout(nnx.relu(x))))
        return self.head(x), x


def variables_of(model):
    return model.init(KEY, jnp.zeros((2, 4)))


def test_variables_are_plain_nested_dicts_with_string_keys():
    variables = variables_of(from_nnx(lambda rngs: Net(rngs)))
    assert variables['params']['layers']['0']['kernel'].shape == (4, 8)
    assert set(variables['batch_stats']['norm']) == {'mean', 'var'}
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(variables))


def test_equals_the_module_itself():
    model = from_nnx(lambda rngs: Net(rngs))
    module = Net(nnx.Rngs(KEY))
    module.eval()
    x = jax.random.normal(KEY, (5, 4))
    out = model.apply(variables_of(model), x, jnp.ones(5, bool), False, KEY)
    logits, features = module(x, jnp.ones(5, bool))
    np.testing.assert_allclose(out.logits, logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out.features, features, rtol=1e-5, atol=1e-6)


def test_statistics_change_in_training_only_and_ignore_padding():
    model = from_nnx(lambda rngs: Net(rngs))
    variables, mask = variables_of(model), jnp.arange(6) < 4
    x = jax.random.normal(KEY, (6, 4))
    clean, dirty = (model.apply(variables, v, mask, True, KEY).batch_stats for v in (x, x.at[4:].set(100.0)))
    assert np.any(clean['norm']['mean'] != variables['batch_stats']['norm']['mean'])
    np.testing.assert_allclose(dirty['norm']['mean'], clean['norm']['mean'], rtol=1e-5, atol=1e-6)
    kept = model.apply(variables, x, mask, False, KEY).batch_stats
    np.testing.assert_array_equal(kept['norm']['mean'], variables['batch_stats']['norm']['mean'])


def test_dropout_follows_the_key_in_training_and_is_off_in_evaluation():
    model = from_nnx(lambda rngs: Net(rngs, rate=0.5, norm=False))
    variables, x, mask = variables_of(model), jnp.ones((3, 4)), jnp.ones(3, bool)

    def logits(train, key):
        return np.asarray(model.apply(variables, x, mask, train, key).logits)

    assert np.any(logits(True, KEY) != logits(True, jax.random.key(1)))
    np.testing.assert_array_equal(logits(True, KEY), logits(True, KEY))
    np.testing.assert_array_equal(logits(False, KEY), logits(False, jax.random.key(1)))


def test_trains_in_a_federation():
    data = tiny_federation()
    algorithm = build(
        from_nnx(lambda rngs: Net(rngs, rate=0.1)), classification(3), make_methods('fedavg'), sizes=data.sizes,
        example=data.x[0], local=Local(epochs=2, batch_size=8, lr=0.1),
    )  # fmt: skip
    state, step = algorithm.init(KEY), jax.jit(algorithm.round)
    losses = []
    for _ in range(6):
        state, metrics = step(state, data.cohort(range(data.num_clients)), KEY)
        losses.append(float(metrics['train_loss']))
    assert losses[-1] < 0.7 * losses[0]


def test_other_variables_are_refused():
    class Counting(nnx.Module):
        def __init__(self, rngs):
            self.linear, self.count = nnx.Linear(4, 3, rngs=rngs), nnx.Variable(jnp.zeros(()))

        def __call__(self, x):
            return self.linear(x)

    with pytest.raises(ValueError, match='variables of type Variable; only Param and BatchStat'):
        from_nnx(lambda rngs: Counting(rngs))
