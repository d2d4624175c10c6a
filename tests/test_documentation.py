"""Examples in docstrings are true."""

import doctest
import importlib
import pathlib
import pkgutil

import pytest

import fedjax_fair

NAMES = ['fedjax_fair', *(module.name for module in pkgutil.walk_packages(fedjax_fair.__path__, 'fedjax_fair.'))]
MODULES = [
    name
    for name in NAMES
    if (origin := importlib.util.find_spec(name).origin) and '>>> ' in pathlib.Path(origin).read_text()
]


@pytest.mark.parametrize('name', MODULES)
def test_examples(name):
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried > 0
    assert failed == 0
