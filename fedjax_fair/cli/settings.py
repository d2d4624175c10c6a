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

HYPER = re.compile(r'--([a-z0-9_]+\.[a-z0-9_]+)(?:=(.*))?$', re.DOTALL)
_LISTS = ('seeds', 'client_sizes')


def define_flags(values: flags.FlagValues) -> None:
    """One flag per setting, with its default and help, and the flags that say where results go."""
    hints = typing.get_type_hints(Config)
    for field in dataclasses.fields(Config):
        if field.name != 'hyper':
            _define(field, hints[field.name], values)
    text = {'flag_values': values}
    flags.DEFINE_integer('seed', None, 'a single seed; short for --seeds', **text)
    flags.DEFINE_string('recipes', None, 'for compare: recipes separated by commas', **text)
    flags.DEFINE_multi_string('grid', [], 'for sweep: name=v1,v2,... such as lr=0.1,0.2; repeat for a product', **text)
    flags.DEFINE_string('out', None, 'directory for results (default: runs/<command>-<scenario>)', **text)
    flags.DEFINE_string('config', None, 'file of flags (one per line), or the config.json of a run to repeat', **text)
    flags.DEFINE_boolean('resume', False, 'go on from the last checkpoint in --out', **text)
    flags.DEFINE_boolean('overwrite', False, 'delete what is in --out', **text)
    flags.DEFINE_boolean('json', False, 'for list: machine-readable output', **text)
    flags.DEFINE_boolean('quiet', False, 'no progress display', **text)


def _define(field: dataclasses.Field, hint: Any, values: flags.FlagValues) -> None:
    kinds = (
        [k for k in typing.get_args(hint) if k is not types.NoneType] if isinstance(hint, types.UnionType) else [hint]
    )
    args = (field.name, field.default, field.metadata['help'])
    if field.name in _LISTS:
        flags.DEFINE_list(field.name, [str(v) for v in field.default], field.metadata['help'], flag_values=values)
    elif kinds[0] is bool:
        flags.DEFINE_boolean(*args, flag_values=values)
    elif kinds[0] is int:
        flags.DEFINE_integer(*args, flag_values=values)
    elif kinds[0] is float:
        flags.DEFINE_float(*args, flag_values=values)
    else:
        flags.DEFINE_string(*args, flag_values=values)


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
    if path.endswith('.json'):
        return _json_words(path, text)
    lines = (line.strip() for line in text.splitlines())
    return ['--' + line.removeprefix('--') for line in lines if line and not line.startswith('#')]


def _json_words(path: str, text: str) -> list[str]:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f'--config={path} is not valid JSON: {error}') from None
    names = [f.name for f in dataclasses.fields(Config) if f.name != 'hyper']
    words = []
    for name in names:
        value = values.get(name)
        if value is not None:
            value = ','.join(map(str, value)) if isinstance(value, list) else value
            words.append(f'--{name}={value}')
    return words + [f'--{name}={value}' for name, value in values.get('hyper', {}).items()]


def parse(words: Sequence[str], values: flags.FlagValues) -> dict[str, str]:
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
    if len(rest) > 1:
        raise ValueError(f'unexpected argument {rest[1]!r}; flags are written --name=value')
    return hyper


def config_of(values: flags.FlagValues, hyper: dict[str, str], recipe: str | None = None) -> Config:
    """The settings that the flags describe."""
    found = {f.name: getattr(values, f.name) for f in dataclasses.fields(Config) if f.name != 'hyper'}
    for name in _LISTS:
        found[name] = _numbers(name, found[name])
    if values.seed is not None:
        found['seeds'] = (values.seed,)
    return Config(**found | {'hyper': hyper, 'recipe': recipe or found['recipe']})


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
        try:
            grid[name] = [float(v) for v in text.split(',')]
        except ValueError:
            raise ValueError(f'--grid={spec} must be written name=v1,v2,... with numbers') from None
    return grid
