"""The commands ``fedjax-fair data SUBCOMMAND ARGUMENT [--flag=value ...]``: data looked at before anything is trained.

A subcommand is one line of :data:`SUBCOMMANDS`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from absl import flags

from fedjax_fair.cli import settings
from fedjax_fair.cli.data_download import DATA_DIR, prepare
from fedjax_fair.cli.data_overview import PARTITION_OUT, PATH, SHEET, inspect, partition, reading, splitting
from fedjax_fair.cli.help import asks_for_help, help_line
from fedjax_fair.errors import UserError
from fedjax_fair.options import Option, not_one_of


class Subcommand(NamedTuple):
    """What is run and which flags it reads; any other flag is an error.

    ``run(argument, values)`` gives the exit code, and its docstring is the help. ``settings()`` are names of settings
    of :class:`~fedjax_fair.training.config.Config` or of options of data, ``own`` flags of its own.
    """

    run: Callable[[str, flags.FlagValues], int]
    argument: str
    settings: Callable[[], Sequence[str]]
    own: tuple[Option, ...] = ()

    def flags(self) -> list[Option]:
        """All flags that it reads."""
        known = settings.all_flags()
        return [*self.own, known['plugin'], *(known[name] for name in self.settings())]


SUBCOMMANDS: dict[str, Subcommand] = {
    'inspect': Subcommand(inspect, PATH, reading, (SHEET,)),
    'partition': Subcommand(
        partition,
        f'{PATH}|SCENARIO',
        splitting,
        (PARTITION_OUT,),
    ),
    'prepare': Subcommand(prepare, 'NAME[/CONFIG][:VERSION]', tuple, (DATA_DIR,)),
}


def data(given: Sequence[str]) -> int:
    """Look at data before training: inspect it, draw and write down its partition over clients."""
    if not given or given[0] == 'help' or asks_for_help(given[0]):
        print(_usage())
        return 0 if given else 2
    name, *rest = given
    if name not in SUBCOMMANDS:
        raise UserError(f'command of data {name!r} {not_one_of(name, SUBCOMMANDS)}')
    subcommand = SUBCOMMANDS[name]
    words = settings.expanded([*itertools.filterfalse(asks_for_help, rest)])
    settings.load_plugins(words)
    if any(map(asks_for_help, rest)):
        print(_help(name, subcommand))
        return 0
    values = _flags_of(subcommand)
    return subcommand.run(_parse(name, subcommand, words, values), values)


def _flags_of(subcommand: Subcommand) -> flags.FlagValues:
    values = flags.FlagValues()
    values.set_gnu_getopt(True)  # flags may stand behind the argument
    for option in subcommand.flags():
        settings.define_flag(option, values)
    return values


def _parse(name: str, subcommand: Subcommand, words: Sequence[str], values: flags.FlagValues) -> str:
    """Parse the flags into ``values``; returns the argument."""
    try:
        given = settings.parsed(words, values)
    except UserError as error:
        raise UserError(f'data {name}: {error.message}') from None
    if len(given) != 1 or not given[0]:
        arguments = ' '.join(given) if given else 'none is given'
        raise UserError(f'data {name} needs one argument, {subcommand.argument}: {arguments}')
    return given[0]


def _usage() -> str:
    lines = (f'  {name:10} {_about(subcommand)}' for name, subcommand in SUBCOMMANDS.items())
    return '\n'.join(
        [
            'usage: fedjax-fair data COMMAND ARGUMENT [--flag=value ...]',
            '',
            'commands (data COMMAND --help shows the flags):',
            *lines,
        ]
    )


def _about(subcommand: Subcommand) -> str:
    return (subcommand.run.__doc__ or '').splitlines()[0]


def _help(name: str, subcommand: Subcommand) -> str:
    lines = [_about(subcommand), '', f'usage: fedjax-fair data {name} {subcommand.argument} [--flag=value ...]', '']
    return '\n'.join([*lines, *map(help_line, subcommand.flags())])
