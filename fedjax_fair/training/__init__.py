"""Running experiments: settings, checks, the loop that writes results, and grids from Python.

>>> Config(recipe='fedprox', rounds=10).seeds
(0,)
"""

from fedjax_fair.interruption import Interrupted
from fedjax_fair.training.checks import checked
from fedjax_fair.training.comparison import compare, run_data_seeds
from fedjax_fair.training.compilation_cache import use_compilation_cache
from fedjax_fair.training.config import Config
from fedjax_fair.training.devices import use_host_devices
from fedjax_fair.training.federations import load_federation
from fedjax_fair.training.finished_run import finished
from fedjax_fair.training.loop import run
from fedjax_fair.training.setup import Experiment, prepare
from fedjax_fair.training.sweeps import Sweep, sweep
from fedjax_fair.training.tuning import tune

__all__ = [
    'Config',
    'Experiment',
    'Interrupted',
    'Sweep',
    'checked',
    'compare',
    'finished',
    'load_federation',
    'prepare',
    'run',
    'run_data_seeds',
    'sweep',
    'tune',
    'use_compilation_cache',
    'use_host_devices',
]
