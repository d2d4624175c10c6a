"""Output directories: they are checked before work begins, and never overwritten by accident."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fedjax_fair import plugins, results
from fedjax_fair.core.platform import current
from fedjax_fair.errors import UserError
from fedjax_fair.foreign import is_writable_text
from fedjax_fair.options import AUTO
from fedjax_fair.publishing import make_folder, reason
from fedjax_fair.results import CONFIG, SUMMARY, holds_run
from fedjax_fair.training.config import COMPUTE_OPTIONS, Config, text_of_options
from fedjax_fair.training.notes import idle_notes
from fedjax_fair.training.output_files import (
    HERE,
    add_to_list,
    check_clear,
    clear,
    forget_list,
    is_result,
    is_resumable,
    read_list,
    write_list,
)
from fedjax_fair.training.writer_lock import held_above, is_writer, writing

if TYPE_CHECKING:
    from fedjax_fair.training.setup import Experiment


def check_out(out: pathlib.Path, *, resume: bool, overwrite: bool, runs: Sequence[str] = (HERE,)) -> None:
    """Refuse an output directory that is taken; touches nothing. ``runs`` are the paths in it that will be written."""
    if not is_writer():
        return
    if not is_writable_text(str(out)):
        raise UserError(f'`out`={out} is not text in UTF-8; name another `out`')
    try:
        is_file, taken = out.is_file(), out.is_dir() and any(map(is_result, out.iterdir()))
    except OSError as error:
        raise UserError(f'`out`={out} cannot be read: {reason(error, out)}') from None
    if is_file:
        raise UserError(f'`out`={out} is a file; name a directory')
    if not taken:
        return
    if not (resume or overwrite):
        raise UserError(f'`out`={out} exists; pass `resume`, `overwrite` or another `out`')
    if not resume:
        check_clear(out, runs)
    elif not is_resumable(out, runs):
        raise UserError(f'`resume`: `out`={out} holds other files and no run ({CONFIG}); name another `out`')


@contextlib.contextmanager
def claimed(out: pathlib.Path, *, resume: bool, overwrite: bool, runs: Sequence[str] = (HERE,)) -> Iterator[None]:
    """Check an output directory and be its only writer; enter before data are loaded, which may take long."""
    check_out(out, resume=resume, overwrite=overwrite, runs=runs)
    with writing(out):
        check_out(out, resume=resume, overwrite=overwrite, runs=runs)  # another process may have been faster
        yield


def make_out(out: pathlib.Path, *, resume: bool, runs: Sequence[str] = (HERE,)) -> None:
    """Make the output directory, delete what is to be overwritten, and write down the runs that begin here.

    Call it in :func:`claimed`. A command that makes several runs names them in advance, and each is written down when
    it begins.
    """
    if not is_writer():
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        for folder, name in held_above(out):
            if read_list(folder) is not None:
                add_to_list(folder, [name])
        begun = runs if HERE in runs else ()
        if resume:
            add_to_list(out, begun)
        else:
            clear(out, runs)
            write_list(out, begun)
    except OSError as error:
        raise UserError(f'`out`={out} cannot be written: {reason(error, out)}') from None


@contextlib.contextmanager
def unmade(out: pathlib.Path, runs: Sequence[str], left: bool) -> Iterator[None]:
    """Where a run cannot begin, remove what it wrote: the same command must not find a folder that is taken.

    What was there before a run that goes on is ``left`` alone.
    """
    try:
        yield
    except UserError:
        if not left and is_writer():
            with contextlib.suppress(OSError, UserError):
                clear(out, runs)
                forget_list(out)
        raise


def write_settings(
    experiment: Experiment, model: str, folders: Sequence[pathlib.Path], facts: Mapping[str, str]
) -> None:
    """config.json of every point that has none; ``facts`` stand beside the settings."""
    config, more = experiment.config, {'layout': experiment.layout, **facts}
    notes = [*experiment.notes, *idle_notes(experiment.points, experiment.idle)]
    for folder, point in zip(folders, experiment.points, strict=True):
        make_folder(folder)
        if not (folder / CONFIG).exists():
            results.write_config(folder, config.at(point).recorded(model), notes, plugin_files(config), more)


def resumed(config: Config, folder: pathlib.Path) -> Config:
    """The settings of a run that goes on: an older run keeps what these leave open and what had another default."""
    if not holds_run(folder):
        return config
    started = Config.of_run(folder)
    still_open = [name for name in ('last_k', 'score', *_spread(folder)) if getattr(config, name) is None]
    return dataclasses.replace(config, **{name: getattr(started, name) for name in still_open})


def _spread(folder: pathlib.Path) -> tuple[str, ...]:
    """The setting that says how clients are spread, if a run goes on where it began: a choice is not made again."""
    begun = results.read_config(folder).get('layout', '')
    return ('chunk',) if begun.startswith(f'{current().name},') else ()


def as_started(config: Config, points: Sequence[Mapping[str, float]], folders: Sequence[pathlib.Path]) -> Config:
    """The settings of runs that go on; refuses others than those with which they were started."""
    config = resumed(config, folders[0])
    for folder, point in zip(folders, points, strict=True):
        check_same(config.at(point), folder)
    return config


def is_finished(folders: Sequence[pathlib.Path]) -> bool:
    """Whether all runs have their summaries."""
    return all((folder / SUMMARY).exists() for folder in folders)


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
