"""Scenarios: federations by name."""

from fedjax_fair.data.scenarios import digits, toys, tissue, quality, office  # noqa: F401, I001  (in the order of lists)
from fedjax_fair.data.scenarios.catalogue import (
    data_options,
    describe_scenarios,
    make_scenario,
    scenario_names,
    scenario_options,
)
from fedjax_fair.registry import scenarios as SCENARIOS

__all__ = [
    'SCENARIOS',
    'data_options',
    'describe_scenarios',
    'make_scenario',
    'scenario_names',
    'scenario_options',
]
