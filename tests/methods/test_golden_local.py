"""Local training against MarsFL's trainers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import GOLDEN

from fedjax_fair.core import Local, Model, Output, build
from fedjax_fair.core import local as training
from fedjax_fair.data.federation import Federation, index_table, stack_tests
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification

MARSFL = np.load(GOLDEN / 'marsfl_local_training.npz')


def unflatten(w):
    return {'W1': w[:24].reshape(6, 4), 'b1': w[24:30], 'W2': w[30:48].reshape(3, 6), 'b2': w[48:]}


def apply(variables, x, mask, train, key):
    p = variables['params']
    features = jax.nn.relu(x @ p['W1'].T + p['b1'][None])
    return Output(features @ p['W2'].T + p['b2'][None], features, {})


NET = Model(lambda key, x: {'params': unflatten(jnp.asarray(MARSFL['w0'])), 'batch_stats': {}}, apply)


def federation():
    x, y = MARSFL['X'].reshape(60, 4), MARSFL['Y'].reshape(60).astype(np.int32)
    index, sizes = index_table(np.arange(60).reshape(4, 15))
    return Federation('golden', x, y, index, sizes, stack_tests([(x[:1], y[:1])], [0] * 4, ['none']), 3)


@pytest.mark.parametrize(
    ('recipe', 'hyper', 'expected'),
    [
        ('fedavg', {}, 'fedavg_w'),
        ('fedprox', {'fedprox.mu': 1e-4}, 'fedprox_w_mu0.01'),
        ('fedprox', {'fedprox.mu': 1.0}, 'fedprox_w_mu100_effective1'),
        ('moon', {'moon.mu': 1.0, 'moon.temperature': 0.5}, 'moon_w'),
    ],
)
def test_local_training_of_marsfl(recipe, hyper, expected, monkeypatch):
    in_order = lambda key, ex_mask, epochs, width: jnp.tile(jnp.arange(width)[None], (epochs, 1))  # noqa: E731
    monkeypatch.setattr(training, 'shuffles', in_order)
    data = federation()
    local = Local(
        epochs=int(MARSFL['local_epoch']),
        batch_size=5,
        lr=float(MARSFL['lr']),
        momentum=float(MARSFL['momentum']),
        weight_decay=float(MARSFL['weight_decay']),
    )
    methods = make_methods(recipe, hyper)
    algorithm = build(
        NET, classification(3), methods, sizes=data.sizes, example=data.x[0], local=local, client_map='vmap'
    )
    step, start = jax.jit(algorithm.round), algorithm.init(jax.random.key(0))
    if recipe == 'moon':
        past = {'params': jax.vmap(unflatten)(jnp.asarray(MARSFL['moon_prev_w'])), 'batch_stats': {}}
        start = start._replace(clients={'moon': {'model': past, 'known': jnp.ones(4, bool)}})
    for client in range(4):
        state, _ = step(start, data.cohort([client]), jax.random.key(1))
        for name, value in unflatten(MARSFL[expected][client]).items():
            np.testing.assert_allclose(state.variables['params'][name], value, atol=1e-5, rtol=0, err_msg=name)
