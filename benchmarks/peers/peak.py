"""The machine's float32 peak: the best of many products of 2048x2048 matrices on all cores.

Run as a module it prints what it found as JSON. PyTorch's matmul reaches more than NumPy's, so this runs in PyTorch's
environment where there is one, and with NumPy elsewhere.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

SIZE = 2048
REPEATS = 25


def measure(python: str, **process: Any) -> dict[str, Any]:
    """``gflops`` and the library that reached it, measured in a process of its own by the given Python."""
    done = subprocess.run([python, '-m', __spec__.name], stdout=subprocess.PIPE, text=True, check=True, **process)
    return json.loads(done.stdout)


def _product() -> tuple[Callable[[], object], str]:
    try:
        import torch
    except ImportError:
        import numpy as np

        numbers = np.random.default_rng(0).random((SIZE, SIZE), np.float32)
        return lambda: numbers @ numbers, f'numpy {np.__version__}'
    matrix = torch.rand(SIZE, SIZE)
    return lambda: matrix @ matrix, f'torch {torch.__version__}'


def _best_seconds(work: Callable[[], object]) -> float:
    best = float('inf')
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


if __name__ == '__main__':
    product, library = _product()
    print(json.dumps({'gflops': 2 * SIZE**3 / _best_seconds(product) / 1e9, 'library': library}))
