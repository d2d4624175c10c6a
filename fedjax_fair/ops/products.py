"""Matrix products that keep every digit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec('P')
R = TypeVar('R')


def precise(function: Callable[P, R]) -> Callable[P, R]:
    """The function with all its matrix products at the highest precision.

    Accelerators round what they multiply to fewer digits: harmless in a network, but signs of inner products and
    eigenvectors decide who is heard, and the matrices here are small.
    """

    @functools.wraps(function)
    def at_highest(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.default_matmul_precision('highest'):
            return function(*args, **kwargs)

    return at_highest
