"""Recipes: names of registered methods joined by ``+``, with their hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedjax_fair.core.method import Method
from fedjax_fair.errors import UserError, shown
from fedjax_fair.options import resolve
from fedjax_fair.registry import recipes


def make_methods(recipe: str, hyper: Mapping[str, Any] | None = None) -> list[Method]:
    """The methods of a recipe such as ``'fedprox+server_adam'``.

    ``hyper`` maps ``'part.key'`` to values: strings are converted to the type of the option, numbers may be traced, so
    that a whole grid of float hyper-parameters runs as one program.

    >>> [m.name for m in make_methods('fedprox+server_adam', {'fedprox.mu': 0.1})]
    ['fedprox', 'server_adam']
    """
    given = resolve_hyper(recipe, hyper or {})
    return [m for part in recipe.split('+') for m in _methods_of(part, given[part])]


def _methods_of(part: str, options: Mapping[str, Any]) -> list[Method]:
    missing = [name for name in recipes.parameters(part) if name not in options]
    if missing:
        raise UserError(f'recipe {part}: its parameter {missing[0]!r} needs a default')
    made = recipes.make(part, **options)
    methods = [made] if isinstance(made, Method) else made
    if not isinstance(methods, list | tuple) or not all(isinstance(m, Method) for m in methods):
        raise UserError(f'recipe {part} must return a list of Methods, not {type(made).__name__}')
    return [m._replace(part=part) for m in methods]


def defaults(part: str) -> dict[str, Any]:
    """The hyper-parameters of one part of a recipe with their defaults."""
    return {name: option.default for name, option in recipes.options(part).items()}


def summary(part: str) -> str:
    """First line of the documentation of one part."""
    return recipes.entry(part).about


def resolve_hyper(recipe: str, hyper: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every part's hyper-parameters, defaults filled in; refuses names and values that do not fit.

    >>> resolve_hyper('fedprox', {'fedprox.mu': '0.5'})
    {'fedprox': {'mu': 0.5, 'kind': 'squared'}}
    """
    if not isinstance(recipe, str):
        raise UserError(f'`recipe`={recipe!r}: expected a text such as fedprox+salt')
    if not isinstance(hyper, Mapping) or not all(isinstance(name, str) for name in hyper):
        raise UserError(f'`hyper`={hyper!r}: expected a mapping such as {{"fedprox.mu": 0.1}}')
    parts = recipe.split('+')
    if doubles := [part for part in parts if parts.count(part) > 1]:
        raise UserError(f'recipe {recipe!r}: {doubles[0]!r} is listed twice')
    where = f'recipe {recipe!r}' if len(parts) > 1 else ''
    entries = {part: recipes.entry(part, where) for part in parts}
    for name, value in hyper.items():
        part = name.partition('.')[0]
        if part not in entries:
            raise UserError(
                f'`{name}`={shown(value)}: {part!r} is not a part of recipe {recipe!r} ({", ".join(parts)})'
            )
    return {
        part: resolve(
            part,
            entry.options,
            {name.partition('.')[2]: value for name, value in hyper.items() if name.partition('.')[0] == part},
            label=lambda key, part=part: f'{part}.{key}',  # type: ignore[misc]
            noun='hyper-parameter',
        )
        for part, entry in entries.items()
    }
