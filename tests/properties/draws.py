"""What property tests draw. There are few shapes, so that a kernel is compiled once for each, and values vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

CLIENTS = 5
LENGTHS = (1, 2, CLIENTS)  # of cohorts for kernels that compile quickly


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers that float32 can hold; denormal ones are left out, since compiled code may round them to 0."""
    return st.floats(low, high, width=32, allow_subnormal=False)


def arrays(*shape: int, low: float = -8.0, high: float = 8.0) -> st.SearchStrategy[np.ndarray]:
    """float32 arrays of a shape."""
    return hnp.arrays(np.float32, shape, elements=numbers(low, high))


def masks(*shape: int) -> st.SearchStrategy[np.ndarray]:
    """Masks that leave at least one entry."""
    return hnp.arrays(bool, shape or (CLIENTS,)).filter(np.any)


def of_some_clients(low: float = -8.0, high: float = 8.0) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    """A number of every client in a cohort of one of a few sizes, and the mask of the cohort."""

    def cohort(clients: int) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
        return st.tuples(arrays(clients, low=low, high=high), masks(clients))

    return st.sampled_from(LENGTHS).flatmap(cohort)


def on_device(kernel: Callable[..., Any], **static: Any) -> Callable[..., Any]:
    """The compiled kernel as a function of NumPy arrays: ``float64`` comes in as the default type."""
    compiled = jax.jit(lambda *given: kernel(*given, **static))
    return lambda *given: jax.tree.map(np.asarray, compiled(*jax.tree.map(jnp.asarray, given)))
