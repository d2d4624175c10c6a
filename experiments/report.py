"""``python -m experiments.report --flag=value ...``: the command ``fedjax-fair report`` as an absl binary."""

from fedjax_fair.cli import binary

if __name__ == '__main__':
    binary('report')
