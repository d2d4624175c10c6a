"""Where clients live on a mesh: their rows and examples are on one device each, not on all of them.

A round of all clients trains each at its home, so nothing moves. A round of some clients is dealt out anew, and only
what its clients need travels: around the ring of devices, each of which adds what lives on it. That takes the memory of
what one device trains, however many devices there are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from fedjax_fair.core import tree
from fedjax_fair.core.client_map import AXIS, ClientMap, deal, fit
from fedjax_fair.core.types import Array, PyTree


class Request(NamedTuple):
    """What a device asks for: entries ``place`` of the share of ``device``; none where no such device is."""

    device: Array
    place: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Homes:
    """Client ``n`` lives at ``places[n]``; of all ``slots`` places, every device of the mesh has an equal run."""

    mesh: Mesh
    places: np.ndarray
    slots: int

    @classmethod
    def of(cls, sizes: np.ndarray, work: np.ndarray, client_map: ClientMap) -> Homes | None:
        """Homes for clients with so many examples and so much work, as a round of all of them deals them out.

        None where there is only one device, or where sums have an order that does not depend on devices.
        """
        mesh = client_map.mesh
        if mesh is None or client_map.ordered:
            return None
        client_map, slots = fit(client_map, len(work))
        order = np.arange(slots)
        if len(set(sizes.tolist())) > 1:
            with jax.ensure_compile_time_eval():
                order = np.asarray(deal(jnp.asarray(np.append(work, np.zeros(slots - len(work)))), client_map))
        return cls(mesh, np.argsort(order)[: len(work)].astype(np.int32), slots)

    @property
    def devices(self) -> int:
        return self.mesh.size

    @property
    def share(self) -> int:
        """Places of one device."""
        return self.slots // self.devices

    @property
    def clients_at(self) -> np.ndarray:
        """Who lives at every place; the number of clients where nobody does."""
        clients = np.full(self.slots, len(self.places), np.int32)
        clients[self.places] = np.arange(len(self.places))
        return clients

    @property
    def divided(self) -> NamedSharding:
        """Of arrays whose first axis is divided over the devices."""
        return NamedSharding(self.mesh, P(AXIS))

    def request(self, ids: Array) -> Request:
        """That for the rows of some clients; nothing is asked for an id of the number of clients."""
        places = np.append(self.places, np.int32(self.slots))
        place = jnp.take(jnp.asarray(places), ids, mode='clip')
        return Request(place // self.share, place % self.share)

    def listed(self, tables: PyTree) -> PyTree:
        """Rows by the clients' numbers, from those by place."""
        return tree.take_rows(tables, jnp.asarray(self.places))

    def settled(self, tables: PyTree) -> PyTree:
        """Rows by place, from those by the clients' numbers."""
        return tree.take_rows(tables, jnp.asarray(self.clients_at))

    def fetched(self, tables: PyTree, request: Request) -> PyTree:
        """Every device gets the entries that it asks for; zeros where it asks for none.

        ``tables`` and the request are divided over the devices, and so is the answer.
        """
        return self._on_devices(_fetch, tables, request)

    def delivered(self, tables: PyTree, request: Request, values: PyTree) -> PyTree:
        """The inverse: entries are written where they live."""
        return self._on_devices(_deliver, tables, request, values)

    def examples_of(self, examples: PyTree, index: Array, n: Array, ids: Array, room: int) -> tuple[PyTree, Array]:
        """The examples of the clients that each device trains, and where each client's now are.

        ``index[C, M]`` lists the first ``n[C]`` examples of each client within the share of its home. A device has room
        for this many examples.
        """

        def on_device(examples: PyTree, index: Array, n: Array, ids: Array) -> tuple[PyTree, Array]:
            position = jnp.arange(index.shape[1], dtype=n.dtype)[None]
            mine, real = (jnp.cumsum(n, dtype=n.dtype) - n)[:, None] + position, position < n[:, None]
            device = jnp.broadcast_to(self.request(ids).device[:, None], index.shape)
            asked = Request(jnp.full(room, self.devices, index.dtype), jnp.zeros(room, index.dtype))
            at = jnp.where(real, mine, room)
            asked = jax.tree.map(
                lambda empty, given: empty.at[at].set(given.astype(empty.dtype), mode='drop'),
                asked,
                Request(device, index),
            )
            return _fetch(self.devices, examples, asked), jnp.minimum(mine, room - 1).astype(index.dtype)

        return self._map(on_device, examples, index, n, ids)

    def _on_devices(self, fn: Callable[..., PyTree], *given: Any) -> PyTree:
        return self._map(lambda *own: fn(self.devices, *own), *given)

    def _map(self, fn: Callable[..., Any], *given: Any) -> Any:
        # check_vma=False: loop carries start as replicated constants and become per-device values.
        return jax.shard_map(fn, mesh=self.mesh, in_specs=P(AXIS), out_specs=P(AXIS), check_vma=False)(*given)


def _fetch(devices: int, tables: PyTree, asked: Request) -> PyTree:
    """Answers travel to the device that asked: on the way every device fills in what lives on it."""
    everybodys = jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, AXIS), asked)
    me = jax.lax.axis_index(AXIS)

    def add(turn: Array, answer: PyTree) -> PyTree:
        asking = (me - 1 - turn) % devices
        here = everybodys.device[asking] == me
        own = tree.take_rows(tables, jnp.where(here, everybodys.place[asking], 0))
        return tree.select(here, own, answer)

    def pass_on(turn: Array, answer: PyTree) -> PyTree:
        return _to_neighbour(devices, add(turn, answer))

    count = asked.device.shape[0]
    nothing = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape[1:]), leaf.dtype), tables)
    return add(jnp.int32(devices - 1), jax.lax.fori_loop(jnp.int32(0), jnp.int32(devices - 1), pass_on, nothing))


def _deliver(devices: int, tables: PyTree, request: Request, values: PyTree) -> PyTree:
    """Entries travel past all devices, each of which writes those that live on it."""
    me = jax.lax.axis_index(AXIS)
    beyond = jax.tree.leaves(tables)[0].shape[0]

    def write(tables: PyTree, request: Request, values: PyTree) -> PyTree:
        return tree.put_rows(tables, jnp.where(request.device == me, request.place, beyond), values)

    def pass_on(_: Array, carry: tuple[PyTree, Request, PyTree]) -> tuple[PyTree, Request, PyTree]:
        tables, request, values = carry
        request, values = _to_neighbour(devices, (request, values))
        return write(tables, request, values), request, values

    start = (write(tables, request, values), request, values)
    return jax.lax.fori_loop(0, devices - 1, pass_on, start)[0]


def _to_neighbour(devices: int, value: PyTree) -> PyTree:
    ring = [(device, (device + 1) % devices) for device in range(devices)]
    return jax.tree.map(lambda leaf: jax.lax.ppermute(leaf, AXIS, ring), value)
