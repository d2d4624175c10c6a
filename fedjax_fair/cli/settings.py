"""From words to settings: absl flags made from :class:`Config`, ``--part.key=value``, and config files."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import types
import typing
from collections.abc import Sequence
from typing import Any

from absl import flags

from fedjax_fair.training.config import Config
from fedjax_fair.training.results import FACTS

HELP = ('--help', '-help', '-h', '--helpshort', '--helpfull')
HYPER = re.compile(r'--([a-z0-9_]+\.[a-z0-9_]+)(?:=(.*))?$', re.DOTALL)
_LISTS = ('seeds', 'client_sizes')
_TEXTS = ('out', 'config', 'recipes')
_DEFINE = {bool: flags.DEFINE_boolean, int: flags.DEFINE_integer, float: flags.DEFINE_float}
_OWN = {'recipes': 'compare', 'grid': 'sweep', 'json': 'list', 'profile': 'run'}  # flags that only one command reads
GROUPS = {
    'run': 'what is run',
    'local': 'local training',
    'clients': 'who takes part',
    'data': 'data',
    'evaluation': 'evaluation',
    'compute': 'how it is computed',
}
FILES = {
    'out': 'directory for results (default: runs/<command>-<scenario>)',
    'config': 'file of flags (one per line), or the config.json of a run to repeat; other flags overrule it',
    'resume': 'go on from the last checkpoint in --out; runs that are finished are kept',
    'overwrite': 'delete the results in --out first',
    'quiet': 'no progress display',
    'recipes': 'recipes separated by commas',
    'grid': 'name=v1,v2,... such as lr=0.1,0.2; repeat the flag for a product',
    'json': 'machine-readable output',
    'profile': 'trace one round into OUT/profile and show its longest operations',
}


def define_flags(values: flags.FlagValues) -> None:
    """One flag per setting, with its default and help, and the flags that say where results go; once is enough."""
    if 'recipe' in values:
        return
    for name in (*_fields(), *FILES):
        define_flag(name, values)
    flags.DEFINE_alias('seed', 'seeds', flag_values=values)
    flags.DEFINE_alias('clients', 'num_clients', flag_values=values)


def define_flag(name: str, values: flags.FlagValues) -> None:
    """The flag of one setting, or one of :data:`FILES`."""
    if name in _fields():
        _define(_fields()[name], typing.get_type_hints(Config)[name], values)
    elif name == 'grid':
        flags.DEFINE_multi_string(name, [], FILES[name], flag_values=values)
    elif name in _TEXTS:
        flags.DEFINE_string(name, None, FILES[name], flag_values=values)
    else:
        flags.DEFINE_boolean(name, False, FILES[name], flag_values=values)


def _fields() -> dict[str, dataclasses.Field]:
    """The settings that are flags: hyper-parameters are written ``--part.key=value``."""
    return {field.name: field for field in dataclasses.fields(Config) if field.name != 'hyper'}


def help_text(command: str) -> str:
    """All flags of a command in groups, with their defaults."""
    fields = _fields().values()
    lines = []
    for group, title in GROUPS.items() if command in ('run', 'compare', 'sweep') else ():
        chosen = [f for f in fields if f.metadata['group'] == group and (f.name, command) != ('recipe', 'compare')]
        lines += [f'{title}:', *(help_line(f.name) for f in chosen), '']
    lines.append('files and output:')
    lines += [help_line(name) for name in FILES if _OWN.get(name, command) == command]
    return '\n'.join([*lines, '', 'hyper-parameters of a recipe are written --recipe.key=value; see fedjax-fair list'])


def help_line(name: str, about: str | None = None) -> str:
    """One flag, what it is for and its default; ``about`` is what it is for where it is not a setting."""
    field = _fields().get(name)
    default = field.default if field is not None and about is None else None
    about = about or (FILES[name] if field is None else field.metadata['help'])
    value = ','.join(map(str, default)) if isinstance(default, tuple) else default
    shown = '' if value in (None, '') else f' (default: {str(value).lower() if isinstance(value, bool) else value})'
    return f'  --{name:20} {about}{shown}'


def _define(field: dataclasses.Field, hint: Any, values: flags.FlagValues) -> None:
    kind = typing.get_args(hint)[0] if isinstance(hint, types.UnionType) else hint  # int of int | None
    default: Any = field.default
    define: Any = _DEFINE.get(kind, flags.DEFINE_string)
    if field.name in _LISTS:
        define, default = flags.DEFINE_list, [str(v) for v in default]
    define(field.name, default, field.metadata['help'], flag_values=values)


def split_hyper(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Separate ``--part.key=value`` from ordinary flags.

    >>> split_hyper(['--lr=0.1', '--fedprox.mu=0.5'])
    (['--lr=0.1'], {'fedprox.mu': '0.5'})
    """
    plain, hyper = [], {}
    for word in words:
        match = HYPER.match(word)
        if match is None:
            plain.append(word)
        elif match[2] is None:
            raise ValueError(f'{word} needs a value: write {word}=VALUE')
        else:
            hyper[match[1]] = match[2]
    return plain, hyper


