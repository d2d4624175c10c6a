"""Programs for a machine that is not there."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_fair.core import client_map
from fedjax_fair.core.platform import Platform, current, machine, made_for, on_cpu
from fedjax_fair.models.linear import dot_general

GIGABYTE = 1 << 30


def test_a_described_platform_holds_inside():
    there = Platform('tpu', machine().devices[:1], GIGABYTE)
    with made_for(there):
        assert current() == there and not on_cpu()
        with made_for(None):
            assert current() == there
    assert current() == machine() and on_cpu()


def test_no_program_serves_two_platforms():
    @jax.jit
    def program(x):
        return x + 1 if on_cpu() else x + 2

    with made_for(machine()._replace(name='tpu')):
        assert program(1) == 3
    assert program(1) == 2


def test_clients_are_spread_by_the_devices_and_memory_that_are_described():
    devices = machine().devices * 2
    with made_for(Platform('gpu', devices[:1], GIGABYTE)):
        everybody = client_map.resolve('auto')
        assert everybody == client_map.ClientMap()
        assert client_map.resolve('auto', chunk=3).chunk == 3
        assert client_map.within_memory(everybody, 20 << 20, 20, current().memory).chunk == 4
    with made_for(Platform('gpu', machine().devices[:2])):
        assert client_map.resolve('auto').devices == 2
        with pytest.raises(ValueError, match='devices=3 is not between 1 and the 2 available'):
            client_map.resolve('auto', devices=3)


def test_programs_are_lowered_for_processors_that_are_not_there():
    def layer(x, kernel):
        return dot_general(x, kernel, (((1,), (0,)), ((), ())))

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((4, 3), (3, 5))]
    for name, exported in (('tpu', 'tpu'), ('gpu', 'cuda')):
        with made_for(machine()._replace(name=name)):
            assert jax.export.export(jax.jit(layer), platforms=[exported])(*shapes).platforms == (exported,)
