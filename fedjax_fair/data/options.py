"""Options of data: one that is given must be read, and one that is not given is left to the source."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

UNREAD = '-'  # in the place of a column or an array: the role is not read
NEXT_PAIR = re.compile(r',(?=\s*(?:\w+\s*=|$))')


def named_paths(text: str) -> list[pathlib.Path]:
    """Paths separated by commas; ``~`` and ``$VARIABLES`` stand for what they mean here.

    >>> [path.name for path in named_paths('a/x.npz, b/y.npz')]
    ['x.npz', 'y.npz']
    """
    parts = [part.strip() for part in text.split(',') if part.strip()]
    return [pathlib.Path(os.path.expanduser(os.path.expandvars(part))) for part in parts]  # an unknown ~user stays


def one_path(
    text: str, where: str, what: str = 'folder', is_there: Callable[[pathlib.Path], bool] = os.path.isdir
) -> pathlib.Path:
    """The one path that ``text`` names, at which there must be what it is to be; ``where`` begins the message."""
    paths = named_paths(text)
    if len(paths) != 1 or not is_there(paths[0]):
        raise ValueError(f'{where}: no such {what}')
    return paths[0]


def one_of(option: str, value: str, choices: Iterable[str]) -> str:
    """The value of an option of a source that has but a few.

    >>> one_of('labels', 'coarse', ('fine', 'coarse'))
    'coarse'
    """
    if value not in (choices := tuple(choices)):
        raise ValueError(f'--source_options={option}={value}: choose one of {", ".join(choices)}')
    return value


def pairs(text: str | None, flag: str) -> dict[str, str]:
    """``'name=value,name=value'`` of a flag as a dict; a comma is part of a value where no ``name=`` follows it.

    >>> pairs('label=dx, site=hospital', 'source_options')
    {'label': 'dx', 'site': 'hospital'}
    >>> pairs('group=^(P[0-9]{1,3})_', 'source_options')
    {'group': '^(P[0-9]{1,3})_'}
    """
    found: dict[str, str] = {}
    for pair in filter(str.strip, NEXT_PAIR.split(text or '')):
        name, equals, value = (part.strip() for part in pair.partition('='))
        if not equals or not name or not value or name in found:
            raise ValueError(f'--{flag}={text} must be written name=value,name=value with different names')
        found[name] = value
    return found


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that say something: None, False and an empty sequence leave the choice to the source.

    >>> given({'alpha': 0.0, 'truncate': False, 'client_sizes': (), 'task': None})
    {'alpha': 0.0}
    """
    return {name: value for name, value in options.items() if not any(value is no for no in (None, False, ()))}


def refuse_unread(options: Mapping[str, Any], reads: Sequence[str], where: str) -> None:
    """An option that nobody reads is a mistake; ``where`` is what does not read it."""
    for option, value in options.items():
        if option not in reads:
            known = ', '.join(f'--{name}' for name in reads) or 'none'
            raise ValueError(f'--{option}={value} does not apply to {where}, which reads {known}')
