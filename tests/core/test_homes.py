"""Rows and examples live on one device each, and get to the device that needs them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.core.client_map import ClientMap, client_mesh
from fedjax_fair.core.homes import Homes, Request
from fedjax_fair.data.at_home import examples_at_home, shapes_at_home
from fedjax_fair.testing.tiny import tiny_federation

SIZES = np.array([5, 1, 4, 3, 2, 6])


def homes(devices: int = 4, chunk: int | None = 1) -> Homes:
    return Homes.of(SIZES, SIZES, ClientMap(chunk, client_mesh(devices)))


def test_long_clients_are_shared_among_devices():
    two = homes(2)
    at = two.clients_at.reshape(2, two.share)
    assert [SIZES[own].tolist() for own in at] == [[6, 4, 2], [5, 3, 1]]
    four = homes(4)
    assert four.slots == 8 and sorted(four.clients_at.tolist()) == [0, 1, 2, 3, 4, 5, 6, 6]


def test_equal_clients_live_in_their_order():
    same = np.full(4, 3)
    np.testing.assert_array_equal(Homes.of(same, same, ClientMap(1, client_mesh(2))).places, np.arange(4))


def test_one_device_and_sums_in_order_have_no_homes():
    assert Homes.of(SIZES, SIZES, ClientMap(1)) is None
    assert Homes.of(SIZES, SIZES, ClientMap(1, client_mesh(2), ordered=2)) is None


def test_rows_settle_and_are_listed_again():
    here, rows = homes(), {'a': jnp.arange(12.0).reshape(6, 2), 'b': jnp.arange(6)}
    settled = here.settled(rows)
    assert settled['a'].shape == (8, 2)
    np.testing.assert_array_equal(settled['b'][here.places], np.arange(6))
    for name, table in here.listed(settled).items():
        np.testing.assert_array_equal(table, rows[name])


@pytest.mark.parametrize('devices', [1, 2, 4])
@pytest.mark.parametrize('dtype', [jnp.float32, jnp.int8, jnp.bool_])
def test_entries_travel_to_whoever_asks_and_back(devices, dtype):
    here = homes(devices)
    tables = here.settled({'rows': (jnp.arange(18).reshape(6, 3) % 7).astype(dtype)})
    tables = jax.device_put(tables, here.divided)
    ids = jnp.asarray([3, 0, 6, 5])  # 6 is nobody
    asked = here.request(ids)
    found = jax.jit(here.fetched)(tables, asked)['rows']
    np.testing.assert_array_equal(found[jnp.asarray([0, 1, 3])], here.listed(tables)['rows'][jnp.asarray([3, 0, 5])])
    assert not np.asarray(found[2]).any(), 'nothing was asked for'
    new = jnp.ones_like(found)
    after = here.listed(jax.jit(here.delivered)(tables, asked, {'rows': new}))['rows']
    np.testing.assert_array_equal(after[jnp.asarray([0, 3, 5])], new[:3])
    others = jnp.asarray([1, 2, 4])
    np.testing.assert_array_equal(after[others], here.listed(tables)['rows'][others])


def test_requests_name_the_device_and_the_place_on_it():
    here = homes(2)
    device, place = here.request(jnp.asarray([5, 1, 6]))
    assert (device.tolist(), place.tolist()) == ([0, 1, 2], [0, 2, 0])
    assert isinstance(here.request(jnp.asarray([0])), Request)


@pytest.mark.parametrize('devices', [2, 4])
def test_examples_are_divided_and_brought_to_clients(devices):
    federation, here = tiny_federation(SIZES.tolist()), homes(devices)
    data = examples_at_home(federation, here)
    assert data.x.sharding.spec == jax.P('clients')
    shapes = shapes_at_home(federation, here)
    assert (shapes.x.shape, shapes.y.dtype) == (data.x.shape, data.y.dtype)
    room = len(data.x) // devices
    for client, place in enumerate(here.places):
        own = place // here.share * room + data.index[client, : SIZES[client]]
        np.testing.assert_array_equal(data.x[own], federation.x[federation.index[client, : SIZES[client]]])
    ids = jnp.asarray([1, 5, 0, 6])  # 6 is nobody
    n = jnp.asarray([1, 6, 5, 0])
    (x, _), index = here.examples_of((data.x, data.y), data.index[jnp.minimum(ids, 5)], n, ids, room=11)
    for slot, client in enumerate([1, 5, 0]):
        own = slot // (4 // devices) * 11 + index[slot, : SIZES[client]]
        np.testing.assert_array_equal(x[own], federation.x[federation.index[client, : SIZES[client]]])
