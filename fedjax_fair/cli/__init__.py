"""The command line: ``fedjax-fair run|compare|sweep|tune|list|report|verdict|data|check-method``.

``binary`` is one of these commands as a program, and ``program`` makes a program of one's own with the flags of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedjax_fair.interruption import end_stopped, leave, on_signals

if TYPE_CHECKING:
    from fedjax_fair.cli.main import COMMANDS, binary, program

__all__ = ['COMMANDS', 'binary', 'console', 'program']


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
    from fedjax_fair.cli import main

    return getattr(main, name)
