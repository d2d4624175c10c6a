"""The engine: the vocabulary, and ``build``."""

from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.core.engine import as_float, build
from fedjax_fair.core.local import Local
from fedjax_fair.core.method import Aux, Context, Method, Phase, Stage, View
from fedjax_fair.core.types import (
    Algorithm,
    Batch,
    Cohort,
    FedState,
    Model,
    Outliers,
    Output,
    Run,
    Task,
    Tests,
)

__all__ = [
    'Algorithm',
    'Aux',
    'Batch',
    'ClientMap',
    'Cohort',
    'Context',
    'FedState',
    'Local',
    'Method',
    'Model',
    'Outliers',
    'Output',
    'Phase',
    'Run',
    'Stage',
    'Task',
    'Tests',
    'View',
    'as_float',
    'build',
]
