"""Options: the parameters of a factory that have a default, with their types, ranges, choices and help texts.

A parameter is written ``name: Annotated[float, 'help', at_least(0)] = 0.1`` or ``name: Literal['a', 'b'] = 'a'``;
``search(0.001, 1, log=True)`` beside the range says what tuning tries.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from fedjax_fair.errors import UserError, shown
from fedjax_fair.parsing import PARSERS, number  # noqa: F401 (the tuner takes it from here)
from fedjax_fair.ranges import (  # noqa: F401 (factories take them from here)
    AnyNumber,
    Count,
    Decay,
    NonNegative,
    Positive,
    Range,
    Search,
    Share,
    Squared,
    above,
    at_least,
    between,
    fits_float32,
    search,
    search_among,
)

T = TypeVar('T')
Factory = Callable[..., Any]
F = TypeVar('F', bound=Factory)
AUTO = 'auto'  # the word that leaves a choice to the program
NEXT_PAIR = re.compile(r',(?=\s*(?:\w+\s*=|$))')
LARGEST = 2**31 - 1  # of a whole number without a bound of its own: devices count in 32 bits


# --- options ---------------------------------------------------------------------------------------------------------


class Option(NamedTuple):
    """One option of a factory, read off its signature.

    A parameter is written ``name: Annotated[type, 'help', at_least(0), search(0.01, 1)] = default``; help, range and
    search space may be left out. ``kind`` is the type without ``None``; ``choices`` are those of a ``Literal``;
    ``notes`` are whatever else stands in ``Annotated``.
    """

    name: str
    default: Any
    kind: Any
    help: str = ''
    range: Range | None = None
    choices: tuple[Any, ...] = ()
    notes: tuple[Any, ...] = ()
    search: Search | None = None

    def parse(self, text: str, label: str | None = None) -> Any:
        """The value that a text from the command line means, after refusing one that is not allowed.

        ``label`` names the option in error messages.
        """
        value = self.read(text, label)
        return value if value is None else self.check(value, label)

    def read(self, text: str, label: str | None = None) -> Any:
        """The value that a text means; whether it is allowed is not asked.

        An empty text means None where that is the default.
        """
        if not text and self.default is None:
            return None
        parser = PARSERS.get(self.kind, str)
        try:
            return parser(text)
        except ValueError:
            quoted = _quoted(label or self.name)
            raise UserError(f'{quoted}={shown(text)}: expected {_EXPECTED[self.kind]}{self._example()}') from None

    def check(self, value: Any, label: str | None = None) -> Any:
        """The value, after refusing one that is not allowed; a traced number cannot be looked at."""
        label = _quoted(label or self.name)
        if self.choices and value not in self.choices and value != self.default:
            raise UserError(f'{label}={value!r} {not_one_of(value, self.choices, repr)}')
        if value is not self.default and not _is_of_kind(value, self.kind):
            raise UserError(f'{label}={value!r}: expected {_EXPECTED[self.kind]}{self._example()}')
        for one in map(_known, value if isinstance(value, tuple | list) else (value,)):
            is_number = isinstance(one, numbers.Real) and not isinstance(one, bool)
            if is_number and (wrong := self._wrong(one)):
                raise UserError(f'{label}={_shown(value)} {wrong}')
        return value

    def _wrong(self, value: Any) -> str:
        """What is wrong with a number; nothing where it is allowed."""
        if isinstance(value, float) and not math.isfinite(value):
            return 'must be a finite number'
        if self.kind is float and not fits_float32(value):
            return f'is {"0" if abs(value) < 1 else "infinite"} in the 32 bits of float32'
        if self.range is not None and value not in self.range:
            rounded = value not in self.range[:2] and value in self.range._replace(above=False, below=False)
            return f'must be {self.range}' + ', also in the 32 bits of float32' * rounded
        return f'must be at most {LARGEST}' if value > LARGEST and self._is_count else ''

    @property
    def _is_count(self) -> bool:
        """Whether this is a whole number, or several, without an upper bound of their own."""
        if self.range is None:
            return self.kind is int
        return self.kind in (int, tuple[int, ...]) and self.range.high is None

    def check_search(self, label: str | None = None) -> None:
        """Refuse a search space of an option that is no float, or with values that the option may not have."""
        if self.search is None:
            return
        label = _quoted(label or self.name)
        if not isinstance(self.default, float):
            raise UserError(f'{label}: only an option whose default is a float has a search space')
        for value in self.search.among or (self.search.low, self.search.high):
            if self.range is not None and value not in self.range:
                raise UserError(f'{label}: the search space ({self.search}) must be {self.range}')

    def _example(self) -> str:
        if self.default in (None, '', ()) or self.kind is bool:
            return ''
        return f' such as {"x".join(map(str, self.default)) if isinstance(self.default, tuple) else self.default}'


def _is_of_kind(value: Any, kind: Any) -> bool:
    """Whether a value is of a simple kind; arrays, which may be traced, and other kinds are taken on trust."""
    if kind == tuple[int, ...]:
        return isinstance(value, tuple | list) and all(_is_of_kind(one, int) for one in value)
    if kind not in _ABSTRACT or (hasattr(value, 'dtype') and kind is not str):
        return True
    return isinstance(value, _ABSTRACT[kind]) and (kind is bool or not isinstance(value, bool))


_ABSTRACT = {int: numbers.Integral, float: numbers.Real, bool: bool, str: str}


def _known(value: Any) -> Any:
    """The number that an array of no dimensions holds, unless it is traced; all else as it is."""
    if getattr(value, 'ndim', None) != 0 or not hasattr(value, 'item'):
        return value
    try:
        return value.item()
    except TypeError:  # a traced value cannot be looked at
        return value


def _quoted(label: str) -> str:
    """An option in error messages: its name in backquotes, or a phrase that has them, '`source_options`=split'."""
    return label if '`' in label else f'`{label}`'


def _shown(value: Any) -> str:
    return shown(','.join(map(str, value)) if isinstance(value, tuple | list) else value)


OPTION_TYPES = (*PARSERS, str, Any)  # Any: a value that only Python gives
_EXPECTED = {
    bool: 'true or false',
    int: 'a whole number',
    float: 'a number',
    str: 'a text',
    tuple[int, ...]: 'whole numbers joined by x or commas',
}


def options_of(factory: Factory) -> dict[str, Option]:
    """The options of a factory: its parameters that have a default. What has none is given by the engine.

    >>> def prox(mu: Annotated[float, 'strength of the pull', at_least(0)] = 0.01): ...
    >>> options_of(prox)['mu'].help
    'strength of the pull'
    """
    hints = typing.get_type_hints(_plain(factory), include_extras=True)
    parameters = inspect.signature(factory).parameters.values()
    return {p.name: _option(p, hints.get(p.name, _kind_of(p.default))) for p in parameters if p.default is not p.empty}


def _kind_of(default: Any) -> Any:
    """The type of an option without annotation: that of its default."""
    return str if default is None else tuple[int, ...] if isinstance(default, tuple) else type(default)


def _plain(factory: Factory) -> Factory:
    """The function itself, under partial applications and decorators."""
    while isinstance(factory, functools.partial) or hasattr(factory, '__wrapped__'):
        factory = factory.func if isinstance(factory, functools.partial) else factory.__wrapped__
    return factory


def _option(parameter: inspect.Parameter, hint: Any) -> Option:
    kind, notes = _without_none(hint)
    choices: tuple[Any, ...] = ()
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        kind = type(choices[0])
    help = next((note for note in notes if isinstance(note, str)), '')
    range = next((note for note in notes if isinstance(note, Range)), None)
    space = next((note for note in reversed(notes) if isinstance(note, Search)), None)
    others = tuple(note for note in notes if not isinstance(note, str | Range | Search))
    return Option(parameter.name, parameter.default, kind, help, range, choices, others, space)


def check_values(options: Mapping[str, Option], values: Mapping[str, Any], label: Callable[[str], str] = str) -> None:
    """Refuse values that the options of these names may not have; what is no option is passed over."""
    for name, value in values.items():
        if name in options:
            options[name].check(value, label(name))


def with_checked_ranges(function: F) -> F:
    """The function with a check, before every call, of those arguments that declare a range."""
    signature = inspect.signature(function)
    options = {name: option for name, option in options_of(function).items() if option.range is not None}

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_values(options, signature.bind(*args, **kwargs).arguments)
        return function(*args, **kwargs)

    return typing.cast(F, checked)


def _without_none(hint: Any) -> tuple[Any, tuple]:
    """The type of a hint without ``Annotated`` and ``| None``, and the notes that ``Annotated`` adds."""
    notes: tuple = ()
    while True:
        if typing.get_origin(hint) is Annotated:
            hint, *added = typing.get_args(hint)
            notes = (*notes, *added)
        elif typing.get_origin(hint) in (types.UnionType, typing.Union):
            hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        else:
            return hint, notes


NUM_CLASSES = Option('num_classes', None, int, 'classes of the task, outputs of the network', at_least(1))


def not_one_of(value: Any, known: Iterable[Any], shown: Callable[[Any], str] = str) -> str:
    """``is not one of A, B, C``, with what was probably meant.

    >>> not_one_of('fedprx', ['fedavg', 'fedprox'])
    "is not one of fedavg, fedprox; did you mean 'fedprox'?"
    """
    known = list(known)
    return f'is not one of {", ".join(map(shown, known))}{did_you_mean(value, known)}'


def did_you_mean(value: Any, known: Iterable[Any]) -> str:
    """What was probably meant, as the end of a message; nothing where no known name is like the value.

    >>> did_you_mean('fedprx', ['fedavg', 'fedprox']), did_you_mean('moon', ['fedavg', 'fedprox'])
    ("; did you mean 'fedprox'?", '')
    """
    close = difflib.get_close_matches(str(value), map(str, known), 1)
    return f'; did you mean {close[0]!r}?' if close else ''


def chosen(label: str, word: str, meanings: Mapping[str, T]) -> T:
    """What a word stands for; ``label`` names the argument in the message about one that stands for nothing.

    >>> chosen('rule', 'double', {'double': 2, 'half': 0.5})
    2
    """
    if word not in meanings:
        raise UserError(f'{_quoted(label)}={word!r} {not_one_of(word, meanings, repr)}')
    return meanings[word]


def pairs(label: str, text: str | None) -> dict[str, str]:
    """``'name=value,name=value'`` as a dict; a comma is part of a value where no ``name=`` follows it.

    >>> pairs('source_options', 'label=dx, patient=^(P[0-9]{1,3})_')
    {'label': 'dx', 'patient': '^(P[0-9]{1,3})_'}
    """
    options: dict[str, str] = {}
    for pair in filter(str.strip, NEXT_PAIR.split(text or '')):
        name, equals, value = (part.strip() for part in pair.partition('='))
        if not equals or not name or not value or name in options:
            raise UserError(f'`{label}`={shown(text)} must be written name=value,name=value with different names')
        options[name] = value
    return options


def resolve(
    owner: str,
    options: Mapping[str, Option],
    given: Mapping[str, Any],
    label: Callable[[str], str] = str,
    noun: str = 'option',
) -> dict[str, Any]:
    """The values of all options: texts are parsed, values are checked, defaults fill in the rest.

    ``owner`` is who has the options; in error messages ``label(name)`` names an option and ``noun`` says what it is.

    >>> def prox(mu: NonNegative = 0.01): ...
    >>> resolve('prox', options_of(prox), {'mu': '0.5'})
    {'mu': 0.5}
    """
    values = {name: option.default for name, option in options.items()}
    for name, value in given.items():
        if name not in options:
            known = f'has no {noun} {name!r}; it has: {", ".join(options) or "none"}'
            hint = did_you_mean(name, options)
            raise UserError(f'{_quoted(label(name))}={_shown(value)}: {owner} {known}{hint}')
        read = options[name].parse if isinstance(value, str) else options[name].check
        values[name] = read(value, label(name))
    return values
