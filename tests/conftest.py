"""Strict numerics for every test: no silent dtype or rank promotion, four virtual CPU devices, no display."""

import os

# Tests compile much and compute little: leave most of LLVM's optimisation out (level 0 has given wrong numbers).
FLAGS = (
    '--xla_force_host_platform_device_count=4',
    '--xla_backend_optimization_level=1',
    '--xla_llvm_disable_expensive_passes=true',
)
os.environ['XLA_FLAGS'] = ' '.join([os.environ.get('XLA_FLAGS', ''), *FLAGS])
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('MPLBACKEND', 'agg')

import jax  # noqa: E402  (after the flags above)

jax.config.update('jax_numpy_dtype_promotion', 'strict')
jax.config.update('jax_numpy_rank_promotion', 'raise')
