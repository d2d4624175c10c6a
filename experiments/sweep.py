"""``python -m experiments.sweep --flag=value ...``: the command ``fedjax-fair sweep`` as an absl binary."""

from fedjax_fair.cli import binary

if __name__ == '__main__':
    binary('sweep')
