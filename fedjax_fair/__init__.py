"""Fair federated learning in JAX: an engine, methods that compose, data, and experiments that report fairness.

The names below are the public API. Each is imported when it is first used, so that ``import fedjax_fair`` is quick; so
are the packages, such as ``fedjax_fair.ops``.

>>> import fedjax_fair
>>> [method.name for method in fedjax_fair.make_methods('fedprox+server_adam')]
['fedprox', 'server_adam']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what editors and mypy see; a test compares it with _HOMES
    from fedjax_fair.core import Algorithm, ClientMap, Local, Method, Phase, Stage, build
    from fedjax_fair.data import make_scenario
    from fedjax_fair.errors import UserError
    from fedjax_fair.methods import make_methods
    from fedjax_fair.metrics import make_task
    from fedjax_fair.models import make_model
    from fedjax_fair.registry import register
    from fedjax_fair.report import verdict
    from fedjax_fair.testing import scripted_rounds
    from fedjax_fair.training import Config, compare, finished, prepare, run, sweep, tune

    __version__: str

_HOMES: dict[str, tuple[str, ...]] = {  # packages and modules, and the names that they give
    'core': ('Algorithm', 'ClientMap', 'Local', 'Method', 'Phase', 'Stage', 'build'),
    'data': ('make_scenario',),
    'diagnostics': (),
    'errors': ('UserError',),
    'methods': ('make_methods',),
    'metrics': ('make_task',),
    'models': ('make_model',),
    'ops': (),
    'plugins': (),
    'registry': ('register',),
    'report': ('verdict',),
    'results': (),
    'testing': ('scripted_rounds',),
    'training': ('Config', 'compare', 'finished', 'prepare', 'run', 'sweep', 'tune'),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    'Algorithm',
    'ClientMap',
    'Config',
    'Local',
    'Method',
    'Phase',
    'Stage',
    'UserError',
    '__version__',
    'build',
    'compare',
    'finished',
    'make_methods',
    'make_model',
    'make_scenario',
    'make_task',
    'prepare',
    'register',
    'run',
    'scripted_rounds',
    'sweep',
    'tune',
    'verdict',
]


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
