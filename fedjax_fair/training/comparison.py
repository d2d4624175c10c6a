"""Several recipes under the same settings, and frontiers: one hyper-parameter of a recipe over several values."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fedjax_fair import results
from fedjax_fair.errors import UserError
from fedjax_fair.training import output
from fedjax_fair.training.checks import checked
from fedjax_fair.training.config import Config
from fedjax_fair.training.grid import check_points
from fedjax_fair.training.loop import run
from fedjax_fair.training.setup import prepare


def settings_of(config: Config, recipes: Sequence[str]) -> list[Config]:
    """The checked settings of every recipe; each takes the hyper-parameters of its own parts.

    >>> [one.hyper for one in settings_of(Config(hyper={'fedprox.mu': '0.1'}), ['fedavg', 'fedprox'])]
    [{}, {'fedprox.mu': 0.1}]
    """
    named = ','.join(recipes)
    if len(set(recipes)) < len(recipes):
        raise UserError(f'`recipes`={named} names a recipe twice')
    parts = {recipe: {*recipe.split('+'), *config.tools} for recipe in recipes}
    for name, value in config.hyper.items():
        if not any(name.partition('.')[0] in known for known in parts.values()):
            raise UserError(f'`{name}`={value}: no recipe in `recipes`={named} has this part')
    hypers = {r: {n: v for n, v in config.hyper.items() if n.partition('.')[0] in parts[r]} for r in recipes}
    return [checked(dataclasses.replace(config, recipe=recipe, hyper=hypers[recipe])) for recipe in recipes]


def compare(
    config: Config,
    recipes: Sequence[str],
    out: str | pathlib.Path,
    *,
    frontiers: Mapping[str, Sequence[float]] = MappingProxyType({}),
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, dict[str, Any]]:
    """Run several recipes under the same settings, each in a folder of its own below ``out``; returns the summaries.

    ``config.hyper`` may have hyper-parameters of all recipes. Every recipe is prepared once, before the first one runs,
    so that all mistakes show at once. ``fedjax_fair.report.write_report`` draws the comparison.

    ``frontiers={'fedism.q': [0, 1, 2]}`` also runs the recipe with that part for every value, all as one program, in
    ``out/frontier/fedism.q``: how much of the mean does each value pay for the worst?
    """
    out = pathlib.Path(out)
    of_frontier = {name: recipe_of(name, recipes) for name in frontiers}
    everybody = list(dict.fromkeys([*recipes, *of_frontier.values()])) if of_frontier else recipes
    configs = dict(zip(everybody, settings_of(config, everybody), strict=True))
    points = {name: _points(name, values, configs[of_frontier[name]]) for name, values in frontiers.items()}
    output.check_out(out, resume=resume, overwrite=overwrite)
    experiments = [prepare(configs[recipe]) for recipe in recipes]
    curves = [prepare(configs[of_frontier[name]], own) for name, own in points.items()]
    output.make_out(out, resume=resume)
    summaries = {}
    for recipe in recipes:  # an experiment that is done is let go
        folder = out / recipe
        (summaries[recipe],) = run(experiments.pop(0), folder, resume=resume, overwrite=overwrite, quiet=quiet)
    for name in frontiers:
        run(curves.pop(0), out / results.FRONTIER / name, resume=resume, overwrite=overwrite, quiet=quiet)
    return summaries


def recipe_of(name: str, recipes: Sequence[str]) -> str:
    """The recipe of a frontier: the first that has the part, or else the part alone.

    >>> recipe_of('fedism.q', ['fedavg', 'fedism+fedprox']), recipe_of('qfedavg.q', ['fedavg'])
    ('fedism+fedprox', 'qfedavg')
    """
    part, dot, _ = name.partition('.')
    if not dot:
        raise UserError(f'`frontier`={name}: name a hyper-parameter of a recipe, such as `frontier`=qfedavg.q=0,1,5')
    return next((recipe for recipe in recipes if part in recipe.split('+')), part)


def _points(name: str, values: Sequence[float], config: Config) -> tuple[dict[str, float], ...]:
    if len(values) < 2:
        raise UserError(f'`frontier`={name} needs two values or more')
    points = tuple({name: float(value)} for value in values)
    check_points(config, points, 'frontier')
    return points
