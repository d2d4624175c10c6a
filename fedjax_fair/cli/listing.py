"""What there is to choose from."""

from __future__ import annotations

import json
from typing import Any

from fedjax_fair.data import SCENARIOS, scenario_names
from fedjax_fair.methods import RECIPES, defaults, summary
from fedjax_fair.models import describe_models


def catalogue() -> dict[str, Any]:
    """Recipes with their hyper-parameters and defaults, scenarios and models, each with one line about it."""
    scenarios = zip(scenario_names(), SCENARIOS.values(), strict=True)
    return {
        'recipes': {name: {'about': summary(name), 'hyper': defaults(name)} for name in RECIPES},
        'scenarios': {name: scenario.description for name, scenario in scenarios},
        'models': describe_models(),
    }


def as_json() -> str:
    """The catalogue for machines."""
    return json.dumps(catalogue(), indent=2)


def as_text() -> str:
    """The catalogue for people."""
    found = catalogue()
    lines = ['recipes (join with +, set hyper-parameters with --recipe.key=value):']
    for name, recipe in found['recipes'].items():
        lines.append(f'  {name:16} {recipe["about"]}')
        lines.extend(f'  {"":16}   --{name}.{key}={value}' for key, value in recipe['hyper'].items())
    for title in ('scenarios', 'models'):
        lines += ['', f'{title}:'] + [f'  {name:16} {about}' for name, about in found[title].items()]
    return '\n'.join(lines)
