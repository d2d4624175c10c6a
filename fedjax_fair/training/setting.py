"""How a setting of a run is declared: its default, its help, its values, and how it is written on the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from fedjax_fair.options import Option, Range, Search

Allowed = Range | Iterable[str] | Callable[[], Iterable[str]]  # numbers, or names: fixed ones, or those registered now


class Written(NamedTuple):
    """How a setting is written on the command line: the flags it has, and its value from theirs."""

    flags: Callable[[Option], Iterable[Option]]
    value: Callable[[Mapping[str, Any]], Any]


AS_ONE_FLAG = Written(lambda option: [option], lambda given: next(iter(given.values())))
AS_PARTS = Written(lambda option: [], dict)  # --part.key=value
AS_PLUGINS = Written(
    lambda option: [option._replace(name='plugin')], lambda given: tuple(dict.fromkeys(*given.values()))
)


def setting(
    default: Any,
    help: str | Callable[[], str],
    allowed: Allowed | None = None,
    group: str = 'run',
    written: Written = AS_ONE_FLAG,
    tuned: Search | None = None,
) -> Any:
    """A field of ``Config``: its default, its help text, the values it may have and those that tuning tries.

    ``written`` tells how it is given on the command line.
    Help on what is registered is a function: plug-ins register later. Help need not name the values allowed.
    A default of ``{}`` makes a mapping of options, which are declared by those who have them.
    """
    metadata = {'help': help, 'allowed': allowed, 'group': group, 'written': written, 'tuned': tuned}
    if default == {}:
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def setting_of(option: Option, group: str = 'run', **changes: Any) -> Any:
    """A field of ``Config`` that is declared where it is used, as an option there; ``changes`` are our own."""
    option = option._replace(**changes)
    allowed = option.choices or option.range
    return setting(option.default, option.help, allowed, group, tuned=option.search)
