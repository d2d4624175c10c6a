"""Test sets in batches, and how these are divided over the devices of a mesh."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from fedjax_fair.core.client_map import AXIS, ClientMap, Divided, fit
from fedjax_fair.core.types import Array, Tests


class Cut(NamedTuple):
    """``width`` examples in a ``number`` of batches of equal ``size``, the last of which may be padded.

    >>> Cut.of(10, most=4)
    Cut(width=10, number=3, size=4)
    """

    width: int
    number: int
    size: int

    @classmethod
    def of(cls, width: int, most: int) -> Cut:
        number = -(-width // most)
        return cls(width, number, -(-width // number))

    def batches(self, leaf: Array, axis: int = 0) -> Array:
        """``[..., width, ...]`` as ``[..., number, size, ...]``."""
        pads = [(0, 0)] * leaf.ndim
        pads[axis] = (0, self.number * self.size - self.width)
        return jnp.pad(leaf, pads).reshape(*leaf.shape[:axis], self.number, self.size, *leaf.shape[axis + 1 :])

    def joined(self, leaf: Array) -> Array:
        """``[number, size, ...]`` as ``[width, ...]``."""
        return leaf.reshape(-1, *leaf.shape[2:])[: self.width]

    def sets(self, leaf: Array, sets: int) -> Array:
        """``[slots, size, ...]``, batches of all sets one after another, as ``[sets, width, ...]``."""
        own = leaf[: sets * self.number]
        return own.reshape(sets, self.number * self.size, *leaf.shape[2:])[:, : self.width]


def slots_of(leaf: Array, slots: int) -> Array:
    """``[sets, number, ...]`` as ``[slots, ...]``, padded."""
    flat = leaf.reshape(-1, *leaf.shape[2:])
    return jnp.pad(flat, ((0, slots - len(flat)),) + ((0, 0),) * (flat.ndim - 1))


def inputs_divided(tests: Tests, most: int, client_map: ClientMap) -> Tests:
    """Test sets in host memory with their inputs on the devices of a mesh, each batch on one of them.

    ``most`` examples go through the network at once. Labels stay as they are.
    """
    cut, shape = Cut.of(tests.mask.shape[1], most), _divided_shape(tests, most, client_map)

    def share(place: Any) -> np.ndarray:
        first, last, _ = place[0].indices(shape[0])
        out = np.zeros((last - first, *shape[1:]), jax.dtypes.canonicalize_dtype(tests.x.dtype))
        for batch in range(first, min(last, len(tests.x) * cut.number)):
            which, start = batch // cut.number, batch % cut.number * cut.size
            own = tests.x[which, start : start + cut.size]
            out[batch - first, : len(own)] = own
        return out

    x = jax.make_array_from_callback(shape, _sharding(client_map), share)
    return dataclasses.replace(tests, x=Divided(x))


def shapes_divided(tests: Tests, most: int, client_map: ClientMap) -> Tests:
    """The same as shapes, of data that need not be there."""
    shape = jax.ShapeDtypeStruct(_divided_shape(tests, most, client_map), tests.x.dtype, sharding=_sharding(client_map))
    return dataclasses.replace(tests, x=Divided(shape))


def whole(tests: Tests, most: int) -> Tests:
    """The test sets with the inputs of every set in one place again."""
    if not isinstance(tests.x, Divided):
        return tests
    sets, width = tests.mask.shape
    return dataclasses.replace(tests, x=Cut.of(width, most).sets(tests.x.own, sets))


def _divided_shape(tests: Tests, most: int, client_map: ClientMap) -> tuple[int, ...]:
    cut = Cut.of(tests.mask.shape[1], most)
    _, slots = fit(client_map, len(tests.x) * cut.number)
    return (slots, cut.size, *tests.x.shape[2:])


def _sharding(client_map: ClientMap) -> NamedSharding:
    if client_map.mesh is None:
        raise ValueError('test sets are divided over the devices of a mesh')
    return NamedSharding(client_map.mesh, P(AXIS))
