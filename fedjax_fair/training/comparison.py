"""Several recipes under the same settings."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from fedjax_fair.errors import UserError
from fedjax_fair.training import output
from fedjax_fair.training.checks import checked
from fedjax_fair.training.config import Config
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
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, dict[str, Any]]:
    """Run several recipes under the same settings, each in a folder of its own below ``out``; returns the summaries.

    ``config.hyper`` may have hyper-parameters of all recipes. Every recipe is prepared once, before the first one runs,
    so that all mistakes show at once. ``fedjax_fair.report.write_report`` draws the comparison.
    """
    out = pathlib.Path(out)
    configs = settings_of(config, recipes)
    output.check_out(out, resume=resume, overwrite=overwrite)
    experiments = [prepare(one) for one in configs]
    output.make_out(out, resume=resume)
    summaries = {}
    for recipe in recipes:  # an experiment that is done is let go
        folder = out / recipe
        (summaries[recipe],) = run(experiments.pop(0), folder, resume=resume, overwrite=overwrite, quiet=quiet)
    return summaries
