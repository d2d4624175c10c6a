"""Shapes of JSON values: one table says what the files of a run may hold in each of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedjax_fair.errors import UserError

LARGEST_SIZE = 1e300  # of a number in a file; arithmetic with larger ones overflows


class Shape(NamedTuple):
    """A kind of values, in words and as a predicate."""

    words: str
    fits: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -LARGEST_SIZE < value < LARGEST_SIZE


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and -LARGEST_SIZE < value < LARGEST_SIZE)


def _are_numbers(value: Any) -> bool:
    return value is None or _is_number(value) or (isinstance(value, list) and all(map(_are_numbers, value)))


TEXT = Shape('a text', lambda value: isinstance(value, str))
TRUTH = Shape('true or false', lambda value: isinstance(value, bool))
WHOLE = Shape('a whole number', _is_whole)
NUMBER = Shape('a number', _is_number)
NUMBERS = Shape('numbers', _are_numbers)  # one, none, or lists of them
LIST = Shape('a list', lambda value: isinstance(value, list))
DICT = Shape('an object', lambda value: isinstance(value, dict))


def list_of(shape: Shape) -> Shape:
    """A list of values of one shape."""
    return Shape(f'a list, each {shape.words}', lambda value: isinstance(value, list) and all(map(shape.fits, value)))


def dict_of(shape: Shape) -> Shape:
    """An object whose fields all have one shape."""
    return Shape(
        f'an object, each field {shape.words}',
        lambda value: isinstance(value, dict) and all(map(shape.fits, value.values())),
    )


def either(*shapes: Shape) -> Shape:
    """One of several shapes."""
    words = ' or '.join(shape.words for shape in shapes)
    return Shape(words, lambda value: any(shape.fits(value) for shape in shapes))


def maybe(shape: Shape) -> Shape:
    """A shape, or null."""
    return Shape(f'{shape.words} or null', lambda value: value is None or shape.fits(value))


def fields(shapes: Mapping[str, Shape], may_lack: tuple[str, ...] = ()) -> Shape:
    """An object that has these fields, each of its shape; ``may_lack`` are those that older files do not have.

    >>> fields({'mean': NUMBERS, 'std': NUMBERS}).fits({'mean': [0.5, None], 'std': 0.1})
    True
    """

    def fits(value: Any) -> bool:
        known = isinstance(value, dict) and {*shapes} - {*value} <= {*may_lack}
        return known and all(shape.fits(value[name]) for name, shape in shapes.items() if name in value)

    return Shape(f'an object with {", ".join(f"{name!r} ({one.words})" for name, one in shapes.items())}', fits)


def check_shapes(record: Mapping[str, Any], shapes: Mapping[str, Shape], place: Any) -> None:
    """Refuse a field that is there with a value of another shape; ``place`` begins the error message."""
    for name, shape in shapes.items():
        if record.get(name) is not None and not shape.fits(record[name]):
            raise UserError(f'{place}: field {name!r} must be {shape.words}')
