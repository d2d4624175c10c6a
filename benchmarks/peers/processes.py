"""CPU time and memory of a worker with all the processes it has started, read from Linux's /proc."""

from __future__ import annotations

import contextlib
import os
import pathlib
from typing import NamedTuple

PROC = pathlib.Path('/proc')
TICKS_PER_SECOND = os.sysconf('SC_CLK_TCK')


class Process(NamedTuple):
    """One line of the process table; ``cpu_seconds`` includes children that have ended."""

    parent: int
    session: int
    cpu_seconds: float


def table() -> dict[int, Process]:
    """All processes of the machine by their ids."""
    found = {}
    for folder in PROC.glob('[0-9]*'):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found[int(folder.name)] = _parse((folder / 'stat').read_text())
    return found


def _parse(stat: str) -> Process:
    fields = stat.rpartition(')')[2].split()  # the name before it may hold blanks
    return Process(int(fields[1]), int(fields[3]), sum(map(int, fields[11:15])) / TICKS_PER_SECOND)


def family(pid: int, processes: dict[int, Process]) -> set[int]:
    """The leader of a session, all members of the session and all that descend from one of them."""
    members = {pid} | {child for child, process in processes.items() if process.session == pid}
    while grown := {child for child, process in processes.items() if process.parent in members} - members:
        members |= grown
    return members & processes.keys()


def cpu_seconds(pid: int) -> float:
    """User and system time that the family of ``pid`` has used so far."""
    processes = table()
    return sum(processes[member].cpu_seconds for member in family(pid, processes))


def peak_mib(pid: int) -> int:
    """Sum over the living members of the family of their largest resident memory; shared pages count in each."""
    return sum(_peak_kib(member) for member in family(pid, table())) >> 10


def send(pid: int, signal: int) -> None:
    """Send a signal to the whole family."""
    for member in family(pid, table()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal)


def _peak_kib(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in (PROC / str(pid) / 'status').read_text().splitlines():
            if line.startswith('VmHWM:'):
                return int(line.split()[1])
    return 0
