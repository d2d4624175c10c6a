"""Ordered client maps give the same bytes on any number of devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import IMAGES, KEY, NOBODY, algorithm, assert_same_bytes

from fedjax_fair.core.client_map import ClientMap, client_mesh, deal, fit, in_order, map_sum

WORKERS = (1, 2, 4)


def ordered(workers: int) -> ClientMap:
    return in_order(ClientMap(1, client_mesh(workers)))


@pytest.mark.parametrize('workers', WORKERS)
@pytest.mark.parametrize('count', [1, 4, 7])
def test_sums_are_added_in_the_order_of_the_clients(workers, count):
    """Large and small summands: every other order of additions gives another sum."""
    summands = (
        np.random.default_rng(0).normal(size=(count, 3), scale=10.0 ** np.arange(count)[:, None]).astype(np.float32)
    )
    fn = lambda factor, client: (factor * client, {'twice': 2 * client})  # noqa: E731
    fitted, slots = fit(ordered(workers), count)
    assert slots == count, 'an ordered map needs no empty slots'
    total, outputs = jax.jit(lambda c: map_sum(fitted, fn, jnp.zeros(3), jnp.float32(1), c))(summands)
    expected = np.zeros(3, np.float32)
    for summand in summands:
        expected = expected + summand
    np.testing.assert_array_equal(total, expected)
    np.testing.assert_array_equal(outputs['twice'], 2 * summands)


def test_an_idle_device_runs_no_client():
    """Seven clients on four devices, and two on a mesh of which one device works: nobody runs twice."""
    ran = []

    def fn(_, client):
        jax.debug.callback(lambda number: ran.append(int(number)), client)
        return (), client

    for workers, count in ((4, 7), (1, 2)):
        ran.clear()
        numbers = jnp.arange(count)
        jax.block_until_ready(jax.jit(lambda c, w=workers: map_sum(ordered(w), fn, (), (), c))(numbers))
        jax.effects_barrier()
        assert sorted(ran) == numbers.tolist()


def test_a_mesh_of_one_worker_has_two_devices():
    """XLA compiles programs of one device in another way than those of several."""
    for client_map in (ClientMap(1), ClientMap(4), ClientMap(1, client_mesh(1))):
        found = in_order(client_map)
        assert (found.devices, found.mesh.size, found.chunk) == (1, 2, 1)
    assert ordered(4).devices == ordered(4).mesh.size == 4


def test_waves_deal_long_clients_first_on_any_number_of_devices():
    work = jnp.asarray([1, 9, 3, 8, 2, 7])
    for workers in WORKERS:
        assert work[deal(work, ordered(workers))].tolist() == [9, 8, 7, 3, 2, 1]


# Accumulated updates with probes and rows of clients; stacked ones; personal models; inner products and heads as rows.
RECIPES = ('scaffold+fedism', 'fedheal', 'fedtilt', 'fedpac+fedld')


@pytest.mark.parametrize('recipe', [pytest.param(r, marks=pytest.mark.xdist_group(r)) for r in RECIPES])
def test_rounds_and_evaluations_give_the_same_bytes(recipe):
    """Three rounds of four clients in six places, and what the global model and the clients' own ones score then."""
    outcomes = [jax.device_get(three_rounds(recipe, workers)) for workers in WORKERS]
    for other in outcomes[1:]:
        assert_same_bytes(outcomes[0], other)


def three_rounds(recipe, workers):
    this, cohort = (
        algorithm(recipe, client_map=ordered(workers), data=IMAGES),
        IMAGES.cohort((3, 0, 2, 1, NOBODY, NOBODY)),
    )

    def run(state):
        step = jax.jit(lambda state: this.round(state, cohort, jax.random.key(KEY)))
        said = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(step, state)[1])
        state, said = jax.lax.fori_loop(0, 3, lambda _, carry: step(carry[0]), (state, said))
        return state, said, this.evaluate(state, IMAGES.tests, ('global', 'deployed'))

    return jax.jit(run)(this.init(jax.random.key(0)))
