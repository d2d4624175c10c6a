"""The command line: ``fedjax-fair run|compare|sweep|list|report|data``."""

from fedjax_fair.cli.main import COMMANDS, binary, console

__all__ = ['COMMANDS', 'binary', 'console']
