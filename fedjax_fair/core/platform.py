"""The platform that JAX computes on."""

from __future__ import annotations

import jax


def on_cpu() -> bool:
    """Whether programs run on CPU, where some of them are written differently to be fast."""
    return jax.default_backend() == 'cpu'
