"""Output directories: they are checked before work begins, and never overwritten by accident."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from fedjax_fair import plugins, results
from fedjax_fair.errors import UserError
from fedjax_fair.options import AUTO
from fedjax_fair.results import CONFIG, TUNING, holds_run
from fedjax_fair.training.config import COMPUTE_OPTIONS, Config, text_of_options


def check_out(out: pathlib.Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse an output directory that is taken; touches nothing."""
    try:
        is_file, taken = out.is_file(), out.is_dir() and any(out.iterdir())
    except OSError as error:
        raise UserError(f'`out`={out} cannot be read: {error.strerror or error}') from None
    if is_file:
        raise UserError(f'`out`={out} is a file; name a directory')
    if not taken:
        return
    if not (resume or overwrite):
        raise UserError(f'`out`={out} exists; pass `resume`, `overwrite` or another `out`')
    if not _holds_runs(out):
        asked = 'resume' if resume else 'overwrite'
        raise UserError(f'`{asked}`: `out`={out} holds other files and no run ({CONFIG}); name another `out`')


def make_out(out: pathlib.Path, *, resume: bool) -> None:
    """Make an empty output directory, or keep the one to resume; call :func:`check_out` first."""
    try:
        if out.exists() and not resume:
            shutil.rmtree(out)
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise UserError(f'`out`={out} cannot be written: {error.strerror or error}') from None


def resumed(config: Config, folder: pathlib.Path) -> Config:
    """The settings of a run that goes on: an older run keeps what these leave open and what had another default."""
    if not holds_run(folder):
        return config
    started = Config.of_run(folder)
    still_open = [name for name in ('last_k', 'score') if getattr(config, name) is None]
    return dataclasses.replace(config, **{name: getattr(started, name) for name in still_open})


def check_same(config: Config, folder: pathlib.Path) -> None:
    """A run can only be resumed with the settings and plug-ins it was started with; how it is computed may change."""
    if not (folder / CONFIG).exists():
        return
    _check_same_plugins(config, folder)
    old = Config.of_run(folder)
    for name, before, now in _differences(_with_network(old, old.model), _with_network(config, old.model)):
        raise UserError(f'`resume`: `{name}`={now} differs from {before}, with which {folder} was started')


def _with_network(config: Config, auto: str) -> Config:
    """The settings with the options of the network as it reads them; ``auto`` is the network that was chosen."""
    model = auto if config.model == AUTO else config.model
    return dataclasses.replace(config, model_options=config.network_options(model))


def _differences(old: Config, new: Config) -> Iterator[tuple[str, object, object]]:
    for name in Config.__dataclass_fields__:
        before, now = getattr(old, name), getattr(new, name)
        if name in ('hyper', 'data'):
            for key in sorted({*before, *now}):
                pair = [_words(options.get(key, 'its default')) for options in (before, now)]
                if pair[0] != pair[1]:
                    yield key, *pair
        elif before != now and name not in (*COMPUTE_OPTIONS, 'plugins') and (name, now) != ('model', AUTO):
            yield name, _words(before), _words(now)


def _words(value: object) -> object:
    if isinstance(value, dict):
        return text_of_options(value)
    return ','.join(map(str, value)) if isinstance(value, tuple) else value


def plugin_files(config: Config) -> list[dict[str, str]]:
    """Name and SHA-256 of the plug-ins of a run: those it names, and installed ones that it takes something from."""
    used: dict[str, list[str]] = {
        'recipe': config.recipe.split('+'),
        'model': [config.model],
        'scenario': config.scenario.split(':'),
        'source': config.scenario.split(':'),
        'task': [config.data.get('task', '')],
        'partition scheme': [config.data.get('split_by', '')],
        'augmentation': config.augment.split('+'),
        'sampler': [config.sampler],
    }
    named = {pathlib.PurePath(spec).name for spec in config.plugins}
    return [
        {'name': plugin.name, 'sha256': plugin.sha256}
        for plugin in plugins.loaded()
        if plugin.name in named or any(name in used[kind] for kind, name in plugins.registered(plugin.name))
    ]


def _check_same_plugins(config: Config, folder: pathlib.Path) -> None:
    written = results.read_config(folder).get('plugin_files', [])
    old, new = ({one['name']: one['sha256'] for one in files} for files in (written, plugin_files(config)))
    for name in {**old, **new}:
        if name not in new:
            raise UserError(f'`resume`: {folder} was started with the plug-in {name}; pass `plugin`={name}')
        if name not in old:
            raise UserError(f'`resume`: {folder} was started without the plug-in {name}')
        if old[name] != new[name]:
            raise UserError(f'`resume`: the plug-in {name} has changed since {folder} was started')


def _holds_runs(out: pathlib.Path) -> bool:
    places = (CONFIG, f'*/{CONFIG}', f'*/*/{CONFIG}')
    runs = any(holds_run(path.parent) for pattern in places for path in out.glob(pattern))
    return runs or (out / TUNING).is_file()
