"""Ours on the devices that JAX finds: it also tells which these are, how clients are spread, and its memory."""

from __future__ import annotations

import importlib.metadata
import re
from typing import Any

from benchmarks.peers.job import Job
from benchmarks.peers.protocol import main, versions
from benchmarks.peers.worker_ours import Ours
from fedjax_fair.core.client_map import fit
from fedjax_fair.training.spread import CHOSEN_AMONG

DRIVERS = {'gpu': ('jax-cuda12-plugin', 'jax-cuda13-plugin'), 'tpu': ('libtpu',)}  # packages, by platform
LONGEST_KIND = 60  # letters of the name of a device


class OnDevices(Ours):
    """One lane of FedAvg; clients are spread as a run would spread them, or ``chunk`` at once on a device."""

    def __init__(self, job: Job, data: str, chunk: str = ''):
        super().__init__(job, data, chunk=int(chunk) if chunk else None)

    def facts(self) -> dict[str, Any]:
        """``chunk`` and ``chosen_among`` are None unless several spreads were tried."""
        platform, spread = self.x.platform, fit(self.x.client_map, self.x.cohort)[0]
        told, memory = super().facts(), platform.memory
        tried = [note.partition(CHOSEN_AMONG)[2] for note in self.x.notes if CHOSEN_AMONG in note]
        return told | {
            'devices': {
                'platform': platform.name,
                'kind': plain(platform.devices[0].device_kind),
                'count': len(platform.devices),
                'memory_gib': None if memory is None else round(memory / 2**30, 1),
            },
            'versions': told['versions'] | versions(*_installed(DRIVERS.get(platform.name, ()))),
            'spread': {'devices': spread.devices, 'clients_at_once': spread.chunk},
            'chunk': self.x.config.chunk if tried else None,
            'chosen_among': tried[0] if tried else None,
        }

    def check(self) -> dict[str, Any]:
        """``device_peak_mib`` is the largest memory of a device so far, None where they do not tell, as CPUs."""
        peaks = [(device.memory_stats() or {}).get('peak_bytes_in_use', 0) for device in self.x.platform.devices]
        return super().check() | {'device_peak_mib': max(peaks) >> 20 or None}


def plain(name: str) -> str:
    """A device's name of itself as a file for others may hold it: without unusual marks, and not too long.

    >>> plain('Radeon XT/XTX')
    'Radeon XT XTX'
    """
    return re.sub(r'[^\w .()+-]', ' ', name, flags=re.ASCII)[:LONGEST_KIND]


def _installed(packages: tuple[str, ...]) -> list[str]:
    known = {found.name for found in importlib.metadata.distributions()}
    return [name for name in packages if name in known]


if __name__ == '__main__':
    main(OnDevices)
