"""``python -m experiments.compare --flag=value ...``: ``fedjax-fair compare`` as an absl binary."""

from experiments import binary

binary(__name__, 'compare')
