"""Points of a grid: the float settings in which the lanes of one program differ."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from fedjax_fair.core.types import Algorithm
from fedjax_fair.errors import UserError
from fedjax_fair.options import Option
from fedjax_fair.registry import recipes
from fedjax_fair.training.checks import check_together
from fedjax_fair.training.config import Config, setting_options

LOCAL_FLOATS = ('lr', 'momentum', 'weight_decay')  # settings of local training that a sweep may vary


def grid_points(grid: Mapping[str, Sequence[float]]) -> tuple[dict[str, float], ...]:
    """All combinations of a grid's values, the last name varying fastest.

    >>> grid_points({'mu': [0.0, 0.1], 'lr': [0.5]})
    ({'mu': 0.0, 'lr': 0.5}, {'mu': 0.1, 'lr': 0.5})
    """
    for name, values in grid.items():
        if len(values) == 0 or len(set(values)) < len(values):
            raise UserError(f'grid: {name} needs one or more different values, got {list(values)}')
    return tuple(dict(zip(grid, chosen, strict=True)) for chosen in itertools.product(*grid.values()))


def check_points(config: Config, points: Sequence[Mapping[str, float]], flag: str = 'grid') -> None:
    """Refuse points that name something else than float settings, or hold values that are not allowed.

    ``flag`` is what the user wrote them in.
    """
    options = swept_options(config.recipe)
    for name in points[0]:
        if name not in options:
            can = ', '.join(options)
            raise UserError(f'`{flag}`={name}: only float settings can be swept in one program: {can}')
    for name, value in (pair for point in points for pair in point.items()):
        options[name].check(value, name)
    if len({tuple(point.items()) for point in points}) < len(points):
        raise UserError(f'`{flag}`: a value of {", ".join(points[0])} is given twice')
    for point in points:
        check_together(config.at(point))


def swept_options(recipe: str) -> dict[str, Option]:
    """The float settings that a sweep may vary, by name: some of local training, and those of the recipe's parts."""
    settings = setting_options()
    methods = {f'{part}.{name}': one for part in recipe.split('+') for name, one in recipes.options(part).items()}
    floats = {name: one for name, one in methods.items() if isinstance(one.default, float)}
    return {**{name: settings[name] for name in LOCAL_FLOATS}, **floats}


def check_not_fixed(points: Sequence[Mapping[str, float]], algorithm: Algorithm) -> None:
    """Refuse to sweep a setting that a method fixes."""
    fixed_by = algorithm.facts['fixed_by']
    for name in set(points[0]) & set(fixed_by):
        raise UserError(f'`grid`={name}: {fixed_by[name]} fixes it, so there is nothing to sweep')
