"""Options of methods that are words."""

from __future__ import annotations

from collections.abc import Sequence


def one_of(owner: str, **named: tuple[str, Sequence[str]]) -> None:
    """Refuse a value that is not among its choices, for every ``name=(value, choices)``.

    >>> one_of('moon', frozen=('eval', ('batch', 'eval')))
    """
    for name, (value, choices) in named.items():
        if value not in choices:
            raise ValueError(f'{owner}.{name}={value!r} is not one of {", ".join(map(repr, choices))}')
