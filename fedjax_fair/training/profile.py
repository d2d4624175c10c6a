"""Where the time of a round goes: a profiler trace, and its longest operations as text."""

from __future__ import annotations

import collections
import contextlib
import pathlib
from collections.abc import Iterator

import jax
from jax.profiler import ProfileData

FOLDER = 'profile'
CONTAINERS = ('while', 'call', 'conditional')  # their time is that of the operations inside


@contextlib.contextmanager
def traced(out: pathlib.Path) -> Iterator[pathlib.Path]:
    """Trace the body of the ``with`` statement into the folder ``out/profile``, which is yielded."""
    folder = out / FOLDER
    with jax.profiler.trace(folder):
        yield folder


def longest(folder: pathlib.Path, top: int = 12) -> list[tuple[str, int, float]]:
    """``(operation, times run, share of all operations' time)`` of the newest trace, longest first.

    Operations are XLA's, summed over devices; a number behind the name tells those of one kind apart.
    """
    newest = max(folder.rglob('*.xplane.pb'), key=lambda path: path.stat().st_mtime)
    spent: collections.Counter[str] = collections.Counter()
    times: collections.Counter[str] = collections.Counter()
    for plane in ProfileData.from_file(str(newest)).planes:
        for line in plane.lines:
            for event in line.events:
                operation = dict(event.stats).get('hlo_op')
                if event.name == operation and not event.name.startswith(CONTAINERS):
                    spent[event.name] += event.duration_ns
                    times[event.name] += 1
    total = sum(spent.values()) or 1
    return [(name, times[name], seconds / total) for name, seconds in spent.most_common(top)]
