"""Plug-ins: Python files or modules that register recipes, models, tasks, scenarios, sources and more.

Their names, options and flags then work like our own. A package may name plug-ins in its entry points, in the group
``fedjax_fair.plugins``; these are loaded without being asked for.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fedjax_fair import registry
from fedjax_fair.errors import UserError
from fedjax_fair.registry import BUILT_IN, Registry

GROUP = 'fedjax_fair.plugins'  # of entry points
REGISTRIES = (
    registry.recipes,
    registry.models,
    registry.tasks,
    registry.sources,
    registry.scenarios,
    registry.partitions,
    registry.augmentations,
    registry.samplers,
)
PACKAGES = ('methods', 'diagnostics', 'models', 'metrics', 'data')  # packages that register what comes with us


class Plugin(NamedTuple):
    """A plug-in that is loaded: its name, the SHA-256 of its source and the module it became."""

    name: str
    sha256: str
    module: str


_loaded: dict[str, Plugin] = {}  # by name


def load(spec: str) -> Plugin:
    """Load ``my_method.py`` or ``my_package.my_method``; a file that has changed since it was loaded is loaded again.

    An error while it is imported is the plug-in's own and passes; one that registers nothing is a mistake.
    """
    _import_built_in()
    return _load_file(pathlib.Path(spec)) if spec.endswith('.py') else _load_module(spec, f'`plugin`={spec}')


def located(spec: str, folder: str | os.PathLike) -> str:
    """A plug-in that a run in ``folder`` names, where it is now.

    A file is looked for in the working folder, then in the run's folder and those above it: runs are mostly kept below
    the folder from which they were started. Anything else, or a file that is nowhere, stays as it is.
    """
    above = pathlib.Path(folder).resolve()
    places = [pathlib.Path(spec), *(parent / spec for parent in (above, *above.parents))]
    found = next((path for path in places if path.is_file()), None) if spec.endswith('.py') else None
    return spec if found is None else str(found)


@functools.cache
def load_installed() -> tuple[Plugin, ...]:
    """Load the plug-ins of installed packages, once."""
    points = importlib.metadata.entry_points(group=GROUP)
    if points:
        _import_built_in()
    return tuple(_load_module(point.module, f'entry point {point.name} of {GROUP}') for point in points)


def loaded() -> tuple[Plugin, ...]:
    """All plug-ins that are loaded."""
    return tuple(_loaded.values())


def code_digest(origin: str) -> str | None:
    """The SHA-256 of the code of an :class:`~fedjax_fair.registry.Entry`'s origin: a plug-in, a module or this package.

    For this package it is empty, since its files have versions of their own; it is None for code that has no file.
    """
    if origin == BUILT_IN:
        return ''
    if origin in _loaded:
        return _loaded[origin].sha256
    files = list(_sources(sys.modules[origin])) if origin in sys.modules else []
    return _digest(files) if files else None


def unload(name: str) -> None:
    """Forget a plug-in and what it registered."""
    _loaded.pop(name, None)
    for one in REGISTRIES:
        for key in [key for key in one if one.entry(key).origin == name]:
            del one[key]


def load_all(specs: Sequence[str]) -> None:
    """Load these plug-ins, and those of installed packages."""
    names = [pathlib.PurePath(spec).name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f'`plugin`: {name} is given twice; plug-ins need different names')
    load_installed()
    for spec in specs:
        load(spec)


def registered(plugin: str) -> list[tuple[str, str]]:
    """The kind and the name of everything that a plug-in has registered."""
    return [(one.kind, name) for one in REGISTRIES for name in one if one.entry(name).origin == plugin]


def _import_built_in() -> None:
    """Whatever we register ourselves must be there first, or it would count as the plug-in's."""
    for package in PACKAGES:
        importlib.import_module(f'fedjax_fair.{package}')


def _load_file(path: pathlib.Path) -> Plugin:
    if not path.is_file():
        raise UserError(f'`plugin`={path}: no such file; the working folder is {pathlib.Path.cwd()}')
    module = f'fedjax_fair_plugin_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}_{path.stem}'
    plugin = Plugin(path.name, _digest([path]), module)
    if _loaded.get(plugin.name) == plugin:
        return plugin
    unload(plugin.name)
    spec = importlib.util.spec_from_file_location(module, path)
    assert spec is not None and spec.loader is not None
    sys.modules[module] = made = importlib.util.module_from_spec(spec)
    try:
        with _origin(plugin.name), _folder_first(path.resolve().parent):
            spec.loader.exec_module(made)
    except BaseException:  # what it has registered so far goes with it
        del sys.modules[module]
        unload(plugin.name)
        raise
    return _keep(plugin, f'`plugin`={path}')


def _load_module(name: str, where: str) -> Plugin:
    if name in _loaded:
        return _loaded[name]
    if not all(part.isidentifier() for part in name.split('.')):
        raise UserError(f'{where}: no such module; a file is written with .py at its end')
    try:
        with _origin(name):
            made = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f'{name}.'.startswith(f'{error.name}.'):
            raise  # something that the plug-in itself imports
        raise UserError(f'{where}: no such module; a file is written with .py at its end') from None
    return _keep(Plugin(name, _digest(_sources(made)), name), where)


def _sources(module: types.ModuleType) -> Iterable[pathlib.Path]:
    file = pathlib.Path(getattr(module, '__file__', None) or '')
    return sorted(file.parent.rglob('*.py')) if file.name == '__init__.py' else [file] if file.is_file() else []


def _digest(files: Iterable[pathlib.Path]) -> str:
    return hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()


def _keep(plugin: Plugin, where: str) -> Plugin:
    if not registered(plugin.name):
        raise UserError(f'{where} registers nothing; decorate a factory with @register.recipe, @register.model, ...')
    _loaded[plugin.name] = plugin
    return plugin


@contextlib.contextmanager
def _origin(name: str) -> Iterator[None]:
    """While a plug-in is loaded, what is registered is its own."""
    before, Registry.origin = Registry.origin, name
    try:
        yield
    finally:
        Registry.origin = before


@contextlib.contextmanager
def _folder_first(folder: pathlib.Path) -> Iterator[None]:
    """A plug-in may import the modules beside it, as a script may."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
