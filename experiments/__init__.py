"""Flag files, studies that repeat papers, and the commands of ``fedjax-fair`` as absl binaries."""


def binary(module: str, command: str) -> None:
    """Run a command where the module that asks for it is the program: ``python -m experiments.COMMAND``."""
    if module == '__main__':
        from fedjax_fair import cli

        cli.binary(command)
