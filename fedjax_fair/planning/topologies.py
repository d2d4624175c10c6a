"""Machines that need not be there: ``v5e:2x4``, ``gpu:4`` or ``cpu:8``."""

from __future__ import annotations

import contextlib
import math
import os
import re
from typing import Any, NamedTuple

import jax
from jax.experimental import topologies

from fedjax_fair.core.platform import Platform
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of

GIGABYTE = 10**9
SIZE = re.compile(r'[1-9]\d*(x[1-9]\d*)*')
WITHOUT_TPU = {  # keeps the compiler for TPU from looking for one
    'TPU_SKIP_MDS_QUERY': '1',
    'TPU_ACCELERATOR_TYPE': 'v5litepod-4',
    'TPU_WORKER_HOSTNAMES': 'localhost',
    'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
}


class Chip(NamedTuple):
    """A kind of TPU: memory in bytes, and cycles per second.

    The clock is the published peak of bfloat16 products over the products per cycle of the published matrix units.
    """

    memory: int
    clock: float


CHIPS = {'v5e': Chip(16 << 30, 1.5e9), 'v5p': Chip(95 << 30, 1.75e9), 'v6e': Chip(32 << 30, 1.75e9)}
KINDS = (*CHIPS, 'gpu', 'cpu')


class Topology(NamedTuple):
    """A machine as it was asked for: its platform, and cycles per second where its compiler estimates cycles.

    ``exact`` is False where programs are compiled for CPU in the place of another processor.
    """

    name: str
    platform: Platform
    clock: float | None = None
    exact: bool = True


def topology(text: str, memory: float | None = None) -> Topology:
    """The machine that ``text`` names; ``memory`` is that of one device in GB.

    CPU devices share the memory of the host, TPUs have theirs by their kind, and GPUs need ``memory``. Call it before
    JAX starts: it then makes the devices that stand for CPUs and GPUs.
    """
    kind, colon, size = text.partition(':')
    if kind not in KINDS:
        raise UserError(f'`topology`={text}: {kind!r} {not_one_of(kind, KINDS)}')
    if colon and not SIZE.fullmatch(size):
        raise UserError(f'`topology`={text} must be written KIND:SIZE, such as v5e:2x4, gpu:4 or cpu:8')
    if kind == 'gpu' and memory is None:
        raise UserError(f'`topology`={text} needs `memory`, that of one GPU in GB, such as `memory`=24')
    limit = None if memory is None else int(memory * GIGABYTE)
    if kind in CHIPS:
        chip = CHIPS[kind]
        return Topology(text, Platform('tpu', _tpus(text, kind, size or '1x1'), limit or chip.memory), chip.clock)
    count = math.prod(map(int, (size or '1').split('x')))
    return Topology(text, Platform(kind, _stand_ins(text, count), limit), exact=kind == 'cpu')


def _tpus(text: str, kind: str, size: str) -> tuple[Any, ...]:
    """The devices of a TPU as its compiler describes them."""
    for name, value in WITHOUT_TPU.items():
        os.environ.setdefault(name, value)
    _run_on_cpu()
    try:
        return tuple(topologies.get_topology_desc(platform='tpu', topology_name=f'{kind}:{size}').devices)
    except Exception as error:  # the compiler's plug-in raises what its C code gives
        if 'TPU support not installed' in str(error):
            raise UserError(
                f"`topology`={text} needs the compiler for TPU: pip install 'fedjax-fair[plan]' (it needs no TPU)"
            ) from None
        raise UserError(f'`topology`={text}: {" ".join(str(error).split())}') from None


def _stand_ins(text: str, count: int) -> tuple[Any, ...]:
    """Virtual CPU devices, as many as asked for."""
    _run_on_cpu()
    with contextlib.suppress(RuntimeError):  # JAX runs already, with the devices that it has
        jax.config.update('jax_num_cpu_devices', count)
    devices = tuple(jax.devices('cpu'))
    if len(devices) < count:
        raise UserError(f'`topology`={text} needs {count} devices, and JAX was started with {len(devices)}')
    return devices[:count]


def _run_on_cpu() -> None:
    """Let no program look for an accelerator, which may take minutes or lock it."""
    with contextlib.suppress(RuntimeError):
        jax.config.update('jax_platforms', 'cpu')
