"""bfloat16 compute with float32 state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.core import Local, build
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.models import in_precision, make_model
from fedjax_fair.models.conv import choose
from fedjax_fair.testing import tiny_federation, tiny_mlp

KEY = jax.random.key(0)


def trained(model):
    data = tiny_federation()
    algorithm = build(
        model, classification(3), make_methods('fedavg'), sizes=data.sizes, example=data.x[0],
        local=Local(epochs=2, batch_size=8, lr=0.1),
    )  # fmt: skip
    state, step = algorithm.init(KEY), jax.jit(algorithm.round)
    for _ in range(5):
        state, metrics = step(state, data.cohort(range(data.num_clients)), KEY)
    return state, float(metrics['train_loss'])


def test_training_matches_float32_loosely_and_keeps_float32_state():
    model = make_model('mlp', 3, widths=(8,))
    full, loss = trained(model)
    half, half_loss = trained(in_precision(model, 'bfloat16'))
    assert {leaf.dtype for leaf in jax.tree.leaves(half.variables)} == {jnp.dtype('float32')}
    assert abs(half_loss - loss) < 0.05
    moved = np.abs(np.concatenate([np.ravel(a - b) for a, b in zip(*map(jax.tree.leaves, (half, full)), strict=True)]))
    assert 0 < moved.max() < 0.1


@pytest.mark.parametrize('norm', ['batch', 'group', 'stateless'])
def test_convolutions_compute_in_bfloat16_and_norms_reduce_in_float32(norm):
    model = make_model('cnn', 3, norm=norm, widths=(4,))
    x, mask = jax.random.normal(KEY, (4, 8, 8, 3)), jnp.ones(4, bool)
    variables = model.init(KEY, x)
    half = in_precision(model, 'bfloat16')
    full, rounded = (m.apply(variables, x, mask, True, KEY) for m in (model, half))
    assert {leaf.dtype for leaf in jax.tree.leaves(rounded)} == {jnp.dtype('float32')}
    assert 0 < np.abs(rounded.logits - full.logits).max() < 0.1
    text = str(jax.make_jaxpr(lambda v: half.apply(v, x, mask, True, KEY).logits)(variables))
    assert 'bf16[4,8,8' in text
    assert not any('reduce_sum' in line and ':bf16' in line for line in text.splitlines())


def test_fast_convolutions_are_left_to_full_precision():
    assert choose((3, 3, 64, 64), (1, 1), jnp.dtype('float32')) == 'winograd'
    assert choose((3, 3, 64, 64), (1, 1), jnp.dtype('bfloat16')) != 'winograd'


def test_float32_is_the_model_itself():
    model = tiny_mlp()
    assert in_precision(model, 'float32') is model
    with pytest.raises(ValueError, match='precision=float16 is not one of float32, bfloat16'):
        in_precision(model, 'float16')
