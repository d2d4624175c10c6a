"""The network and clients of the golden vectors of WenkeHuang/MarsFL, and local training in the stored order."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from lab import GOLDEN

from fedjax_fair.core import Local, Model, Output, build
from fedjax_fair.core import local as training
from fedjax_fair.data.federation import Federation, index_table, stack_tests
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification

MARSFL = np.load(GOLDEN / 'marsfl_local_training.npz')
LOCAL = Local(
    epochs=int(MARSFL['local_epoch']),
    batch_size=5,
    lr=float(MARSFL['lr']),
    momentum=float(MARSFL['momentum']),
    weight_decay=float(MARSFL['weight_decay']),
)


def unflatten(w):
    return {'W1': w[..., :24].reshape(6, 4), 'b1': w[..., 24:30], 'W2': w[..., 30:48].reshape(3, 6), 'b2': w[..., 48:]}


def flatten(params):
    """``[..., 51]``, whatever leading axes the leaves have."""
    lead = np.shape(params['b1'])[:-1]
    return np.concatenate([np.asarray(params[k]).reshape(*lead, -1) for k in ('W1', 'b1', 'W2', 'b2')], -1)


def apply(variables, x, mask, train, key):
    p = variables['params']
    features = jax.nn.relu(x @ p['W1'].T + p['b1'][None])
    return Output(features @ p['W2'].T + p['b2'][None], features, {})


NET = Model(lambda key, x: {'params': unflatten(jnp.asarray(MARSFL['w0'])), 'batch_stats': {}}, apply)
X, Y = MARSFL['X'].reshape(60, 4), MARSFL['Y'].reshape(60).astype(np.int32)


def federation(sizes=(15, 15, 15, 15)):
    """The stored examples, cut among clients in order."""
    ends = np.cumsum([0, *sizes])
    index, sizes = index_table([np.arange(a, b) for a, b in itertools.pairwise(ends)])
    tests = stack_tests([(X[:1], Y[:1])], [0] * len(sizes), ['none'])
    return Federation('golden', X, Y, index, sizes, tests, 3)


def without_shuffling(monkeypatch):
    in_order = lambda key, ex_mask, epochs, width: jnp.tile(jnp.arange(width)[None], (epochs, 1))  # noqa: E731
    monkeypatch.setattr(training, 'shuffles', in_order)


def algorithm(recipe, hyper=None, data=None, local=LOCAL, rounds=1):
    data = federation() if data is None else data
    methods = make_methods(recipe, hyper)
    facts = dict(sizes=data.sizes, example=data.x[0], local=local, rounds=rounds, client_map='vmap')
    return build(NET, classification(3), methods, **facts)


def states(recipe, hyper, cohorts, data=None, local=LOCAL):
    """The states after rounds with these cohorts, one program: absent clients are empty slots."""
    data = federation() if data is None else data
    chosen, many = algorithm(recipe, hyper, data, local), len(data.sizes)
    step, state, found = jax.jit(chosen.round), chosen.init(jax.random.key(0)), []
    for ids in cohorts:
        slots = [*ids, *[many] * (many - len(ids))]
        state, _ = step(state, data.cohort(slots), jax.random.key(1))
        found.append(state)
    return found
