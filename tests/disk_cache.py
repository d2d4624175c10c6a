"""Compiled programs on disk: runs that must agree compile the same programs, in every worker of the suite."""

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache


@pytest.fixture(scope='module', autouse=True)
def compile_once(tmp_path_factory):
    """Compile every program of this test run once; import it into a conftest to use it there."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if folder.name.startswith('popen-') else folder
    settings = {'jax_compilation_cache_dir': str(folder / 'compiled'), 'jax_persistent_cache_min_compile_time_secs': 0}
    before = {name: getattr(jax.config, name) for name in settings}
    _use(settings)
    yield
    _use(before)


def _use(settings) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX decides at its first compilation whether there is a cache
