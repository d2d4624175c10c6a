"""Values from the texts that users write; a text that stands for no value is a ValueError."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def _flag(text: str) -> bool:
    if text.lower() not in ('true', 'false'):
        raise ValueError(text)
    return text.lower() == 'true'


def whole_number(text: str) -> int:
    """The whole number that a user wrote; anything else is a ValueError."""
    return int(_plain_digits(text))


def number(text: str) -> float:
    """The number that a user wrote; anything else is a ValueError."""
    return float(_plain_digits(text))


def _plain_digits(text: str) -> str:
    """Python also reads 0_1, which is 1, and the digits of all scripts: here they are slips of the keyboard."""
    if '_' in text or not text.isascii():
        raise ValueError(text)
    return text


def _whole_numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(whole_number(part) for part in re.split('[x,]', text) if part)
    if text and not numbers:  # separators alone
        raise ValueError(text)
    return numbers


PARSERS: dict[Any, Callable[[str], Any]] = {
    bool: _flag,
    int: whole_number,
    float: number,
    tuple[int, ...]: _whole_numbers,
}