def config_words(path: str) -> list[str]:
    """The flags in a file: lines such as ``--lr=0.1`` (dashes optional, # for remarks), or a run's config.json."""
    try:
        text = pathlib.Path(path).read_text()
    except OSError as error:
        raise ValueError(f'--config={path}: {error.strerror or error}') from None
    except UnicodeDecodeError:
        raise ValueError(f'--config={path} is not a text file') from None
    if path.endswith('.json'):
        return _json_words(path, text)
    lines = (line.strip() for line in text.splitlines())
    words = ['--' + line.removeprefix('--') for line in lines if line and not line.startswith('#')]
    for word in words:
        if word.partition('=')[0] in ('--config', '--flagfile'):
            raise ValueError(f'--config={path}: {word} cannot stand in a file of flags')
    return words


def _json_words(path: str, text: str) -> list[str]:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f'--config={path} is not valid JSON: {error}') from None
    if not isinstance(values, dict) or not isinstance(values.get('hyper', {}), dict):
        raise ValueError(f'--config={path} must hold a JSON object of settings')
    names = [f.name for f in dataclasses.fields(Config)]
    for name in values:
        if name not in names and name not in FACTS:
            raise ValueError(f'--config={path}: unknown setting {name!r}; known: {", ".join(names)}')
    given = {name: values[name] for name in names if name != 'hyper' and values.get(name) is not None}
    texts = {name: ','.join(map(str, v)) if isinstance(v, list) else v for name, v in given.items()}
    return [f'--{name}={value}' for name, value in {**texts, **values.get('hyper', {})}.items()]


def parse(words: Sequence[str], values: flags.FlagValues, command: str = 'run') -> dict[str, str]:
    """Parse command-line words into ``values``; a config file comes first, so that flags overrule it.

    Returns the hyper-parameters of methods. Anything wrong is a ValueError of one line.
    """
    plain, hyper = split_hyper(words)
    files = [w.partition('=')[2] for w in plain if w.startswith('--config=')]
    if any(w == '--config' for w in plain):
        raise ValueError('write --config=FILE')
    from_file: list[str] = []
    for path in files:
        some, extra = split_hyper(config_words(path))
        from_file += some
        hyper = extra | hyper
    try:
        rest = values(['fedjax-fair', *from_file, *plain])
    except flags.Error as error:
        raise ValueError(' '.join(str(error).split())) from None
    for name, owner in _OWN.items():
        if values[name].present and command != owner:
            raise ValueError(f'--{name} is a flag of {owner}, not of {command}')
    if command == 'compare' and any(w.partition('=')[0] == '--recipe' for w in plain):
        raise ValueError('compare takes --recipes=A,B,..., not --recipe')
    if len(rest) > 1:
        raise ValueError(f'unexpected argument {rest[1]!r}; flags are written --name=value')
    return hyper


def config_of(values: flags.FlagValues, hyper: dict[str, str], recipe: str | None = None) -> Config:
    """The settings that the flags describe; those that ``values`` has no flag for keep their defaults."""
    found = {name: getattr(values, name) for name in _fields() if name in values}
    for name in set(_LISTS) & set(found):
        found[name] = _numbers(name, found[name])
    return Config(**found | {'hyper': hyper} | ({} if recipe is None else {'recipe': recipe}))


def _numbers(name: str, words: Sequence[str]) -> tuple[int, ...]:
    try:
        return tuple(int(w) for w in words if w != '')
    except ValueError:
        raise ValueError(f'--{name}={",".join(words)} must be whole numbers separated by commas') from None


def grid_of(specs: Sequence[str]) -> dict[str, list[float]]:
    """``['fedprox.mu=0,0.1']`` as ``{'fedprox.mu': [0.0, 0.1]}``."""
    grid = {}
    for spec in specs:
        name, _, text = spec.partition('=')
        if name in grid:
            raise ValueError(f'--grid={spec}: {name} is given twice')
        try:
            grid[name] = [float(v) for v in text.split(',')]
        except ValueError:
            raise ValueError(f'--grid={spec} must be written name=v1,v2,... with numbers') from None
    return grid
