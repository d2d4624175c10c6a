"""A thread that looks at its own process while a run goes on, and writes one line for every so many rounds.

Between two lines it looks many times. What a process holds for a moment, such as the files of a checkpoint that is
being written, is in the largest number of a line; what it never gives back is in the smallest.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from fedjax_fair.results import HISTORY

COMPILATION = '/jax/core/compile/backend_compile_duration'  # of every program, also where a cache has it
LOOK = 0.1  # seconds between two looks
PROC = pathlib.Path('/proc/self')
MEMORY = {'resident_mib': 'VmRSS', 'own_mib': 'RssAnon'}

Look = dict[str, float]


@contextlib.contextmanager
def watched(out: pathlib.Path, journal: pathlib.Path, every: int) -> Iterator[None]:
    """Watch the run in ``out`` and append a line to the journal whenever ``every`` rounds more are evaluated."""
    done, counts = threading.Event(), {'compilations': 0}

    def count(event: str, duration_secs: float, **facts: Any) -> None:
        counts['compilations'] += event == COMPILATION

    jax.monitoring.register_event_duration_secs_listener(count)
    thread = threading.Thread(target=_watch, args=(out, journal, every, counts, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _watch(
    out: pathlib.Path, journal: pathlib.Path, every: int, counts: Mapping[str, int], done: threading.Event
) -> None:
    looks: list[Look] = []
    written = last_round(out) // every
    while not done.wait(LOOK):
        looks.append(look())
        if (now := last_round(out)) // every > written:
            written = now // every
            facts = {'process': os.getpid(), 'round': now, **counts, 'folder_mib': folder_mib(out)}
            with journal.open('a') as file:
                file.write(json.dumps(facts | spread(looks)) + '\n')
            looks = []


def look() -> Look:
    """Resident memory in MiB, in all and beside files, and open files, mapped files and all mapped regions."""
    status, maps = (PROC / 'status').read_text(), (PROC / 'maps').read_text().splitlines()
    memory = {name: int(re.findall(rf'{key}:\s+(\d+) kB', status)[0]) / 2**10 for name, key in MEMORY.items()}
    mapped = sum(region.split()[4] != '0' for region in maps)  # the inode of a file, if there is one
    return {**memory, 'open_files': len(os.listdir(PROC / 'fd')), 'mapped_files': mapped, 'regions': len(maps)}


def spread(looks: list[Look]) -> dict[str, list[float]]:
    """The smallest and the largest of each number.

    >>> spread([{'files': 9}, {'files': 7}, {'files': 8}])
    {'files': [7, 9]}
    """
    return {name: [min(one[name] for one in looks), max(one[name] for one in looks)] for name in looks[0]}


def last_round(out: pathlib.Path) -> int:
    """The round of the last whole line of metrics.jsonl; 0 where there is none."""
    with contextlib.suppress(OSError), (out / HISTORY).open('rb') as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 2**16))
        found = re.findall(rb'"round": (\d+)', file.read().rpartition(b'\n')[0])
        return int(found[-1]) if found else 0
    return 0


def folder_mib(folder: pathlib.Path) -> float:
    """What the files of a folder take; some may vanish meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(place, name)).st_size
    return total / 2**20
