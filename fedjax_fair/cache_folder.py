"""Where things are kept that can be made again."""

from __future__ import annotations

import os
import pathlib


def cache_folder(name: str) -> pathlib.Path:
    """The folder of this kind of things: below ``XDG_CACHE_HOME``, or ``~/.cache``.

    >>> cache_folder('data').parts[-2:]
    ('fedjax_fair', 'data')
    """
    home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    return pathlib.Path(home) / 'fedjax_fair' / name
