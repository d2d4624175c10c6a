"""The command line: ``fedjax-fair run|compare|sweep|tune|list|report|verdict|data|check-method``."""

from fedjax_fair.cli import settings
from fedjax_fair.cli.main import COMMANDS, binary, console, guarded

__all__ = ['COMMANDS', 'binary', 'console', 'guarded', 'settings']
