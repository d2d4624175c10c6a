"""How one client's pure function becomes a cohort's: vmap, chunks of vmap, or chunks on every device of a mesh."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from fedjax_fair.core import tree
from fedjax_fair.core.ordered_map import LEAST_DEVICES, ordered_sum
from fedjax_fair.core.platform import current, on_cpu
from fedjax_fair.core.types import Array, PyTree
from fedjax_fair.errors import UserError
from fedjax_fair.options import AUTO, at_least, check_values, not_one_of, options_of, with_checked_ranges

AXIS = 'clients'
Chunk = Annotated[int | None, 'clients that run at once on a device', at_least(1)]
Devices = Annotated[int | None, 'devices to use; on CPU one per core by default', at_least(1)]


class ClientMap(NamedTuple):
    """``chunk`` clients run at once (None: all of them), on every device of ``mesh`` (None: one device).

    ``ordered``: not 0 if clients run one at a time on this many devices of the mesh, with sums in an order that does
    not depend on the devices (``chunk`` is 1), see :mod:`fedjax_fair.core.ordered_map`.
    """

    chunk: Chunk = None
    mesh: Mesh | None = None
    ordered: int = 0

    @property
    def devices(self) -> int:
        return self.ordered or (1 if self.mesh is None else self.mesh.size)

    def describe(self) -> str:
        if self.ordered:
            return f'one at a time on {self.devices} device{"s" * (self.devices > 1)}, sums in a fixed order'
        inside = 'vmap' if self.chunk is None else f'chunked by {self.chunk}'
        return inside if self.mesh is None else f'sharded over {self.devices} devices, {inside} on each'


@jax.custom_batching.custom_vmap
def shared_max(count: Array) -> Array:
    """The largest count among all vmapped lanes, itself NOT batched.

    Used as the trip count of a loop it keeps one plain loop around vmapped bodies: a chunk of clients stops when its
    longest client has stopped, and lanes that finished earlier run masked steps. Outside vmap it is the identity.
    """
    return count


@shared_max.def_vmap
def _shared_max_of_lanes(axis_size, in_batched, count):
    del axis_size
    return shared_max(jnp.max(count) if in_batched[0] else count), False


@jax.custom_batching.custom_vmap
def unless_finished(active: Array, new: PyTree, old: PyTree) -> PyTree:
    """``new``; in vmapped lanes ``old`` where a lane is not active any more.

    For loops that end with :func:`shared_max`: outside vmap they end with their only lane, so that nothing is left to
    choose and no step pays for a choice between two models.
    """
    return new


@unless_finished.def_vmap
def _unless_lane_finished(axis_size, in_batched, active, new, old):
    if not in_batched[0]:
        return unless_finished(active, new, old), in_batched[1]

    def lanes(batched: bool, leaf: Array) -> Array:
        return leaf if batched else jnp.broadcast_to(leaf, (axis_size, *jnp.shape(leaf)))

    new, old = (jax.tree.map(lanes, b, t) for b, t in zip(in_batched[1:], (new, old), strict=True))
    return tree.select(active, new, old), jax.tree.map(lambda _: True, new)


@jax.custom_batching.custom_vmap
def row_of(table: Array, number: Array) -> Array:
    """``table[number]``, which does not become a gather under vmap.

    The compiler for TPU makes a loop over the lanes of such a gather. So where lanes read different rows they read the
    whole table and keep one.
    """
    return jax.lax.dynamic_index_in_dim(table, number, keepdims=False)


@row_of.def_vmap
def _row_of_lanes(axis_size, in_batched, table, number):
    if not in_batched[0]:
        table = jnp.broadcast_to(table, (axis_size, *table.shape))
    if not in_batched[1]:
        return jax.lax.dynamic_index_in_dim(table, number, 1, keepdims=False), True

    def kept(table: Array, number: Array) -> Array:
        chosen = (jnp.arange(table.shape[0]) == number).reshape(-1, *(1,) * (table.ndim - 1))
        return jnp.sum(jnp.where(chosen, table, jnp.zeros((), table.dtype)), axis=0, dtype=table.dtype)

    return jax.vmap(kept)(table, number), True


@jax.tree_util.register_pytree_node_class
class Divided:
    """Arrays that all clients of a device share, whose first axis is divided over the devices of a mesh.

    A client that is mapped over the mesh finds the share of its device inside; without a mesh it is the whole.
    """

    def __init__(self, own: PyTree):
        self.own = own

    def tree_flatten(self) -> tuple[tuple[PyTree], None]:
        return (self.own,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[PyTree]) -> Divided:
        return cls(*children)


def fit(client_map: ClientMap, clients: int) -> tuple[ClientMap, int]:
    """The map with chunks of even size for this many clients, and the number of slots it then needs."""
    if client_map.ordered:
        return client_map._replace(chunk=1), clients
    per_device = -(-clients // client_map.devices)
    chunks = -(-per_device // min(client_map.chunk or per_device, per_device))
    chunk = -(-per_device // chunks)
    return client_map._replace(chunk=chunk), client_map.devices * chunks * chunk


def deal(work: Array, client_map: ClientMap) -> Array:
    """Order of clients that wastes little: longest first, dealt to the devices like cards.

    Neighbours end up in one chunk, so a chunk's clients have similar length, and every device gets its share of the
    long ones. Ordered maps deal in waves, so that the order itself does.
    """
    order = jnp.argsort(-work, stable=True)
    if client_map.ordered:
        return order
    return order.reshape(-1, client_map.devices).T.reshape(-1)


def map_clients(client_map: ClientMap, fn: Callable, shared: PyTree, clients: PyTree) -> PyTree:
    """The stacked outputs of ``fn(shared, client)`` for every client."""
    return map_sum(client_map, lambda shared, client: ((), fn(shared, client)), (), shared, clients)[1]


def map_sum(client_map: ClientMap, fn: Callable, zero: PyTree, shared: PyTree, clients: PyTree):
    """Apply ``fn(shared, client) -> (summand, output)`` to every client; ``shared`` may hold :class:`Divided` arrays.

    Returns the sum of the summands, which look like ``zero``, and the stacked outputs. Summands are accumulated chunk
    by chunk, so they cost the memory of one chunk however large the cohort is.
    """
    if client_map.ordered:
        return ordered_sum(client_map.mesh, client_map.ordered, fn, zero, shared, clients)
    if client_map.mesh is None:
        return _chunked(client_map.chunk, fn, zero, shared, clients)

    def shard(zero, shared, clients):
        sums, outputs = _chunked(client_map.chunk, fn, zero, shared, clients)
        return jax.lax.psum(sums, AXIS), outputs

    # check_vma=False: loop carries start as replicated constants and become per-device values.
    return jax.shard_map(
        shard, mesh=client_map.mesh, in_specs=(P(), _places(shared), P(AXIS)), out_specs=(P(), P(AXIS)), check_vma=False
    )(zero, shared, clients)


def _places(shared: PyTree) -> PyTree:
    """On every device, or divided over them."""
    return jax.tree.map(lambda one: P(AXIS) if _is_divided(one) else P(), shared, is_leaf=_is_divided)


def _is_divided(one: Any) -> bool:
    return isinstance(one, Divided)


def _chunked(chunk: int | None, fn: Callable, zero: PyTree, shared: PyTree, clients: PyTree) -> tuple[PyTree, PyTree]:
    count = jax.tree.leaves(clients)[0].shape[0]

    def together(piece):
        sums, outputs = jax.vmap(fn, (None, 0))(shared, piece)
        return jax.tree.map(lambda leaf: leaf.sum(0), sums), outputs

    if chunk is None or (chunk == count and count > 1):
        return together(clients)
    if chunk == 1:  # one client at a time needs no batch axis at all
        return _scan_sum(lambda client: fn(shared, client), zero, clients)
    pieces = jax.tree.map(lambda leaf: leaf.reshape(-1, chunk, *leaf.shape[1:]), clients)
    sums, outputs = _scan_sum(together, zero, pieces)
    return sums, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), outputs)


def _scan_sum(run: Callable, zero: PyTree, pieces: PyTree) -> tuple[PyTree, PyTree]:
    def body(total, piece):
        sums, outputs = run(piece)
        return jax.tree.map(jnp.add, total, sums), outputs

    return jax.lax.scan(body, zero, pieces)


@with_checked_ranges
def resolve(kind: str | ClientMap, *, devices: Devices = None, chunk: Chunk = None) -> ClientMap:
    """Turn the name of a client map into one.

    ``auto``: ``sharded`` where there are several devices (on CPU one host device per core), else ``vmap`` on an
    accelerator and ``chunked`` on CPU. On CPU clients run one by one inside a device: a batch axis over clients turns
    matmuls and convolutions into slow batched ones, and one client's parameters and activations stay in cache. On
    accelerators all clients of a device run at once, as far as memory allows (:func:`within_memory`); runs choose by
    compiled programs instead (:mod:`fedjax_fair.training.spread`).
    """
    if isinstance(kind, ClientMap):
        check_values(options_of(ClientMap), {'chunk': kind.chunk})
        return kind
    if kind not in CLIENT_MAPS:
        raise UserError(f'`client_map`={kind!r} {not_one_of(kind, CLIENT_MAPS)}')
    available = len(current().devices)
    if devices is not None and devices > available:
        raise UserError(f'`devices`={devices} is not between 1 and the {available} available')
    devices = devices or available
    if kind == AUTO:
        kind = 'sharded' if devices > 1 else ('chunked' if on_cpu() or chunk else 'vmap')
    return _MAPS[kind](chunk or (1 if on_cpu() else None), devices)


_MAPS: dict[str, Callable[[int | None, int], ClientMap]] = {  # from clients at once on a device, and devices
    'vmap': lambda chunk, devices: ClientMap(),
    'chunked': lambda chunk, devices: ClientMap(chunk or 8),
    'sharded': lambda chunk, devices: ClientMap(chunk, client_mesh(devices)),
}
CLIENT_MAPS = (AUTO, *_MAPS)


def in_order(client_map: ClientMap) -> ClientMap:
    """One client at a time, with sums in an order that does not depend on the devices.

    On CPU the mesh has devices enough that XLA compiles the same program as for any other number of them.
    """
    workers = client_map.devices
    mesh = client_mesh(max(workers, LEAST_DEVICES)) if on_cpu() else client_map.mesh
    return ClientMap(1, mesh, ordered=workers)


def host_memory() -> int | None:
    """Bytes of the machine's memory; None where the system does not tell."""
    try:
        return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    except (AttributeError, ValueError):
        return None


def within_memory(client_map: ClientMap, model_bytes: int, clients: int, limit: int | None) -> ClientMap:
    """Cut "all clients at once" into chunks where that many models would not fit into half of the memory.

    A client in training holds about six models: parameters, gradient, optimiser, update, and their copies. What its
    activations take is not known here; the option ``chunk`` has the last word.
    """
    if limit is None or client_map.chunk is not None:
        return client_map
    most = max(1, limit // 2 // (6 * max(model_bytes, 1)))
    return client_map if most * client_map.devices >= clients else client_map._replace(chunk=most)


def replicate(client_map: ClientMap, value: PyTree) -> PyTree:
    """Place a value on every device of the map."""
    if client_map.mesh is None:
        return value
    return jax.device_put(value, jax.sharding.NamedSharding(client_map.mesh, P()))


def client_mesh(devices: int) -> Mesh:
    """A one-axis mesh over the first ``devices`` devices."""
    return Mesh(np.array(current().devices[:devices]), (AXIS,))
