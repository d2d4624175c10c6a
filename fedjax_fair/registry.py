"""Registries: a factory is registered once, and its signature is the declaration of its options.

Names, listings, flags, "did you mean" and error messages all come from here.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple, Protocol, overload

from fedjax_fair.errors import UserError
from fedjax_fair.options import OPTION_TYPES, F, Factory, Option, check_values, not_one_of, options_of, resolve

BUILT_IN = 'fedjax_fair'
PLUGINS = 'fedjax_fair.plugins'
TRACED = (
    'it looks at the value of a float option, which a sweep or check-method traces; '
    'declare its range in Annotated, and use jnp.where in place of if'
)
ROLE = re.compile(r':\w+:`~?(?:[\w.]*\.)?(\w+)`')  # ``:func:`~package.name` `` is shown as ``name``


class Entry(NamedTuple):
    """A registered factory; ``origin`` is the plug-in, the module or the package that registered it."""

    make: Factory
    about: str
    options: dict[str, Option]
    origin: str
    section: str
    notes: Mapping[str, Any]


class Registry(MutableMapping[str, Factory]):
    """Factories by name.

    ``register`` is a decorator. The options of a factory are checked whenever it is called, so that a composed recipe
    and a user of Python get the same errors as the command line. A ValueError of a factory from outside of this package
    is about its options, so it becomes a :class:`UserError`.
    """

    origin: str | None = None  # the plug-in that is loaded now

    def __init__(self, kind: str, *homes: str):
        """``homes`` are the modules that fill the registry; they are imported when somebody first looks into it."""
        self.kind = kind
        self._settings: frozenset[str] = frozenset()
        self._homes = list(homes)
        self._entries: dict[str, Entry] = {}

    @property
    def _known(self) -> dict[str, Entry]:
        while self._homes:
            importlib.import_module(self._homes.pop())
        return self._entries

    @overload
    def register(self, factory: F, /) -> F: ...

    @overload
    def register(self, *names: str, section: str = '', about: str = '', **notes: Any) -> Callable[[F], F]: ...

    def register(self, *names: Any, section: str = '', about: str = '', **notes: Any) -> Any:
        """Register a factory under its own name, or under the names given: ``@register`` or ``@register('a', 'b')``.

        ``about`` is the line in listings, by default the first of the docstring; ``section`` groups entries there;
        ``notes`` are for whoever reads this registry.
        """
        if len(names) == 1 and callable(names[0]):
            return self.register(section=section, about=about, **notes)(names[0])

        def decorate(factory: F) -> F:
            own = factory.__name__
            careful = self._refusing_mistakes(factory, names[0] if names and own not in names else own)
            for name in names or (factory.__name__,):
                self._add(name, careful, section, about, notes)
            return careful

        return decorate

    def _refusing_mistakes(self, factory: F, name: str) -> F:
        """The factory with a check of its options before every call."""
        options, signature, origin = options_of(factory), inspect.signature(factory), _origin_of(factory)

        @functools.wraps(factory)
        def careful(*args: Any, **kwargs: Any) -> Any:
            check_values(options, signature.bind(*args, **kwargs).arguments, lambda option: f'{name}.{option}')
            try:
                return factory(*args, **kwargs)
            except (ValueError, TypeError) as error:
                if isinstance(error, UserError) or origin == BUILT_IN:
                    raise
                if _asks_for_a_traced_value(error):
                    raise UserError(f'{self.kind} {name}: {TRACED}') from error
                if isinstance(error, ValueError):
                    raise UserError(f'{self.kind} {name}: {error}') from error
                raise

        return typing.cast(F, careful)

    def _add(self, name: str, factory: Factory, section: str, about: str, notes: Mapping[str, Any]) -> None:
        origin = _origin_of(factory)
        old = (self._entries if origin == BUILT_IN else self._known).get(name)
        if old is not None and (old.origin != origin or Registry.origin is not None):
            raise UserError(f'{origin} registers {self.kind} {name!r}, which {old.origin} has registered')
        options = options_of(factory)
        for option in options.values():
            if option.kind not in OPTION_TYPES:
                known = ', '.join(inspect.formatannotation(kind) for kind in OPTION_TYPES if kind is not Any)
                kind = inspect.formatannotation(option.kind)
                raise UserError(f'{self.kind} {name}: {name}.{option.name} is of type {kind}; options are of {known}')
            option.check_search(f'{name}.{option.name}')
        if origin != BUILT_IN:
            self._refuse_names_of_settings(name, options)
        first = ROLE.sub(r'\1', (inspect.getdoc(factory) or '').split('\n')[0]).replace('``', '')
        self._entries[name] = Entry(factory, about or first, options, origin, section, notes)

    def beside_settings(self, names: Collection[str]) -> None:
        """Options are given under their bare names beside the settings of a run, which have these names.

        Whoever has the settings says so; what plug-ins have registered before is looked at again.
        """
        self._settings = frozenset(names)
        for name, entry in self._entries.items():
            if entry.origin != BUILT_IN:
                self._refuse_names_of_settings(name, entry.options)

    def _refuse_names_of_settings(self, name: str, options: Mapping[str, Option]) -> None:
        """An option with the name of a setting could never be set: what is given would be the setting."""
        for taken in (option for option in options if option in self._settings):
            raise UserError(
                f'{self.kind} {name}: its option `{taken}` has the name of the setting `{taken}` of a run; '
                f'call it otherwise, such as {name}_{taken}'
            )

    def entry(self, name: str, where: str = '') -> Entry:
        """The entry of a name; ``where`` begins the message about an unknown one."""
        if name not in self:
            raise UserError(f'{f"{where}: " if where else f"{self.kind} "}{name!r} {not_one_of(name, self._known)}')
        return self._known[name]

    def options(self, name: str) -> dict[str, Option]:
        """The options of one factory."""
        return self.entry(name).options

    def parameters(self, name: str) -> tuple[str, ...]:
        """All parameters of one factory: its options, and what the engine gives."""
        return tuple(inspect.signature(self.entry(name).make).parameters)

    def make(self, name: str, *args: Any, label: Callable[[str], str] = str, **given: Any) -> Any:
        """Call a factory with these options, which may be texts."""
        entry = self.entry(name)
        values = resolve(name, entry.options, given, label)
        return entry.make(*args, **{option: values[option] for option in given})

    def __getitem__(self, name: str) -> Factory:
        return self._known[name].make

    def __setitem__(self, name: str, factory: Factory) -> None:
        self._add(name, self._refusing_mistakes(factory, name), '', '', {})

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __contains__(self, name: object) -> bool:
        """Whether a name is registered. If not, installed plug-ins, which may register it, are loaded first."""
        if name not in self._known and Registry.origin is None:
            importlib.import_module(PLUGINS).load_installed()
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def items(self) -> Any:
        """Names and factories in the order of registration, as those of a dict."""
        return {name: entry.make for name, entry in self._known.items()}.items()

    def __len__(self) -> int:
        return len(self._known)


def _asks_for_a_traced_value(error: Exception) -> bool:
    import jax  # whoever gave a traced value has imported it

    return isinstance(error, jax.errors.ConcretizationTypeError)


def _origin_of(factory: Factory) -> str:
    """The plug-in that is loaded now, else this package or the module that has the factory."""
    module = getattr(factory, '__module__', None) or BUILT_IN
    return Registry.origin or (BUILT_IN if module.partition('.')[0] == BUILT_IN else module)


recipes = Registry('recipe', 'fedjax_fair.diagnostics', 'fedjax_fair.methods')
models = Registry('model', 'fedjax_fair.models')
tasks = Registry('task', 'fedjax_fair.metrics')
sources = Registry('source', 'fedjax_fair.data')
scenarios = Registry('scenario', 'fedjax_fair.data')
partitions = Registry('partition scheme', 'fedjax_fair.data')
augmentations = Registry('augmentation', 'fedjax_fair.data.augment')
samplers = Registry('sampler', 'fedjax_fair.data.samplers')
DIAGNOSTICS = 'diagnostics'


class Decorator(Protocol):
    """What registers a factory and gives it back, with its own type: ``@decorator`` or ``@decorator('name', ...)``."""

    @overload
    def __call__(self, factory: F, /) -> F: ...

    @overload
    def __call__(self, *names: str, about: str = '', **notes: Any) -> Callable[[F], F]: ...


class Register(NamedTuple):
    """The public decorators: ``@register.recipe``, ``@register.model``, ..."""

    recipe: Decorator = recipes.register
    diagnostic: Decorator = functools.partial(recipes.register, section=DIAGNOSTICS)
    model: Decorator = models.register
    task: Decorator = tasks.register
    source: Decorator = sources.register
    scenario: Decorator = scenarios.register
    partition: Decorator = partitions.register
    augmentation: Decorator = augmentations.register
    sampler: Decorator = samplers.register


register = Register()
