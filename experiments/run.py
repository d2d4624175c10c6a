"""``python -m experiments.run --flag=value ...``: the command ``fedjax-fair run`` as an absl binary."""

from fedjax_fair.cli import binary

if __name__ == '__main__':
    binary('run')
