"""``python -m fedjax_fair COMMAND ...``: the command ``fedjax-fair`` where it is not on the path."""

import sys

from fedjax_fair.cli import console

if __name__ == '__main__':
    sys.argv[0] = 'fedjax-fair'  # config.json keeps the command of a run
    console()
