"""Running experiments: settings, checks, the loop that writes results, and grids from Python.

>>> Config(recipe='fedprox', rounds=10).seeds
(0,)
"""

from fedjax_fair.training.config import Config
from fedjax_fair.training.finished import finished
from fedjax_fair.training.loop import run
from fedjax_fair.training.setup import Experiment, load_federation, prepare, use_host_devices
from fedjax_fair.training.stop import Interrupted
from fedjax_fair.training.sweep import Sweep, sweep

__all__ = [
    'Config',
    'Experiment',
    'Interrupted',
    'Sweep',
    'finished',
    'load_federation',
    'prepare',
    'run',
    'sweep',
    'use_host_devices',
]
