"""``python -m fedjax_fair COMMAND ...``: the command ``fedjax-fair`` where it is not on the path."""

from fedjax_fair.cli import console

if __name__ == '__main__':
    console()
