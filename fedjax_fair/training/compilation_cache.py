"""Compiled programs on disk: a job that starts again compiles nothing, nor do recipes that share programs."""

from __future__ import annotations

import hashlib
import pathlib
import platform
import warnings

import jax

from fedjax_fair.cache_folder import cache_folder


def use_compilation_cache() -> None:
    """Switch JAX's persistent compilation cache on, unless ``JAX_COMPILATION_CACHE_DIR`` already says where it is.

    Programs for CPU hold machine code, so machines that differ in their instructions never share a folder. A folder
    that cannot be read or written costs time and nothing else: JAX's warnings, one per program, are not shown.
    """
    warnings.filterwarnings('ignore', 'Error (reading|writing) persistent compilation cache', UserWarning)
    if jax.config.values['jax_compilation_cache_dir'] is None:
        jax.config.update('jax_compilation_cache_dir', str(cache_folder(_machine())))
        jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)  # many small ones add up


def _machine() -> str:
    try:
        text = pathlib.Path('/proc/cpuinfo').read_text()
        facts = next((line for line in text.splitlines() if line.startswith(('flags', 'Features'))), '')
    except OSError:
        facts = platform.processor()
    return hashlib.sha256(f'{platform.machine()} {facts}'.encode()).hexdigest()[:16]
