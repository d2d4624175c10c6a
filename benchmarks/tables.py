"""What all measurements show: the machine that they are of, and tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any


def machine() -> dict[str, Any]:
    """Cores this process may use, the memory of the machine, and how busy it was in the last minute."""
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    return {'cores': len(os.sched_getaffinity(0)), 'memory_gib': round(memory / 2**30, 1), 'load': os.getloadavg()[0]}


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a markdown table."""
    return [f'| {" | ".join(cells)} |' for cells in (columns, ['---'] * len(columns), *rows)]
