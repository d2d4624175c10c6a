"""config.json: every setting of a run, and where, how and with which versions it was run."""

from __future__ import annotations

import functools
import importlib.metadata
import pathlib
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax

from fedjax_fair.results.files import CONFIG, HISTORY, SUMMARY, Folder, read_json, read_text, write_json
from fedjax_fair.results.schema import CONFIG_FIELDS, CONFIG_SHAPES, checked_record

PACKAGES = ('fedjax-fair', 'jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy', 'scikit-learn')

# in config.json beside the settings; the last two are of runs that belong to a search
FACTS = (
    *('versions', 'commit', 'command', 'platform', 'device_count', 'layout', 'notes', 'plugin_files'),
    *('tuned', 'scored_on'),
)
DIRTY = '-dirty'  # the end of a commit from which files differ


def versions() -> dict[str, str]:
    """Versions of Python and the packages that decide the numbers."""
    version_of = {'python': platform.python_version()}
    for name in PACKAGES:
        try:
            version_of[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version_of[name] = 'not installed'
    return version_of


@functools.cache
def git_commit() -> str | None:
    """Commit of the package's checkout, marked when files differ from it; None outside a checkout."""
    here = pathlib.Path(__file__).resolve()

    def git(*words: str) -> str:
        done = subprocess.run(['git', '-C', str(here.parent), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        git('ls-files', '--error-unmatch', here.name)  # installed inside somebody else's checkout: not ours
        return git('rev-parse', 'HEAD') + (DIRTY if git('status', '--porcelain', '-uno') else '')
    except (OSError, subprocess.CalledProcessError):
        return None


def write_config(
    folder: Folder,
    settings: Mapping[str, Any],
    notes: Sequence[str] = (),
    plugin_files: Sequence[Mapping[str, str]] = (),
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Everything needed to repeat the run: settings, versions, commit, machine, name and SHA-256 of plug-ins.

    ``more``: ``layout`` says how the run was computed when it began. Of runs that belong to a search, ``tuned`` says on
    which data the settings were chosen, ``scored_on`` which data stand in for the test sets.
    """
    facts = {
        'versions': versions(),
        'commit': git_commit(),
        'command': shlex.join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]),
        'platform': jax.default_backend(),
        'device_count': jax.local_device_count(),
        'notes': list(notes),
        'plugin_files': list(plugin_files),
        **more,
    }
    write_json(pathlib.Path(folder) / CONFIG, {**settings, **facts})


def read_config(folder: Folder) -> dict[str, Any]:
    """The settings and facts of a run."""
    path = pathlib.Path(folder) / CONFIG
    return checked_record(read_json(path), CONFIG_FIELDS, path, CONFIG_SHAPES)


def settings(folder: Folder) -> dict[str, Any]:
    """The settings of a run, without the facts beside them."""
    path = pathlib.Path(folder) / CONFIG
    record = checked_record(read_json(path), {}, path, CONFIG_SHAPES)
    return with_former_score({name: value for name, value in record.items() if name not in FACTS}, folder)


def with_former_score(values: dict[str, Any], folder: Folder) -> dict[str, Any]:
    """The settings of a run with the score that an older segmentation had, which could not be chosen."""
    if 'score' in values:
        return values
    files = [path for name in (HISTORY, SUMMARY) if (path := pathlib.Path(folder) / name).is_file()]
    with_background = any('"dice_foreground"' in read_text(path) for path in files)
    return {**values, 'score': 'dice_with_background'} if with_background else values
