"""Data: sources, partitions and scenarios, each registered by name, and the federations that are made of them."""

from fedjax_fair.data.assembly import federate
from fedjax_fair.data.federation import Federation, index_table, stack_tests
from fedjax_fair.data.federation_overview import class_counts, describe
from fedjax_fair.data.partition.split import Split, make_split
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.scenarios import (
    SCENARIOS,
    data_options,
    describe_scenarios,
    make_scenario,
    scenario_names,
    scenario_options,
)
from fedjax_fair.data.scenarios.toys import gaussian_toy
from fedjax_fair.data.sources import SOURCES, read_pool

__all__ = [
    'SCENARIOS',
    'SOURCES',
    'Federation',
    'Pool',
    'Split',
    'class_counts',
    'data_options',
    'describe',
    'describe_scenarios',
    'federate',
    'gaussian_toy',
    'index_table',
    'make_scenario',
    'make_split',
    'read_pool',
    'scenario_names',
    'scenario_options',
    'stack_tests',
]
