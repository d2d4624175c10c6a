"""From words to settings: absl flags made from :class:`Config` and the options of data, and ``--part.key=value``."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from absl import flags

from fedjax_fair import plugins
from fedjax_fair.cli.flag_files import config_words
from fedjax_fair.errors import UserError
from fedjax_fair.foreign import is_writable_text
from fedjax_fair.options import Option, above, did_you_mean, options_of
from fedjax_fair.parsing import number
from fedjax_fair.planning import KINDS
from fedjax_fair.results.comparison import METRICS
from fedjax_fair.results.findings import MARGIN
from fedjax_fair.training.config import Config, flags_of_settings
from fedjax_fair.training.tuning import TUNING_OPTIONS, tune

HYPER = re.compile(r'--([a-z0-9_]+\.[a-z0-9_]+)(?:=(.*))?$', re.DOTALL)
SHORT_DASH = re.compile(r'^-(?=[a-zA-Z])')  # absl reads -name=value, too
DASHES = '--'  # before the name of a flag
BOOLEANS = ('true', 't', '1', 'false', 'f', '0')  # what absl takes for a flag that is on or off
FLAGS_OF_FILES = ('config', 'flagfile')  # that name files of flags
LONGEST_NAME = 100  # characters of a flag's name, dashes included
PLUGIN = '--plugin='
TEXTS = tuple[str, ...]  # the kind of a flag that may be repeated
MARGIN_FLAG = Option(
    'margin', MARGIN, float, f'smallest difference of interest, in points (default: {MARGIN:g})', above(0, at_most=100)
)
METRIC_FLAG = Option(
    'metric', None, str, 'score that tables and verdicts are about (default: that of the runs)', None, METRICS
)
MEMORY_FLAG = Option('memory', None, float, 'memory of one device of the topology, in GB', above(0))
OUTPUT_FLAGS = (
    Option('out', None, str, 'directory for results (default: runs/<command>-<scenario>)'),
    Option(
        'config',
        None,
        str,
        'file of flags (one per line), or the config.json of a run to repeat; other flags overrule it',
    ),
    Option('resume', False, bool, 'go on from the last checkpoint in --out; runs that are finished are kept'),
    Option('overwrite', False, bool, 'delete what earlier commands wrote into --out first; other files stay'),
    Option('quiet', False, bool, 'no progress display'),
    Option('recipes', None, str, 'recipes separated by commas'),
    Option(
        'frontier', (), TEXTS, 'name=v1,v2,... such as fedism.q=0,1,5: mean against worst over these values; repeatable'
    ),
    Option('data_seeds', (), tuple[int, ...], 'seeds of the data in place of --data_seed, each a run of its own'),
    Option('grid', (), TEXTS, 'name=v1,v2,... such as lr=0.1,0.2; repeat the flag for a product'),
    Option('json', False, bool, 'machine-readable output'),
    Option('name', None, str, 'what to explain with its options: a recipe, a model, a scenario, ...'),
    Option('baseline', None, str, 'recipe that the others are compared with (default: the first)'),
    MARGIN_FLAG,
    METRIC_FLAG,
    Option('runs', (), TEXTS, 'run directories to judge, the first against the second'),
    Option('topology', None, str, f'machine to plan for: KIND:SIZE, of {", ".join(KINDS)}, such as v5e:2x4 or gpu:4'),
    MEMORY_FLAG,
    Option('shapes', '', str, 'shapes of data that are not there, such as clients=20,examples=900,side=224,classes=5'),
    Option('profile', False, bool, 'trace one round into OUT/profile and show its longest operations'),
)
TUNING_FLAGS = tuple(one for name, one in options_of(tune).items() if name in TUNING_OPTIONS)
OWNERS: dict[str, tuple[str, ...]] = {  # the commands that read a flag; all commands read the others
    'recipes': ('compare', 'tune'),
    'data_seeds': ('run', 'compare'),
    'frontier': ('compare',),
    'grid': ('sweep',),
    'json': ('list', 'plan', 'verdict'),
    'topology': ('plan',),
    'memory': ('plan',),
    'shapes': ('plan',),
    'name': ('list',),
    'profile': ('run',),
    'baseline': ('compare', 'tune', 'report'),
    'margin': ('compare', 'tune', 'report', 'verdict'),
    'metric': ('compare', 'report', 'verdict'),
    'runs': ('verdict',),
    **{one.name: ('tune',) for one in TUNING_FLAGS},
}
COMPARED_SEEDS = (0, 1, 2, 3, 4)  # of compare, unless it is given others: fewer decide next to nothing
ALIASES = {'seed': 'seeds', 'clients': 'num_clients'}
NO_SETTINGS = {*ALIASES, *(one.name for one in (*OUTPUT_FLAGS, *TUNING_FLAGS)), *FLAGS_OF_FILES, 'plugin'}
ARGUMENTS = {'list': 'name', 'check-method': 'plugin'}  # the flag that a command's argument stands for
SEVERAL = {'verdict': 'runs'}  # and the flag of a command that takes several arguments, anywhere among its flags
_DEFINE = {bool: flags.DEFINE_boolean, TEXTS: flags.DEFINE_multi_string}  # all others are texts that options parse


def grouped_flags() -> dict[str, list[Option]]:
    """The flags of a run by group: its settings, and the options of data that plug-ins may have added to."""
    groups: dict[str, list[Option]] = {}
    by_setting = flags_of_settings()
    for field in dataclasses.fields(Config):
        groups.setdefault(field.metadata['group'], []).extend(by_setting[field.name])
    return groups


def all_flags() -> dict[str, Option]:
    """Every flag by name; an option of data that has the name of another flag is refused."""
    settings = {one.name: one for group in grouped_flags().values() for one in group}
    others = {one.name: one for one in (*OUTPUT_FLAGS, *TUNING_FLAGS)}
    for name in settings:
        if name in others or name in ALIASES:
            raise UserError(
                f'an option of data that a plug-in registers, {name!r}, has the name of the flag `{name}`; rename it'
            )
    return {**settings, **others}


def define_flags(values: flags.FlagValues) -> None:
    """One flag per setting, with its default and help, and the flags that say where results go.

    May be called again: a plug-in that was loaded meanwhile may have brought options of data.
    """
    for option in all_flags().values():
        define_flag(option, values)
    for alias, name in ALIASES.items():
        if alias not in values and name in values:
            flags.DEFINE_alias(alias, name, flag_values=values)


def define_flag(option: Option, values: flags.FlagValues) -> None:
    """The flag of an option, unless there is one already."""
    if option.name in values:
        return
    default: Any = option.default
    if isinstance(default, tuple):
        default = list(default) if option.kind == TEXTS else ','.join(map(str, default))
    elif isinstance(default, int | float) and not isinstance(default, bool):
        default = repr(default)
    define: Any = _DEFINE.get(option.kind, flags.DEFINE_string)
    define(option.name, default, option.help, flag_values=values)


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
            raise UserError(f'{word} needs a value: write {word}=VALUE')
        else:
            hyper[match[1]] = match[2]
    return plain, hyper


def expanded(words: Sequence[str], command: str = 'run') -> list[str]:
    """All words as flags: those of config files come first, so that the others overrule them.

    A command's argument, the first word that is no flag, is written as the flag it stands for.
    """
    words = [SHORT_DASH.sub('--', word) for word in words]
    places = [place for place, word in enumerate(words) if not word.startswith('-')]
    if command in ARGUMENTS and places:
        words[places[0]] = f'--{ARGUMENTS[command]}={words[places[0]]}'
    for flag in (*FLAGS_OF_FILES, 'plugin'):
        if f'--{flag}' in words:
            raise UserError(f'write --{flag}=FILE')
    _check_words(words)
    files = [(flag, path) for flag, _, path in (word.removeprefix('--').partition('=') for word in words)]
    given = {pathlib.PurePath(spec).name for spec in _plugins_in(words)}
    from_files = [
        word for flag, path in files if flag in FLAGS_OF_FILES for word in config_words(path, flag, NO_SETTINGS)
    ]
    _check_words(from_files)
    known = [f'{PLUGIN}{spec}' for spec in _plugins_in(from_files) if pathlib.PurePath(spec).name in given]
    own = (word for word in words if not word.startswith('--flagfile='))  # it is read, so absl has nothing to do
    return [*(word for word in from_files if word not in known), *own]


def is_flag(word: str) -> bool:
    """Whether a word of a command line is a flag rather than a value."""
    return word.startswith(DASHES)


def _check_words(words: Sequence[str]) -> None:
    """Refuse words that are not UTF-8, and names of flags that are far too long: libraries would show tracebacks."""
    for word in words:
        if not is_writable_text(word):
            raise UserError(f'{word} is not text in UTF-8; rename the file or folder')
        if is_flag(word) and len(word.partition('=')[0]) > LONGEST_NAME:
            raise UserError(f'unknown flag {word[:LONGEST_NAME]}...; flags are written --name=value')


def _plugins_in(words: Sequence[str]) -> list[str]:
    return [word.removeprefix(PLUGIN) for word in words if word.startswith(PLUGIN)]


def load_plugins(words: Sequence[str]) -> None:
    """Load the plug-ins that :func:`expanded` words name, and those of installed packages.

    This comes before flags are defined: a plug-in may bring some.
    """
    plugins.load_all(list(dict.fromkeys(_plugins_in(words))))


def parse(words: Sequence[str], values: flags.FlagValues, command: str = 'run') -> dict[str, str]:
    """Parse command-line words into ``values``, for which flags are defined where they are missing.

    Returns the hyper-parameters of methods. Anything wrong is a UserError.
    """
    given = expanded(words, command)
    load_plugins(given)
    define_flags(values)
    plain, hyper = split_hyper(given)
    values.set_gnu_getopt(command in SEVERAL)
    rest = parsed(plain, values)
    for name, owners in OWNERS.items():
        if values[name].present and command not in owners:
            raise UserError(f'`{name}` is a flag of {" and ".join(owners)}, not of {command}')
    if values.resume and values.overwrite:
        raise UserError('`resume` goes on with the results that `overwrite` would delete; give one of them')
    if command in OWNERS['recipes'] and any(w.partition('=')[0] == '--recipe' for w in words):
        raise UserError(f'{command} takes --recipes=A,B,..., not --recipe')
    if command in SEVERAL:
        setattr(values, SEVERAL[command], [*getattr(values, SEVERAL[command]), *rest])
    elif rest:
        raise UserError(f'unexpected argument {rest[0]!r}; flags are written --name=value')
    return hyper


def parsed(words: Sequence[str], values: flags.FlagValues) -> list[str]:
    """Parse flags into ``values``; returns the words that are no flags. Anything wrong is a UserError."""
    for word, following in itertools.pairwise([*itertools.takewhile(lambda word: word != DASHES, words), DASHES]):
        if is_flag(word):
            _check_known(word.removeprefix(DASHES).partition('=')[0], values)
        name = word.removeprefix(DASHES)
        if is_flag(word) and name in values and not values[name].boolean and is_flag(following):
            raise UserError(f'`{name}` needs a value: write {word}=VALUE')
        name, equals, value = name.partition('=')
        if is_flag(word) and equals and name in values and values[name].boolean and value.lower() not in BOOLEANS:
            raise UserError(f'`{name}`={value} must be true or false')
    try:
        return values(['fedjax-fair', *words])[1:]
    except (flags.Error, ValueError) as error:
        raise UserError(' '.join(str(error).split())) from None


def _check_known(name: str, values: flags.FlagValues) -> None:
    """Refuse the name of a flag that there is not; a flag that is on or off has a second name that begins with no."""
    negated = name.removeprefix('no')
    if name not in values and not (name != negated and negated in values and values[negated].boolean):
        raise UserError(f'unknown flag {DASHES}{name}; --help shows all flags{did_you_mean(name, values)}')


def config_of(values: flags.FlagValues, hyper: dict[str, str], recipe: str | None = None) -> Config:
    """The settings that the flags describe; those that ``values`` has no flag for keep their defaults."""
    settings: dict[str, Any] = {}
    by_setting = flags_of_settings()
    for field in dataclasses.fields(Config):
        given = {one.name: _value(one, values) for one in by_setting[field.name] if one.name in values}
        if given:
            settings[field.name] = field.metadata['written'].value(given)
    return Config(**settings | {'hyper': hyper} | ({} if recipe is None else {'recipe': recipe}))


def config_from(words: Sequence[str]) -> tuple[Config, dict[str, str]]:
    """The settings that the words of a command line give, and the hyper-parameters ``part.key`` as texts."""
    values = flags.FlagValues()
    hyper = parse(words, values)
    return config_of(values, {}), hyper


def _value(option: Option, values: flags.FlagValues) -> Any:
    """The value of a flag; choices and ranges are checked together with all other settings."""
    value = getattr(values, option.name)
    parses = option.kind in (int, float, tuple[int, ...]) and isinstance(value, str)
    return option.read(value) if parses else value


def tuning_of(values: flags.FlagValues) -> dict[str, Any]:
    """The options of :func:`~fedjax_fair.training.tune` that the flags give."""
    given = {one.name: getattr(values, one.name) for one in TUNING_FLAGS}
    return {one.name: one.parse(text) if isinstance(text := given[one.name], str) else text for one in TUNING_FLAGS}


def memory_of(values: flags.FlagValues) -> float | None:
    """The memory of a device that is planned for, in GB; None where it is not given."""
    return None if values.memory is None else MEMORY_FLAG.parse(values.memory)


def data_seeds_of(values: flags.FlagValues) -> tuple[int, ...] | None:
    """The data seeds that are asked for; None where the run has one."""
    return _value(all_flags()['data_seeds'], values) if values['data_seeds'].present else None


def grid_of(specs: Sequence[str], flag: str = 'grid') -> dict[str, list[float]]:
    """``['fedprox.mu=0,0.1']`` as ``{'fedprox.mu': [0.0, 0.1]}``; ``flag`` is where they were written."""
    grid = {}
    for spec in specs:
        name, _, text = spec.partition('=')
        if name in grid:
            raise UserError(f'`{flag}`={spec}: {name} is given twice')
        try:
            grid[name] = [number(one) for one in text.split(',')]
        except ValueError:
            raise UserError(f'`{flag}`={spec} must be written name=v1,v2,... with numbers') from None
    return grid
