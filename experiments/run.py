"""``python -m experiments.run --flag=value ...``: ``fedjax-fair run`` as an absl binary."""

from experiments import binary

binary(__name__, 'run')
