"""Data: partitions, federations that need no download, arrays of one's own, and the registry of scenarios."""

from fedjax_fair.data.assemble import SPLITS, Split, federate
from fedjax_fair.data.federation import Federation, index_table, stack_tests
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.scenarios import SCENARIOS, Scenario, make_scenario, scenario_names
from fedjax_fair.data.sources import SOURCES, Source, read_pool
from fedjax_fair.data.summary import class_counts, contact_sheet, describe, draw_partition
from fedjax_fair.data.toys import gaussian_toy

__all__ = [
    'SCENARIOS',
    'SOURCES',
    'SPLITS',
    'Federation',
    'Pool',
    'Scenario',
    'Source',
    'Split',
    'class_counts',
    'contact_sheet',
    'describe',
    'draw_partition',
    'federate',
    'gaussian_toy',
    'index_table',
    'make_scenario',
    'read_pool',
    'scenario_names',
    'stack_tests',
]
