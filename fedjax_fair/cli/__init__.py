"""The command line: ``fedjax-fair run|compare|sweep|tune|list|report|verdict|data|check-method``.

``binary`` is one of these commands as a program, and ``program`` makes a program of one's own with the flags of a run.
"""

from fedjax_fair.cli.main import COMMANDS, binary, console, program

__all__ = ['COMMANDS', 'binary', 'console', 'program']
