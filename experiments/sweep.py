"""``python -m experiments.sweep --flag=value ...``: ``fedjax-fair sweep`` as an absl binary."""

from experiments import binary

binary(__name__, 'sweep')
