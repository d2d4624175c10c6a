"""Sign consistency: how often a client moved a parameter the same way, counted in one byte."""

from __future__ import annotations

import jax.numpy as jnp

from fedjax_fair.core.types import Array, default_float

FULL = 255  # the most a byte can count
TIE = 1e-6  # shares this near to the bar are on it: 3 of 10 is 0.3, whatever the rounding


def consistent(same: Array, seen: Array, tau: Array | float, strict: bool = True) -> Array:
    """Whether ``same`` of ``seen`` moves are more than (``strict``) or at least a share ``tau``; ties are exact.

    >>> consistent(jnp.array([2, 3, 4]), jnp.array(10), 0.3).tolist()
    [False, False, True]
    """
    seen = seen.astype(default_float())
    above, tie = same.astype(seen.dtype) - tau * seen, TIE * seen
    return above > tie if strict else above >= -tie


def counted(count: Array, seen: Array, sign: Array) -> tuple[Array, Array]:
    """Count and number of observations after one more ``sign``, both uint8.

    Exact for 255 observations; then both are halved together, so that older moves fade.

    >>> [int(v) for v in counted(jnp.uint8(200), jnp.uint8(255), jnp.array(True))]
    [101, 128]
    """
    full = seen == FULL
    count, seen = (jnp.where(full, value // jnp.uint8(2), value) for value in (count, seen))
    return count + sign.astype(jnp.uint8), seen + jnp.uint8(1)
