"""Clients one at a time on every device, with sums in one order: the same bytes on any number of devices.

Floating-point sums depend on their order, and XLA may round an expression otherwise where it compiles it together with
other ones. So clients run in waves of one client per device; then every device collects what the wave gave and adds it
in the order of the clients. Nothing that comes out knows how many devices there are: no padding, no sum of one device,
no array that is spread over devices.

XLA also compiles programs of one device in another way than those of several. Where bytes must be equal, a mesh has
at least two devices, of which fewer may work.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from fedjax_fair.core.types import Array, PyTree

One = Callable[[Array], PyTree]  # from the number of a client to its summand and output
LEAST_DEVICES = 2  # of a mesh whose programs are compiled as those of any larger mesh are


def ordered_sum(
    mesh: Mesh | None, workers: int, fn: Callable, zero: PyTree, shared: PyTree, clients: PyTree
) -> tuple[PyTree, PyTree]:
    """Sum and stacked outputs of ``fn(shared, client) -> (summand, output)``, as ``client_map.map_sum`` gives them.

    ``workers``: how many devices of the mesh take clients. Both results lie on every device. Costs the memory of one
    summand per device, and all inputs and outputs on each.
    """
    if mesh is None:
        return _in_waves(1, fn, lambda one, at: jax.tree.map(lambda leaf: leaf[None], one(at)), zero, shared, clients)
    (axis,) = mesh.axis_names

    def on_device(zero: PyTree, shared: PyTree, clients: PyTree) -> tuple[PyTree, PyTree]:
        mine, count = jax.lax.axis_index(axis), _count(clients)

        def together(one: One, first: Array) -> PyTree:
            nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(one, first))
            busy = (mine < workers) & (first + mine < count)
            given = jax.lax.cond(busy, one, lambda _: nothing, first + mine)
            return jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, axis), given)

        return _in_waves(workers, fn, together, zero, shared, clients)

    # check_vma=False: loop carries start as replicated constants and become per-device values.
    everywhere = jax.shard_map(on_device, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
    return everywhere(zero, shared, clients)


def _in_waves(
    workers: int,
    fn: Callable,
    together: Callable[[One, Array], PyTree],
    zero: PyTree,
    shared: PyTree,
    clients: PyTree,
) -> tuple[PyTree, PyTree]:
    """``together(one, first)`` runs a wave that begins with client ``first``, and gives what all devices got."""
    count = _count(clients)

    def one(at: Array) -> PyTree:
        return fn(shared, _row(clients, at))

    _, shapes = jax.eval_shape(one, jnp.int32(0))
    table = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), shapes)

    def wave(number: Array, carry: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        first = number * workers
        given = together(one, first)

        def take(worker: Array, carry: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
            (total, table), (summand, output) = carry, _row(given, worker)
            table = jax.tree.map(lambda rows, row: rows.at[first + worker].set(row), table, output)
            return jax.tree.map(jnp.add, total, summand), table

        return _loop(workers, jnp.minimum(workers, count - first), take, carry)

    waves = -(-count // workers)
    return _loop(waves, jnp.int32(waves), wave, (zero, table))


def _count(clients: PyTree) -> int:
    return jax.tree.leaves(clients)[0].shape[0]


def _row(tree: PyTree, at: Array) -> PyTree:
    return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, at, keepdims=False), tree)


def _loop(most: int, times: Array, body: Callable, start: PyTree) -> PyTree:
    """A loop that stays one. XLA would unroll a single pass and fuse it with its surroundings, which rounds anew.

    Its name tells how often it turns at ``most``, for those who count cycles (:mod:`fedjax_fair.training.hlo`).
    """
    with jax.named_scope(f'turns_{most}'):
        return jax.lax.fori_loop(0, jax.lax.optimization_barrier(times), body, start)
