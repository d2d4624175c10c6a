"""Names of the files of a run, and how they are read and written."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from fedjax_fair.errors import UserError
from fedjax_fair.foreign import check_plain, json_of
from fedjax_fair.publishing import publish

CONFIG, HISTORY, SUMMARY = 'config.json', 'metrics.jsonl', 'summary.json'
TUNING = 'tuning.json'  # of a folder in which recipes were tuned
FRONTIER = 'frontier'  # its runs differ in one hyper-parameter: frontier/NAME/NAME=VALUE

Folder = str | os.PathLike[str]


def point_name(point: Mapping[str, float]) -> str:
    """Directory name of one point of a grid, different for different points.

    >>> point_name({'fedprox.mu': 0.1, 'lr': 1.0})
    'fedprox.mu=0.1,lr=1'
    """
    return ','.join(f'{name}={float(value)!r}'.removesuffix('.0') for name, value in point.items())


def write_json(path: pathlib.Path, value: Any) -> None:
    """Write JSON so that a reader never sees half a file."""
    publish(path, json.dumps(value, indent=2, allow_nan=False) + '\n')


def read_text(path: pathlib.Path) -> str:
    """The text of a file of a run."""
    check_plain(path)
    try:
        return path.read_text(encoding='utf-8')
    except OSError as error:
        raise UserError(f'{path}: cannot be read ({error.strerror}); a run directory holds it when finished') from None
    except UnicodeDecodeError:
        raise UserError(f'{path}: is not a text file') from None


def parse(text: str, place: Any) -> Any:
    """The value of a JSON text; ``place`` says where it stands. NaN and infinities are undefined: None."""
    return json_of(text, f'{place}:', parse_constant=lambda _: None)


def read_json(path: pathlib.Path) -> Any:
    """The value of a JSON file of a run."""
    return parse(read_text(path), path)


def holds_run(folder: Folder) -> bool:
    """Whether a run was started in this directory: its config.json names a recipe."""
    try:
        return 'recipe' in read_json(pathlib.Path(folder) / CONFIG)
    except (UserError, TypeError):
        return False
