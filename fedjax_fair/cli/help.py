"""The help of commands: all flags in groups, with their defaults."""

from __future__ import annotations

from fedjax_fair.cli.settings import COMPARED_SEEDS, OUTPUT_FLAGS, OWNERS, TUNING_FLAGS, grouped_flags
from fedjax_fair.options import Option

HELP = ('--help', '-help', '-h', '--helpshort', '--helpfull')
TITLES = {
    'run': 'what is run',
    'local': 'local training',
    'clients': 'who takes part',
    'data': 'data',
    'evaluation': 'evaluation',
    'compute': 'how it is computed',
}
MOST_CHOICES = 10  # more of them are in `fedjax-fair list`
SHORT = {  # commands that train nothing, and the flags that they read
    'list': ('name', 'json', 'plugin'),
    'report': ('out', 'baseline', 'margin', 'metric', 'plugin'),
    'verdict': ('runs', 'margin', 'metric', 'json', 'out'),
    'check-method': ('plugin', 'recipe'),
}


def asks_for_help(word: str) -> bool:
    """Whether a word of a command line is ``--help``, with or without a value."""
    return word.partition('=')[0] in HELP


def help_text(command: str) -> str:
    """All flags of a command in groups, with their defaults."""
    groups = grouped_flags()
    if command in SHORT:
        known = {one.name: one for group in (*groups.values(), OUTPUT_FLAGS) for one in group}
        return '\n'.join(['flags:', *(help_line(known[name]) for name in SHORT[command])])
    lines = []
    for group, title in TITLES.items():
        chosen = [one for one in groups[group] if one.name != 'recipe' or command not in OWNERS['recipes']]
        if command in OWNERS['recipes']:
            chosen = [one._replace(default=COMPARED_SEEDS) if one.name == 'seeds' else one for one in chosen]
        lines += [f'{title}:', *map(help_line, chosen), '']
    if command == 'tune':
        lines += ['tuning:', *map(help_line, TUNING_FLAGS), '']
    lines.append('files and output:')
    lines += [help_line(one) for one in OUTPUT_FLAGS if command in OWNERS.get(one.name, (command,))]
    return '\n'.join([*lines, '', 'hyper-parameters of a recipe are written --recipe.key=value; see fedjax-fair list'])


def help_line(option: Option) -> str:
    """One flag, what it is for, its choices and its default."""
    known = [', '.join(map(str, option.choices))] if 0 < len(option.choices) <= MOST_CHOICES else []
    default = option.default
    value = ','.join(map(str, default)) if isinstance(default, tuple) else default
    if value not in (None, '') and option not in OUTPUT_FLAGS:
        known.append(f'default: {str(value).lower() if isinstance(value, bool) else value}')
    return f'  --{option.name:20} {option.help}' + (f' ({"; ".join(known)})' if known else '')
