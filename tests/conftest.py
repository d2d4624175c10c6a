"""Strict numerics for every test: no silent dtype or rank promotion, four virtual CPU devices, no display."""

import gc
import itertools
import os
import pathlib

# Tests compile much and compute little: leave most of LLVM's optimisation out (level 0 has given wrong numbers), and
# let XLA write loops without its fusion emitters, which take as long to compile as all the rest. What the caller sets
# comes last and so wins.
FLAGS = (
    '--xla_force_host_platform_device_count=4',
    '--xla_cpu_use_fusion_emitters=false',
    '--xla_backend_optimization_level=1',
    '--xla_llvm_disable_expensive_passes=true',
)
os.environ['XLA_FLAGS'] = ' '.join([*FLAGS, os.environ.get('XLA_FLAGS', '')])
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('MPLBACKEND', 'agg')

import hypothesis  # noqa: E402
import jax  # noqa: E402  (after the flags above)
import pytest  # noqa: E402

jax.config.update('jax_numpy_dtype_promotion', 'strict')
jax.config.update('jax_numpy_rank_promotion', 'raise')

# The same few examples in every run: a test suite must not fail by luck. `--hypothesis-profile=search` looks for more.
hypothesis.settings.register_profile('reproducible', derandomize=True, deadline=None, max_examples=25, database=None)
hypothesis.settings.register_profile('search', deadline=None, max_examples=1000, database=None)
hypothesis.settings.load_profile('reproducible')

from lab import lab  # noqa: E402  (after the settings above)

MAPS, MOST_MAPS = pathlib.Path('/proc/self/maps'), 40_000  # Linux grants a process 65,530
finished = itertools.count(1)


@pytest.fixture(autouse=True)
def room_for_programs():
    """Compiled programs map memory, some 2,000 times per recipe; too many and the next compilation is a crash."""
    yield
    if next(finished) % 20 == 0 and MAPS.exists() and MAPS.read_bytes().count(b'\n') > MOST_MAPS:
        lab.cache_clear()
        jax.clear_caches()
        gc.collect()
