"""Which devices a run uses, and for what."""

from __future__ import annotations

import os

import jax

from fedjax_fair.core import client_map
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.errors import UserError
from fedjax_fair.options import AUTO
from fedjax_fair.training.config import Config


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


def load() -> float | None:
    """How many processes wanted a core in the last minute, on average; None where the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, 'getloadavg') else None


def use_host_devices(devices: int | None) -> None:
    """Split the CPU into one device per core (or as many as asked for); only possible before JAX starts."""
    if 'xla_force_host_platform_device_count' in os.environ.get('XLA_FLAGS', ''):
        return
    try:
        jax.config.update('jax_num_cpu_devices', min(devices or cores(), cores()))
    except RuntimeError:  # JAX runs already, in a notebook for instance: use what it has
        return


def available_devices(devices: int | None) -> int:
    """Devices to use; asking for more than there are is an error, not something to make do without."""
    available = jax.local_device_count()
    if devices is not None and devices > available:
        raise UserError(f'`devices`={devices} is more than the {available} available')
    return devices or available


def maps_of(config: Config, cohort: int, available: int, lanes: int) -> tuple[ClientMap, ClientMap]:
    """How clients and lanes are spread over devices.

    The clients of a cohort get the devices, unless there are enough lanes to keep every device busy.
    """
    if config.client_map == AUTO and available > 1 and (lanes % available == 0 or lanes >= 4 * available):
        inside = client_map.resolve(AUTO, devices=1, chunk=config.chunk)
        return inside, ClientMap(1, client_map.client_mesh(available))
    clients = client_map.resolve(config.client_map, devices=min(available, cohort), chunk=config.chunk)
    return clients, ClientMap(1)


def placement(clients: ClientMap, lanes: ClientMap) -> jax.sharding.Sharding | None:
    """States live on every device that works on them."""
    mesh = lanes.mesh or clients.mesh
    return None if mesh is None else jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
