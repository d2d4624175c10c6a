"""A whole round, compiled once: who is absent, in which order clients come, how strongly they are pulled."""

import jax
import numpy as np
import pytest
from draws import masks, numbers
from hypothesis import given
from hypothesis import strategies as st
from lab import FEDERATION, SIZES, assert_close, assert_same

from fedjax_fair.core import Local, build
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.data.federation import cohort_of
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.testing import tiny_mlp

CLIENTS = len(SIZES) - 1  # the last one has no examples
RECIPE = 'fedprox+scaffold'  # a penalty, an entry of the server and a row of every client
MU, LR = numbers(0.0, 4.0), numbers(2.0**-10, 0.25)
ORDERS = st.permutations(range(CLIENTS))


def algorithm(mu=0.1, lr=0.1):
    return build(
        tiny_mlp(),
        classification(3),
        make_methods(RECIPE, {'fedprox.mu': mu}),
        sizes=SIZES,
        example=FEDERATION.x[0],
        local=Local(epochs=1, batch_size=4, lr=lr),
        client_map=ClientMap(1),
    )


@pytest.fixture(scope='module')
def world():
    """The compiled round as ``advance(state, mask, order, mu, lr)``, and a state in which every client has a past."""
    data = FEDERATION.arrays()

    @jax.jit
    def round(state, ids, mask, mu, lr):
        return algorithm(mu, lr).round(state, cohort_of(data, ids, mask), jax.random.key(1))[0]

    def advance(state, mask, order=range(CLIENTS), mu=0.1, lr=0.1):
        ids = np.asarray(order, np.int32)
        return jax.device_get(round(state, ids, mask[ids], np.float32(mu), np.float32(lr)))

    return advance, advance(algorithm().init(jax.random.key(0)), np.ones(CLIENTS, bool))


@given(masks(CLIENTS), ORDERS, MU, LR)
def test_rows_of_absent_clients_stay_and_the_order_changes_nothing(world, mask, order, mu, lr):
    advance, before = world
    after = advance(before, mask, mu=mu, lr=lr)
    absent = np.flatnonzero(~np.append(mask, False))
    assert_same(*(jax.tree.map(lambda leaf: leaf[absent], state.clients) for state in (before, after)))
    np.testing.assert_array_equal(after.seen - before.seen, np.append(mask, False))
    assert_close(advance(before, mask, order, mu, lr), after)


@given(ORDERS, MU, LR)
def test_a_round_without_clients_changes_nothing(world, order, mu, lr):
    advance, before = world
    after = advance(before, np.zeros(CLIENTS, bool), order, mu, lr)
    assert_same(after._replace(round=before.round), before)
