"""``fedjax-fair list``: what there is to choose from."""

from __future__ import annotations

import json
from typing import Any

from fedjax_fair.cli.catalogue import Item, catalogue, find
from fedjax_fair.errors import UserError
from fedjax_fair.options import Option, did_you_mean
from fedjax_fair.registry import BUILT_IN
from fedjax_fair.training.config import setting_options

HEADINGS = {
    'scenarios': 'scenarios (--scenario=NAME):',
    'models': 'models (--model=NAME):',
    'sources': 'sources (--scenario=NAME:PATH):',
    'partitions': 'partition schemes (--split_by=NAME):',
    'tasks': 'tasks (--task=NAME):',
    'augmentations': 'augmentations (--augment=NAME, joined by +):',
    'samplers': 'samplers (--sampler=NAME):',
}


def as_json() -> str:
    """The catalogue for machines."""
    kinds = catalogue()
    recipes = {name: _recipe(item) for name, item in kinds.pop('recipes').items()}
    others = {title: {item.written: item.about for item in known.values()} for title, known in kinds.items()}
    others['scenarios'] |= others['sources']  # SOURCE:PATH is a scenario, too
    items = (item for known in catalogue().values() for item in known.values())
    origins = {item.name: item.origin for item in items if item.origin != BUILT_IN}
    return json.dumps({'recipes': recipes, **others, 'plugins': origins}, indent=2)


def _recipe(item: Item) -> dict[str, Any]:
    options = {
        name: {
            'default': one.default,
            'help': one.help,
            'range': str(one.range or ''),
            'choices': one.choices,
            'search': str(one.search or ''),
        }
        for name, one in item.options.items()
    }
    hyper = {name: one.default for name, one in item.options.items()}
    return {
        'about': item.about,
        'hyper': hyper,
        'options': options,
        'section': item.section,
        'origin': item.origin,
    }


def as_text() -> str:
    """The catalogue for people."""
    kinds = catalogue()
    lines = ['recipes (join with + in any order, set hyper-parameters with --recipe.key=value):']
    recipes = kinds.pop('recipes').values()
    kinds['scenarios'] = {name: item for name, item in kinds['scenarios'].items() if name not in kinds['sources']}
    for section in dict.fromkeys(item.section for item in recipes):
        lines += ['', f'{section}:'] if section else []
        for item in recipes:
            if item.section == section:
                lines += [_line(item), *(f'  {"":16}   {_flag("recipes", item, one)}' for one in item.options.values())]
    for title, known in kinds.items():
        lines += ['', HEADINGS[title], *map(_line, known.values())] if known else []
    return '\n'.join([*lines, '', 'fedjax-fair list NAME explains one of them'])


def explained(name: str) -> str:
    """All that is known about one name: its documentation and its options."""
    matches = find(name.partition(':')[0])
    if not matches:
        known = [one for names in catalogue().values() for one in names]
        raise UserError(f'nothing is called {name!r} (`fedjax-fair list` shows all names){did_you_mean(name, known)}')
    return '\n\n'.join(_explanation(title, item) for title, item in matches.items())


def _explanation(title: str, item: Item) -> str:
    lines = [f'{item.written} ({title.removesuffix("s")}{_from(item)})', '', item.documentation or item.about]
    for number, option in enumerate(item.options.values()):
        lines += [''] * (number == 0) + [f'  {_flag(title, item, option)}{f": {option.help}" if option.help else ""}']
    if title == 'recipes':
        rate = setting_options()['lr']
        lines += ['', f'  and of every recipe --{rate.name}={rate.default}{_allowed(rate)}']
    if title == 'sources' and item.own:
        lines += ['', '  with --source_options=NAME=VALUE,...:']
        lines += [f'    {option.name}{f": {option.help}" if option.help else ""}' for option in item.own.values()]
    return '\n'.join(lines)


def _line(item: Item) -> str:
    return f'  {item.written:16} {item.about}{_from(item)}'


def _from(item: Item) -> str:
    return '' if item.origin == BUILT_IN else f' [plug-in {item.origin}]'


def _flag(title: str, item: Item, option: Option) -> str:
    """How an option is written, with its default and the values that it may have."""
    named = title in ('augmentations', 'samplers') and option.name not in setting_options()  # or a setting gives it
    own = title == 'recipes' or named
    before = f'--{item.name}.' if own else {'models': '--model_options='}.get(title, '--')
    default = '' if option.default in (None, '', ()) else f'={_shown(option.default)}'
    return f'{before}{option.name}{default}{_allowed(option)}'


def _allowed(option: Option) -> str:
    told = [f'one of {", ".join(map(str, option.choices))}'] if option.choices else [str(option.range or '')]
    told.append(f'tuned over {option.search}' if option.search else '')
    return f' ({"; ".join(filter(None, told))})' if any(told) else ''


def _shown(value: Any) -> str:
    return 'x'.join(map(str, value)) if isinstance(value, tuple | list) else str(value)
