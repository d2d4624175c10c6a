"""The command line: ``fedjax-fair run|compare|sweep|tune|list|report|verdict|data|check-method``.

``binary`` is one of these commands as a program, and ``program`` makes a program of one's own with the flags of a run.
A program with other flags works within ``guarded``, and ``config_from`` reads the words of a command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedjax_fair.interruption import end_stopped, leave, on_signals

if TYPE_CHECKING:
    from fedjax_fair.cli.main import COMMANDS, binary, guarded, program
    from fedjax_fair.cli.settings import config_from

_IN_MAIN = ('COMMANDS', 'binary', 'guarded', 'program')
__all__ = ['COMMANDS', 'binary', 'config_from', 'console', 'guarded', 'program']


def console() -> None:
    """The command ``fedjax-fair``; signals are answered from the start, before large libraries are imported."""
    on_signals(leave)
    from fedjax_fair.cli import main

    try:
        main.console()
    except SystemExit as end:
        end_stopped(end.code)
        raise


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from fedjax_fair.cli import main, settings

    return getattr(main if name in _IN_MAIN else settings, name)
