"""Files that stand for flags: one flag per line, or the config.json of a run."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from fedjax_fair import plugins
from fedjax_fair.errors import UserError
from fedjax_fair.results import FACTS, with_former_score
from fedjax_fair.training.config import NAMES, nested, text_of_options


def config_words(path: str) -> list[str]:
    """The flags in a file: lines such as ``--lr=0.1`` (dashes optional, # for remarks), or a run's config.json."""
    try:
        text = pathlib.Path(path).read_text()
    except OSError as error:
        raise UserError(f'`config`={path}: {error.strerror or error}') from None
    except UnicodeDecodeError:
        raise UserError(f'`config`={path} is not a text file') from None
    if path.endswith('.json'):
        return _json_words(path, _json_object(path, text))
    lines = (line.strip() for line in text.splitlines())
    words = ['--' + line.removeprefix('--') for line in lines if line and not line.startswith('#')]
    for word in words:
        if word.partition('=')[0] in ('--config', '--flagfile'):
            raise UserError(f'`config`={path}: {word} cannot stand in a file of flags')
    return words


def _json_object(path: str, text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f'`config`={path} is not valid JSON: {error}') from None
    options = [values.get(name, {}) for name in ('hyper', 'data')] if isinstance(values, dict) else [None]
    if not all(isinstance(one, dict) for one in options):
        raise UserError(f'`config`={path} must hold a JSON object of settings')
    return values


def _json_words(path: str, values: dict[str, Any]) -> list[str]:
    values = with_former_score(values, pathlib.Path(path).parent)
    values = nested({name: value for name, value in values.items() if name not in FACTS})
    for name in values:
        if name not in NAMES:
            raise UserError(f'`config`={path}: unknown setting {name!r}; known: {", ".join(NAMES)}')
    specs = [plugins.located(spec, pathlib.Path(path).parent) for spec in values.pop('plugins', [])]
    options = {**values.pop('data', {}), **values.pop('hyper', {})}
    if 'model_options' in values:
        values['model_options'] = text_of_options(values['model_options'])
    given = {name: value for name, value in {**values, **options}.items() if value is not None}
    texts = {name: ','.join(map(str, v)) if isinstance(v, list | tuple) else v for name, v in given.items()}
    return [*(f'--plugin={one}' for one in specs), *(f'--{name}={value}' for name, value in texts.items())]
