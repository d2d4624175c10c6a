"""The commands ``fedjax-fair data SUBCOMMAND ARGUMENT [--flag=value ...]``: data looked at before anything is trained.

A subcommand is one line of :data:`SUBCOMMANDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from absl import flags

from fedjax_fair.cli import fetch, look, settings
from fedjax_fair.cli.mistakes import fail


class Subcommand(NamedTuple):
    """What is run and which flags it reads; any other flag is an error.

    ``run(argument, values)`` gives the exit code, and its docstring is the help. ``settings`` are names of settings of
    :class:`~fedjax_fair.training.config.Config` or of flags in :data:`~fedjax_fair.cli.settings.FILES`; ``own`` are
    flags of its own that hold text, with their help.
    """

    run: Callable[[str, flags.FlagValues], int]
    argument: str
    settings: tuple[str, ...] = ()
    own: Mapping[str, str] = {}


SUBCOMMANDS: dict[str, Subcommand] = {
    'inspect': Subcommand(look.inspect, look.PATH, look.READING, {'out': look.SHEET}),
    'partition': Subcommand(look.partition, f'{look.PATH}|SCENARIO', look.SPLITTING, {'out': look.FILES}),
    'prepare': Subcommand(fetch.prepare, 'NAME[/CONFIG][:VERSION]', own={'data_dir': fetch.DATA_DIR}),
}


def data(words: Sequence[str]) -> int:
    """Look at data before training: inspect it, draw and write down its partition over clients."""
    if not words or words[0] in (*settings.HELP, 'help'):
        print(_usage())
        return 0 if words else 2
    name, *rest = words
    if name not in SUBCOMMANDS:
        fail(f'unknown command {f"data {name}"!r}; choose one of {", ".join(f"data {known}" for known in SUBCOMMANDS)}')
    subcommand = SUBCOMMANDS[name]
    if set(rest) & set(settings.HELP):
        print(_help(name, subcommand))
        return 0
    values = _flags_of(subcommand)
    return subcommand.run(_parse(name, subcommand, rest, values), values)


def _flags_of(subcommand: Subcommand) -> flags.FlagValues:
    values = flags.FlagValues()
    values.set_gnu_getopt(True)  # flags may stand behind the argument
    for name in subcommand.settings:
        settings.define_flag(name, values)
    for name, about in subcommand.own.items():
        flags.DEFINE_string(name, None, about, flag_values=values)
    return values


def _parse(name: str, subcommand: Subcommand, words: Sequence[str], values: flags.FlagValues) -> str:
    """Parse the flags into ``values``; returns the argument."""
    try:
        given = values(['fedjax-fair', *words])[1:]
    except flags.Error as error:
        raise ValueError(f'data {name}: {" ".join(str(error).split())}') from None
    if len(given) != 1 or not given[0]:
        found = ' '.join(given) if given else 'none is given'
        raise ValueError(f'data {name} needs one argument, {subcommand.argument}: {found}')
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
    lines += [settings.help_line(flag, about) for flag, about in subcommand.own.items()]
    return '\n'.join([*lines, *(settings.help_line(flag) for flag in subcommand.settings)])
