"""Options of data: one that is given must be read, and one that is not given is left to the source."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any


def named_paths(text: str) -> list[pathlib.Path]:
    """Paths separated by commas; ``~`` and ``$VARIABLES`` stand for what they mean here.

    >>> [path.name for path in named_paths('a/x.npz, b/y.npz')]
    ['x.npz', 'y.npz']
    """
    return [pathlib.Path(os.path.expandvars(part.strip())).expanduser() for part in text.split(',') if part.strip()]


def named_folder(text: str, where: str) -> pathlib.Path:
    """The one folder that ``text`` names, which must be there; ``where`` begins the message if it is not."""
    paths = named_paths(text)
    if len(paths) != 1 or not paths[0].is_dir():
        raise ValueError(f'{where}: no such folder')
    return paths[0]


def pairs(text: str | None, flag: str) -> dict[str, str]:
    """``'name=value,name=value'`` of a flag as a dict.

    >>> pairs('label=dx, site=hospital', 'source_options')
    {'label': 'dx', 'site': 'hospital'}
    """
    found: dict[str, str] = {}
    for pair in filter(str.strip, (text or '').split(',')):
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
