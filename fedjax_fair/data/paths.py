"""Paths as users write them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

from fedjax_fair.errors import DataError
from fedjax_fair.foreign import check_plain, is_writable_text


def named_paths(text: str) -> list[pathlib.Path]:
    """Paths separated by commas; ``~`` and ``$VARIABLES`` are replaced by what they stand for.

    >>> [path.name for path in named_paths('a/x.npz, b/y.npz')]
    ['x.npz', 'y.npz']
    """
    if not is_writable_text(text):
        raise DataError(f'{text!r} is not text in UTF-8; rename the file or folder')
    parts = [part.strip() for part in text.split(',') if part.strip()]
    return [pathlib.Path(os.path.expanduser(os.path.expandvars(part))) for part in parts]  # an unknown ~user stays


def one_path(
    text: str, where: str, what: str = 'folder', is_there: Callable[[pathlib.Path], bool] = os.path.isdir
) -> pathlib.Path:
    """The one path that ``text`` names, where there must be a ``what``; ``where`` begins the error message."""
    paths = named_paths(text)
    if len(paths) == 1 and is_there is os.path.isfile:
        check_plain(paths[0], where)
    if len(paths) != 1 or not is_there(paths[0]):
        raise DataError(f'{where}: no such {what}')
    return paths[0]
