"""What programs are made for: the machine that JAX runs on, or another one that is only described.

Programs are written differently for a CPU and for an accelerator, and clients are spread by the devices and their
memory. All of that is decided while a program is traced, and asks :func:`current`. So a program can be made for a
machine that is not there::

    with made_for(Platform('tpu', topology.devices, 16 << 30)):
        round = jax.jit(algorithm.round).lower(state, cohort, key)
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import jax


class Platform(NamedTuple):
    """A kind of processor as JAX calls it ('cpu', 'gpu', 'tpu'), its devices, and the bytes of memory of each.

    ``memory`` is None where devices share the memory of the host.
    """

    name: str
    devices: tuple[Any, ...]
    memory: int | None = None


_described = jax.make_user_context(None)  # part of the key of JAX's caches, so that no program serves two platforms


def machine() -> Platform:
    """What this process runs on."""
    devices = tuple(jax.local_devices())
    return Platform(jax.default_backend(), devices, (devices[0].memory_stats() or {}).get('bytes_limit'))


def current() -> Platform:
    """The platform that programs are made for here: the one of :func:`made_for`, else this machine."""
    return _described.value or machine()


def made_for(platform: Platform | None) -> contextlib.AbstractContextManager[Any]:
    """Programs that are traced inside are for this platform; None is the machine itself."""
    return contextlib.nullcontext() if platform is None else _described(platform)


def on_cpu() -> bool:
    """Whether programs are made for CPU, where some of them are written differently to be fast."""
    return current().name == 'cpu'
