"""Three ways to run a cohort give the same numbers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import assert_close

from fedjax_fair.core import Local, build
from fedjax_fair.core.client_map import (
    ClientMap,
    client_mesh,
    deal,
    fit,
    map_sum,
    resolve,
    row_of,
    shared_max,
    within_memory,
)
from fedjax_fair.data.federation import Federation, index_table, stack_tests
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.models import make_model

MAPS = {
    'vmap': ClientMap(),
    'chunked': ClientMap(3),
    'one by one': ClientMap(1),
    'sharded': ClientMap(None, client_mesh(4)),
    'sharded one by one': ClientMap(1, client_mesh(4)),
}


@pytest.mark.parametrize('client_map', MAPS.values(), ids=MAPS)
def test_map_sum_adds_summands_and_stacks_outputs(client_map):
    fitted, slots = fit(client_map, 12)
    assert slots == 12
    clients = jnp.arange(12.0)
    fn = lambda scale, c: (scale * c, {'double': 2 * c})  # noqa: E731
    total, outputs = map_sum(fitted, fn, jnp.asarray(0.0), jnp.asarray(10.0), clients)
    assert float(total) == 10 * clients.sum()
    np.testing.assert_array_equal(outputs['double'], 2 * clients)


def test_fit_makes_even_chunks():
    assert fit(ClientMap(8), 10) == (ClientMap(5), 10)
    assert fit(ClientMap(8), 17)[1] == 18
    assert fit(ClientMap(None), 7) == (ClientMap(7), 7)
    assert fit(ClientMap(1, client_mesh(4)), 10)[1] == 12


def test_deal_sorts_by_length_and_shares_the_long_ones():
    work = jnp.asarray([1, 9, 3, 8, 2, 7])
    assert work[deal(work, ClientMap(2))].tolist() == [9, 8, 7, 3, 2, 1]
    dealt = work[deal(work, ClientMap(1, client_mesh(2)))].reshape(2, 3)
    assert dealt.tolist() == [[9, 7, 2], [8, 3, 1]]


def test_lanes_read_their_own_rows_without_a_gather():
    table, numbers = jnp.arange(24).reshape(2, 4, 3), jnp.array([3, 1])
    ways = [((0, 0), table, numbers), ((None, 0), table[0], numbers), ((0, None), table, 2)]
    for axes, rows, number in ways:
        read = jax.jit(jax.vmap(row_of, axes))
        expected = jax.vmap(lambda t, i: t[i], axes)(rows, jnp.asarray(number))
        np.testing.assert_array_equal(read(rows, number), expected)
        assert 'gather' not in read.lower(rows, number).as_text()
    np.testing.assert_array_equal(row_of(table, jnp.asarray(1)), table[1])


def test_shared_max_is_one_number_for_all_lanes():
    def lane(count):
        return jax.lax.fori_loop(0, shared_max(count), lambda i, total: total + jnp.int32(i < count), 0), shared_max(
            count
        )

    for mapped in (jax.vmap(lane), jax.jit(jax.vmap(lane))):
        total, bound = mapped(jnp.asarray([3, 7, 5]))
        np.testing.assert_array_equal(total, [3, 7, 5])
        np.testing.assert_array_equal(bound, 7)
    nested = jax.vmap(jax.vmap(lane))(jnp.asarray([[1, 2], [4, 3]]))
    np.testing.assert_array_equal(nested[0], [[1, 2], [4, 3]])
    text = jax.jit(jax.vmap(lane)).lower(jnp.asarray([3, 7, 5])).as_text()
    condition = text[text.index('cond {') : text.index('} do')]
    assert 'tensor<3x' not in condition, 'the loop condition must not be batched'


def images(sizes=(9, 4, 6, 5, 3)):
    rng = np.random.default_rng(0)
    total = sum(sizes)
    x, y = rng.integers(0, 255, (total, 16, 16, 3), np.uint8), rng.integers(0, 3, total).astype(np.int32)
    ends = np.cumsum([0, *sizes])
    index, counts = index_table([np.arange(a, b) for a, b in itertools.pairwise(ends)])
    return Federation('images', x, y, index, counts, stack_tests([(x, y)], [0] * len(sizes), ['all']), 3)


@pytest.mark.parametrize('name', ['cnn', 'lenet'])
def test_convolution_networks_with_batch_norm_agree_over_one_round(name):
    data, outcomes = images(), {}
    for label in ('vmap', 'one by one', 'sharded one by one'):
        run = build(
            make_model(name, 3, 'batch'),
            classification(3),
            make_methods('fedprox'),
            sizes=data.sizes,
            example=data.x[0],
            local=Local(epochs=1, batch_size=4, lr=0.05, momentum=0.9),
            client_map=MAPS[label],
        )
        state, _ = jax.jit(run.round)(run.init(jax.random.key(0)), data.cohort(range(5)), jax.random.key(1))
        outcomes[label] = jax.device_get(state.variables)
    assert_close(outcomes['one by one'], outcomes['vmap'], 1e-5)
    assert_close(outcomes['sharded one by one'], outcomes['vmap'], 1e-5)


def test_all_at_once_becomes_chunks_where_memory_is_short():
    everyone, mesh = ClientMap(), client_mesh(2)
    assert within_memory(everyone, 1000, 100, None) == everyone
    assert within_memory(everyone, 1000, 100, 2 * 6 * 1000 * 100) == everyone
    assert within_memory(everyone, 1000, 100, 2 * 6 * 1000 * 30) == ClientMap(30)
    assert within_memory(ClientMap(None, mesh), 1000, 100, 2 * 6 * 1000 * 50) == ClientMap(None, mesh)
    assert within_memory(everyone, 1000, 100, 1) == ClientMap(1)
    assert within_memory(ClientMap(7), 1000, 100, 1) == ClientMap(7)


def test_resolve_names_the_choice_and_refuses_nonsense():
    assert resolve('vmap') == ClientMap()
    assert resolve('chunked', chunk=3).describe() == 'chunked by 3'
    assert resolve('auto', devices=1) == ClientMap(1)
    assert resolve('auto').describe() == 'sharded over 4 devices, chunked by 1 on each'
    for arguments, message in (
        ({'kind': 'pmap'}, "client_map='pmap' is not one of auto, vmap, chunked, sharded"),
        ({'kind': 'auto', 'devices': 9}, 'devices=9 is not between 1 and the 4 available'),
        ({'kind': 'chunked', 'chunk': 0}, 'chunk=0 must be at least 1'),
    ):
        with pytest.raises(ValueError, match=message):
            resolve(**arguments)
