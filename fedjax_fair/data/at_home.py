"""Training examples divided over the devices of a mesh: those of a client lie where the client lives."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.homes import Homes
from fedjax_fair.data.federation import Examples, Federation


class Shares(NamedTuple):
    """Where each client's examples begin in the share of its home, and how many examples every share has room for."""

    starts: np.ndarray
    room: int


def shares_of(sizes: np.ndarray, homes: Homes) -> Shares:
    """The shares of all devices, client after client by their places.

    >>> homes = Homes(jax.make_mesh((1,), ('clients',)), np.array([2, 0]), slots=4)
    >>> shares_of(np.array([5, 3]), homes)
    Shares(starts=array([3, 0]), room=8)
    """
    at = np.append(sizes, 0)[homes.clients_at].astype(np.int64).reshape(homes.devices, homes.share)
    starts = (np.cumsum(at, 1) - at).reshape(-1)
    return Shares(starts[homes.places], max(1, int(at.sum(1).max())))


def examples_at_home(federation: Federation, homes: Homes) -> Examples:
    """The examples on the devices; ``index`` is within the share of the client's home."""
    shares = shares_of(federation.sizes, homes)
    lists = np.minimum(shares.starts[:, None] + np.arange(federation.index.shape[1]), shares.room - 1)

    def divided(values: np.ndarray) -> jax.Array:
        def share(place: Any) -> np.ndarray:
            device = (place[0].start or 0) // shares.room
            out = np.zeros((shares.room, *values.shape[1:]), jax.dtypes.canonicalize_dtype(values.dtype))
            for client in homes.clients_at[device * homes.share : (device + 1) * homes.share]:
                if client < federation.num_clients:
                    own = federation.index[client, : federation.sizes[client]]
                    out[shares.starts[client] :][: len(own)] = values[own]
            return out

        shape = (homes.devices * shares.room, *values.shape[1:])
        return jax.make_array_from_callback(shape, homes.divided, share)

    x, y = divided(federation.x), divided(federation.y)
    return Examples(x, y, jnp.asarray(lists, jnp.int32), jnp.asarray(federation.sizes))


def shapes_at_home(federation: Federation, homes: Homes) -> Examples:
    """The same as shapes, of data that need not be there."""
    rows = homes.devices * shares_of(federation.sizes, homes).room
    tables: list[Any] = [
        jax.ShapeDtypeStruct((rows, *one.shape[1:]), jax.dtypes.canonicalize_dtype(one.dtype))
        for one in (federation.x, federation.y)
    ]
    return Examples(*tables, index=federation.index, sizes=federation.sizes)  # type: ignore[arg-type, misc]
