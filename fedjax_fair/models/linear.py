"""The matmul of layers, whose weights' gradient XLA's CPU backend computes by its fast library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata

from fedjax_fair.core.platform import on_cpu
from fedjax_fair.core.types import Array


def apart(function: Callable[[Array], Array], x: Array) -> Array:
    """``function(x)`` in a call of its own, so that XLA writes the result to memory instead of computing it again and
    again, in a bad order, inside what follows."""
    with set_xla_metadata(inlineable='false'):
        return jax.jit(function)(x)


@jax.custom_jvp
def matmul(x: Array, kernel: Array) -> Array:
    """``x[B, I] @ kernel[I, O]``.

    The gradient of the kernel is ``x^T dy``. XLA's CPU backend has a fast library for products of matrices as they lie
    in memory, and a slower one for products with a transposed left side. So there ``x``, small beside the kernel, is
    transposed on its own.
    """
    return x @ kernel


@matmul.defjvp
def _matmul_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, kernel), (dx, dkernel) = primals, tangents
    flipped = apart(lambda x: x.T, x)
    # Reverse mode transposes this product into flipped @ dy.
    return x @ kernel, dx @ kernel + lax.dot_general(flipped, dkernel, (((0,), (0,)), ((), ())))


def dot_general(x: Array, kernel: Array, dimension_numbers: Any, **options: Any) -> Array:
    """``lax.dot_general`` for ``nn.Dense``: on CPU :func:`matmul` where that is what is asked for."""
    plain = (((x.ndim - 1,), (0,)), ((), ()))
    if on_cpu() and x.ndim == 2 and dimension_numbers == plain:
        return matmul(x, kernel)
    return lax.dot_general(x, kernel, dimension_numbers, **options)
