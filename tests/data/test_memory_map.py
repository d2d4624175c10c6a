"""Examples in a file are chosen without being read."""

import dataclasses

import numpy as np
import pytest

from fedjax_fair.data import federate, make_split
from fedjax_fair.data.memory_map import MappedRows, chosen_rows
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.stream import gathered, in_memory, room_for
from fedjax_fair.data.validation import with_validation


@pytest.fixture
def pools(tmp_path):
    """The same examples in memory and in a file."""
    x = np.random.default_rng(0).integers(0, 256, (60, 4, 4, 1), dtype=np.uint8)
    np.save(tmp_path / 'x.npy', x)
    y, held = np.arange(60, dtype=np.int32) % 3, np.arange(60) % 5 == 0
    return [Pool(a, y, held) for a in (x, np.load(tmp_path / 'x.npy', mmap_mode='r'))]


def test_a_federation_of_a_file_is_the_one_of_its_array(pools):
    memory, file = (
        with_validation(federate(p, 'f', make_split('dirichlet', num_clients=4, alpha=1.0)), 0.2) for p in pools
    )
    assert isinstance(file.x, MappedRows) and isinstance(file.x.base, np.memmap)
    for field in dataclasses.fields(memory):
        one, two = getattr(memory, field.name), getattr(file, field.name)
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(memory.tests.x, file.tests.x)
    np.testing.assert_array_equal(memory.arrays().x, file.arrays().x)
    room = room_for(memory.sizes, 2)
    for one, two in zip(*(gathered(f, in_memory(f), np.array([3, 4]), room) for f in (memory, file)), strict=True):
        np.testing.assert_array_equal(one, two)


def test_rows_chosen_twice_and_in_any_order(pools):
    x, file = pools[0].x, pools[1].x
    mask = np.arange(60) % 2 == 0
    twice = chosen_rows(chosen_rows(file, mask), np.arange(30) % 3 == 0)
    np.testing.assert_array_equal(twice, x[::2][::3])
    np.testing.assert_array_equal(twice[np.array([4, 1])], x[::2][::3][[4, 1]])
    np.testing.assert_array_equal(twice[..., 0], x[::2][::3][..., 0])
    assert twice.shape == (10, 4, 4, 1) and len(twice) == 10 and twice.dtype == np.uint8
