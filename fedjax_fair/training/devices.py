"""Which devices a run uses, and for what."""

from __future__ import annotations

import os

import jax

from fedjax_fair.core.client_map import LEAST_DEVICES, ClientMap, client_mesh, in_order, resolve
from fedjax_fair.core.platform import current, on_cpu
from fedjax_fair.errors import UserError
from fedjax_fair.options import AUTO
from fedjax_fair.training.config import Config


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


def load() -> float | None:
    """How many processes wanted a core in the last minute, on average; None where the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, 'getloadavg') else None


def use_host_devices(devices: int | None, deterministic: bool = False) -> None:
    """Split the CPU into one device per core (or as many as asked for); only possible before JAX starts.

    Deterministic runs need two devices, on a single core as well; how many of them work is another question.
    """
    if 'xla_force_host_platform_device_count' in os.environ.get('XLA_FLAGS', ''):
        return
    try:
        least = LEAST_DEVICES if deterministic else 1
        jax.config.update('jax_num_cpu_devices', max(least, min(devices or cores(), cores())))
    except RuntimeError:  # JAX runs already, in a notebook for instance: use what it has
        return


def available_devices(config: Config) -> int:
    """Devices to use; asking for more than there are is an error, not something to make do without."""
    available = len(current().devices)
    if config.devices is not None and config.devices > available:
        raise UserError(f'`devices`={config.devices} is more than the {available} available')
    if config.deterministic and on_cpu() and available < LEAST_DEVICES:
        how = f'set `jax_num_cpu_devices`={LEAST_DEVICES} before JAX starts'
        raise UserError(f'`deterministic` needs {LEAST_DEVICES} CPU devices, and JAX has {available}; {how}')
    return config.devices or available


def maps_of(config: Config, cohort: int, available: int, lanes: int) -> tuple[ClientMap, ClientMap]:
    """How clients and lanes are spread over devices.

    The clients of a cohort get the devices, unless there are enough lanes to keep every device busy. Where bytes must
    not depend on the devices, lanes always run one after another: one way to spread is one program.
    """
    if config.deterministic:
        clients = resolve(config.client_map, devices=min(available, cohort))
        return in_order(clients), ClientMap(1, ordered=1)
    if config.client_map == AUTO and available > 1 and (lanes % available == 0 or lanes >= 4 * available):
        inside = resolve(AUTO, devices=1, chunk=config.chunk)
        return inside, ClientMap(1, client_mesh(available))
    clients = resolve(config.client_map, devices=min(available, cohort), chunk=config.chunk)
    return clients, ClientMap(1)


def layout(config: Config, client_map: ClientMap, lane_map: ClientMap) -> str:
    """How a run is computed, in words: where that differs, equal settings round differently.

    The number of devices stands behind ``client_map`` (:func:`apart_from_devices`).
    """
    words = [current().name, config.precision, *[f'conv {config.conv}'] * (config.conv != AUTO)]
    over = '' if lane_map.mesh is None else f', lanes spread over {lane_map.devices} devices'
    return f'{", ".join(words)}{_CLIENTS}{client_map.describe()}{over}'


_CLIENTS = ', clients '


def apart_from_devices(layout: str) -> str:
    """What decides the bytes of a deterministic run.

    >>> apart_from_devices('cpu, float32, clients one at a time on 2 devices, sums in a fixed order')
    'cpu, float32'
    """
    return layout.partition(_CLIENTS)[0]
