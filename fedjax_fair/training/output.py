"""Where results go: output directories are checked before work begins, and never overwritten by accident."""

from __future__ import annotations

import json
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping

from fedjax_fair.training import results
from fedjax_fair.training.config import COMPUTE_OPTIONS, Config

CONFIG, SUMMARY = 'config.json', 'summary.json'


def point_name(point: Mapping[str, float]) -> str:
    """Directory name of one point of a grid, different for different points.

    >>> point_name({'fedprox.mu': 0.1, 'lr': 1.0})
    'fedprox.mu=0.1,lr=1'
    """
    return ','.join(f'{name}={float(value)!r}'.removesuffix('.0') for name, value in point.items())


def check_out(out: pathlib.Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse an output directory that is taken; touches nothing."""
    try:
        is_file, taken = out.is_file(), out.is_dir() and any(out.iterdir())
    except OSError as error:
        raise ValueError(f'--out={out} cannot be read: {error.strerror or error}') from None
    if is_file:
        raise ValueError(f'--out={out} is a file; name a directory')
    if not taken:
        return
    if not (resume or overwrite):
        raise ValueError(f'--out={out} exists; pass --resume, --overwrite or another --out')
    if not _holds_runs(out):
        asked = 'resume' if resume else 'overwrite'
        raise ValueError(f'--{asked}: --out={out} holds other files and no run ({CONFIG}); name another --out')


def make_out(out: pathlib.Path, *, resume: bool) -> None:
    """Make an empty output directory, or keep the one to resume; call :func:`check_out` first."""
    try:
        if out.exists() and not resume:
            shutil.rmtree(out)
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ValueError(f'--out={out} cannot be written: {error.strerror or error}') from None


def check_same(config: Config, folder: pathlib.Path) -> None:
    """A run can only be resumed with the settings it was started with; how it is computed may change."""
    if not (folder / CONFIG).exists():
        return
    old = results.read_config(folder)
    for flag, before, now in _differences(old, config):
        raise ValueError(f'--resume: --{flag}={now} differs from {before}, with which {folder} was started')


def _differences(old: Config, new: Config) -> Iterator[tuple[str, object, object]]:
    for name in Config.__dataclass_fields__:
        before, now = getattr(old, name), getattr(new, name)
        if name == 'hyper':
            for key in sorted({*before, *now}):
                if before.get(key, 'its default') != now.get(key, 'its default'):
                    yield key, before.get(key, 'its default'), now.get(key, 'its default')
        elif before != now and name not in COMPUTE_OPTIONS and (name, now) != ('model', 'auto'):
            yield name, _words(before), _words(now)


def _words(value: object) -> object:
    return ','.join(map(str, value)) if isinstance(value, tuple) else value


def _holds_runs(out: pathlib.Path) -> bool:
    return any(_is_config(path) for pattern in (CONFIG, f'*/{CONFIG}') for path in out.glob(pattern))


def _is_config(path: pathlib.Path) -> bool:
    try:
        return 'recipe' in results.read_json(path)
    except (OSError, json.JSONDecodeError, TypeError):
        return False
