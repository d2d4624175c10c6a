"""Files that stand for flags: one flag per line, or the config.json of a run."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Collection, Mapping
from typing import Any

from fedjax_fair import plugins
from fedjax_fair.errors import UserError
from fedjax_fair.foreign import json_of, text_of
from fedjax_fair.options import not_one_of
from fedjax_fair.results import FACTS, with_former_score
from fedjax_fair.training.config import BARE_NAMES, NAMES, nested, text_of_options

PART_KEY = re.compile(r'[a-z0-9_]+\.[a-z0-9_]+')  # names of options of methods


def config_words(path: str, flag: str = 'config', others: Collection[str] = ()) -> list[str]:
    """The flags in a file: lines such as ``--lr=0.1`` (dashes optional, # for remarks), or a run's config.json.

    ``flag`` is the one that names the file. A config.json may not give ``others``: they are no settings.
    """
    where = f'`{flag}`={path}'
    text = text_of(path, where)
    if path.endswith('.json'):
        return _json_words(pathlib.Path(path).parent, json_of(text, where), where, others)
    lines = (line.strip() for line in text.splitlines())
    words = ['--' + line.lstrip('-') for line in lines if line and not line.startswith('#')]
    for word in words:
        if not word[2:].partition('=')[0].strip():
            raise UserError(f'{where}: {word!r} names no flag; lines have the form --name=value')
        if word.startswith(('--config=', '--flagfile', '--help')) or word == '--config':
            raise UserError(f'{where}: {word} cannot stand in a file of flags')
    return words


def _json_words(folder: pathlib.Path, values: Any, where: str, others: Collection[str]) -> list[str]:
    if not isinstance(values, dict):
        raise UserError(f'{where} must hold a JSON object of settings')
    values = with_former_score(values, folder)
    try:
        values = nested({name: value for name, value in values.items() if name not in FACTS})
    except UserError as error:
        raise UserError(f'{where}: {error.message}') from None
    for name in values:
        if name not in NAMES:
            raise UserError(f'{where}: setting {name!r} {not_one_of(name, NAMES)}')
    specs = [plugins.located(spec, folder) for spec in values.pop('plugins', [])]
    data, hyper = values.pop('data', {}), values.pop('hyper', {})
    _check_names(data, hyper, where, others)
    options = {**data, **hyper}
    if 'model_options' in values:
        values['model_options'] = text_of_options(values['model_options'])
    given = {name: value for name, value in {**values, **options}.items() if value is not None}
    texts = {name: ','.join(map(str, v)) if isinstance(v, list | tuple) else v for name, v in given.items()}
    return [*(f'--plugin={one}' for one in specs), *(f'--{name}={value}' for name, value in texts.items())]


def _check_names(data: Mapping[str, Any], hyper: Mapping[str, Any], where: str, others: Collection[str]) -> None:
    """Refuse options that would be read as other flags, such as the one that deletes results."""
    for name in data:
        if name in BARE_NAMES or name in others or not name.isidentifier():
            raise UserError(f'{where}: {name!r} is no option of data')
    for name in hyper:
        if not PART_KEY.fullmatch(name):
            raise UserError(f'{where}: {name!r} is no option of a method, which is named part.key')
