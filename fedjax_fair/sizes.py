"""Sizes of files and memory, as messages tell them."""

from __future__ import annotations


def in_words(size: float) -> str:
    """A number of bytes.

    >>> in_words(512), in_words(2_500_000)
    ('512 B', '2.5 MB')
    """
    for unit in ('B', 'kB', 'MB', 'GB'):
        if size < 1000:
            return f'{size:.3g} {unit}'
        size /= 1000
    return f'{size:.3g} TB'
