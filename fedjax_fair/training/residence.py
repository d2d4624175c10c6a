"""On which devices the states of a run are, and how client rows get to their homes and back."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from fedjax_fair.core.client_map import AXIS, ClientMap
from fedjax_fair.core.homes import Homes
from fedjax_fair.core.types import Algorithm, FedState, PyTree


def homes_of(algorithm: Algorithm) -> Homes | None:
    """Where an algorithm's clients live, so that rounds of all of them train at home."""
    return Homes.of(algorithm.run.sizes, algorithm.facts['setting'].steps, algorithm.facts['client_map'])


def placement(client_map: ClientMap, lane_map: ClientMap, lanes: int, homes: Homes | None) -> Any:
    """Where states ``[lanes, ...]`` are: one sharding, or one for each part of a state; None on the only device.

    Lanes that are spread over devices have their states there. Else all is on every device, but for client rows that
    have homes.
    """
    mesh = lane_map.mesh or client_map.mesh
    if mesh is None:
        return None
    everywhere = NamedSharding(mesh, PartitionSpec())
    if lane_map.mesh is not None:
        return everywhere if lanes % lane_map.devices else NamedSharding(mesh, PartitionSpec(AXIS))
    if homes is None:
        return everywhere
    parts: dict[str, Any] = dict.fromkeys(FedState._fields, everywhere) | {'clients': _of_rows(homes)}
    return FedState(**parts)


def _of_rows(homes: Homes) -> Any:
    return NamedSharding(homes.mesh, PartitionSpec(None, AXIS))


def listed_rows(homes: Homes, tables: PyTree) -> PyTree:
    """Rows ``[lanes, clients, ...]`` by the clients' numbers, divided over the devices if their number allows that."""
    whole = len(homes.places) % homes.devices
    places = NamedSharding(homes.mesh, PartitionSpec()) if whole else _of_rows(homes)
    return _moved(jax.vmap(homes.listed), places, tables)


def settled_rows(homes: Homes, tables: PyTree) -> PyTree:
    """Rows at their homes, from those by the clients' numbers."""
    return _moved(jax.vmap(homes.settled), _of_rows(homes), tables)


def _moved(move: Any, places: Any, tables: PyTree) -> PyTree:
    return jax.jit(move, out_shardings=places)(tables) if jax.tree.leaves(tables) else tables
