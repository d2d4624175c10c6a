"""Fair federated learning in JAX: an engine, methods that compose, data, and experiments that report fairness.

The names below are the public API. Each is imported when it is first used, so that ``import fedjax_fair`` is quick; so
are the packages, such as ``fedjax_fair.ops``.

>>> import fedjax_fair
>>> [method.name for method in fedjax_fair.make_methods('fedprox+server_adam')]
['fedprox', 'server_adam']
"""

from __future__ import annotations

import ast
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the public names: type checkers see them here, and _homes reads them off these lines
    from fedjax_fair.core import Algorithm as Algorithm
    from fedjax_fair.core import ClientMap as ClientMap
    from fedjax_fair.core import Local as Local
    from fedjax_fair.core import Method as Method
    from fedjax_fair.core import Phase as Phase
    from fedjax_fair.core import Stage as Stage
    from fedjax_fair.core import build as build
    from fedjax_fair.data import make_scenario as make_scenario
    from fedjax_fair.errors import UserError as UserError
    from fedjax_fair.methods import make_methods as make_methods
    from fedjax_fair.metrics import make_task as make_task
    from fedjax_fair.models import make_model as make_model
    from fedjax_fair.registry import register as register
    from fedjax_fair.report import verdict as verdict
    from fedjax_fair.testing import scripted_rounds as scripted_rounds
    from fedjax_fair.training import Config as Config
    from fedjax_fair.training import compare as compare
    from fedjax_fair.training import finished as finished
    from fedjax_fair.training import prepare as prepare
    from fedjax_fair.training import run as run
    from fedjax_fair.training import sweep as sweep
    from fedjax_fair.training import tune as tune

    __version__: str

_PACKAGES = ('diagnostics', 'ops', 'plugins', 'results')  # public as well, without names here


def _homes() -> dict[str, tuple[str, ...]]:
    """Packages and modules, and the names that each gives."""
    loader: Any = __spec__.loader
    block = next(node for node in ast.parse(loader.get_source(__name__)).body if isinstance(node, ast.If))
    names: dict[str, tuple[str, ...]] = dict.fromkeys(_PACKAGES, ())
    for line in (line for line in block.body if isinstance(line, ast.ImportFrom)):
        home = (line.module or '').removeprefix(f'{__name__}.')
        names[home] = (*names.get(home, ()), *(alias.name for alias in line.names))
    return names


_HOMES = _homes()
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted([*_HOME_OF, '__version__'])


def __getattr__(name: str) -> Any:
    if name == '__version__':
        value: Any = _version()
    elif name in _HOME_OF:
        value = getattr(importlib.import_module(f'{__name__}.{_HOME_OF[name]}'), name)
    elif name in _HOMES:
        value = importlib.import_module(f'{__name__}.{name}')
    else:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    globals()[name] = value  # so that this function is asked once per name
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HOMES})


def _version() -> str:
    import importlib.metadata  # slow, and a signal is answered only once this package is imported

    try:
        return importlib.metadata.version('fedjax-fair')
    except importlib.metadata.PackageNotFoundError:  # a checkout on the path that was never installed
        return '0+unknown'
