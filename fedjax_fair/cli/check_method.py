"""``fedjax-fair check-method FILE``: does a recipe of a plug-in keep the promises that all recipes keep?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from absl import flags

from fedjax_fair import plugins
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of


def check_method(values: flags.FlagValues, hyper: Mapping[str, Any]) -> int:
    """Check the recipes of a plug-in against the promises every recipe keeps; exit code 1 if one is broken."""
    if not values.plugin:
        raise UserError('check-method needs a plug-in: write fedjax-fair check-method my_method.py')
    named = [plugins.load(spec).name for spec in values.plugin]
    recipes = [name for plugin in named for kind, name in plugins.registered(plugin) if kind == 'recipe']
    if not recipes:
        raise UserError(f'`plugin`={",".join(values.plugin)} registers no recipe')
    if values['recipe'].present:
        if values.recipe not in recipes:
            raise UserError(f'`recipe`={values.recipe} {not_one_of(values.recipe, recipes)}')
        recipes = [values.recipe]
    broken = [recipe for recipe in recipes if not _keeps_all(recipe, hyper)]
    return int(bool(broken))


def _keeps_all(recipe: str, hyper: Mapping[str, Any]) -> bool:
    import fedjax_fair.testing.conformance as conformance  # compiles programs, which no other command needs

    own = {name: value for name, value in hyper.items() if name.partition('.')[0] == recipe}
    checks = conformance.check(recipe, own or None)
    print(f'{recipe}:')
    for one in checks:
        print(f'  ok      {one.name}' if one.passed else f'  FAILED  {one.name}: {one.message}')
    return all(one.passed for one in checks)
