"""``python -m experiments.compare --flag=value ...``: the command ``fedjax-fair compare`` as an absl binary."""

from fedjax_fair.cli import binary

if __name__ == '__main__':
    binary('compare')
