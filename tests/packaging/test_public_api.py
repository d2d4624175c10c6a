"""The public names: all are there, mypy and the interpreter agree on them, and importing the package stays light."""

import ast
import importlib.metadata
import json
import pathlib
import subprocess
import sys

import pytest

import fedjax_fair

HEAVY = ('jax', 'tensorflow', 'tensorflow_datasets', 'matplotlib', 'flax', 'flax.nnx', 'sklearn', 'orbax', 'grain')


def modules_after(statement: str) -> set[str]:
    """The modules a fresh interpreter has imported after a statement."""
    code = f'{statement}\nimport json, sys\nprint(json.dumps(list(sys.modules)))'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_package_alone_imports_nothing_large():
    found = modules_after('import fedjax_fair; fedjax_fair.__version__; dir(fedjax_fair)')
    assert 'fedjax_fair' in found
    assert not found.intersection(HEAVY)
    assert {name for name in found if name.startswith('fedjax_fair.')} == set()


def test_the_whole_public_api_leaves_drawing_tensorflow_and_nnx_alone():
    found = modules_after('from fedjax_fair import *; build, run')
    assert 'fedjax_fair.core.engine' in found
    assert not found.intersection({'tensorflow', 'tensorflow_datasets', 'matplotlib', 'flax.nnx', 'sklearn'})


@pytest.mark.parametrize('name', fedjax_fair.__all__)
def test_every_name_is_there(name):
    assert getattr(fedjax_fair, name) is not None
    assert name in dir(fedjax_fair)


def test_packages_are_imported_when_they_are_asked_for():
    found = modules_after('import fedjax_fair; fedjax_fair.ops.gram')
    assert 'fedjax_fair.ops.gram' in found
    assert 'fedjax_fair.training' not in found
    assert set(fedjax_fair._HOMES) <= set(dir(fedjax_fair))


def test_mypy_sees_the_names_that_the_interpreter_finds():
    tree = ast.parse(pathlib.Path(fedjax_fair.__file__).read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == 'TYPE_CHECKING')
    imports = {(n.module, alias.name) for n in block.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    homes = {(f'fedjax_fair.{home}', name) for home, names in fedjax_fair._HOMES.items() for name in names}
    assert imports == homes
    assert {name for _, name in homes} | {'__version__'} == set(fedjax_fair.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'fedjax_fair' has no attribute 'biuld'"):
        fedjax_fair.biuld  # noqa: B018


def test_the_version_without_an_installation(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    assert fedjax_fair.__version__ == importlib.metadata.version('fedjax-fair')
    monkeypatch.setattr(importlib.metadata, 'version', missing)
    assert fedjax_fair._version() == '0+unknown'
