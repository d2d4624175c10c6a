"""``python -m experiments.list --flag=value ...``: the command ``fedjax-fair list`` as an absl binary."""

from fedjax_fair.cli import binary

if __name__ == '__main__':
    binary('list')
