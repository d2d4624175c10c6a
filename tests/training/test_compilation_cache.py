"""Where compiled programs are kept."""

import warnings

import jax
import pytest

from fedjax_fair.training import compilation_cache as cache


@pytest.fixture
def restored():
    names = ('jax_compilation_cache_dir', 'jax_persistent_cache_min_compile_time_secs')
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_programs_are_kept_in_the_users_cache_and_apart_for_other_machines(restored, monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    folders = set()
    for machine in ('one', 'two'):
        monkeypatch.setattr(cache, '_machine', lambda machine=machine: machine)
        jax.config.update('jax_compilation_cache_dir', None)
        cache.use_compilation_cache()
        folders.add(jax.config.jax_compilation_cache_dir)
    assert folders == {str(tmp_path / 'fedjax_fair' / machine) for machine in ('one', 'two')}


def test_a_folder_that_is_set_already_is_kept(restored, tmp_path):
    jax.config.update('jax_compilation_cache_dir', str(tmp_path))
    cache.use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path)


def test_the_name_of_a_machine_is_stable():
    assert cache._machine() == cache._machine()
    assert len(cache._machine()) == 16


def test_a_folder_that_cannot_be_written_costs_no_warning(restored, monkeypatch, tmp_path):
    (tmp_path / 'file').touch()
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file'))
    jax.config.update('jax_compilation_cache_dir', None)
    with warnings.catch_warnings(record=True) as told:
        cache.use_compilation_cache()
        jax.jit(lambda x: x + len(str(tmp_path)))(1)
    assert not [str(one.message) for one in told]
