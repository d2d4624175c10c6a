"""Data sets of TensorFlow Datasets on disk: they are prepared once, and opened by name.

They lie in ``DATA_DIR/NAME[/CONFIG]/VERSION``. Preparing downloads. Opening never does, and it imports no code except
that of TensorFlow Datasets, whatever the files say.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import types
import warnings
from collections.abc import Iterator
from typing import Any

from fedjax_fair.errors import DataError, UserError
from fedjax_fair.foreign import check_files

NAME = re.compile(r'(?P<name>\w+)(?:/(?P<config>[\w.+-]+))?(?::(?P<version>\d+\.\d+\.\d+))?')
VERSION = re.compile(r'\d+\.\d+\.\d+')
FORMAT = 'array_record'  # any example is read without those before it, and without TensorFlow
FEATURES = 'features.json'
LIBRARY = 'tensorflow_datasets'
LONGEST = 300  # characters of what another library says


def tfds_library() -> types.ModuleType:
    """TensorFlow Datasets, which takes a second to import, without its warnings."""
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')  # of TensorFlow, if it is there
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        import tensorflow_datasets
    return tensorflow_datasets


def open_prepared(name: str, data_dir: str = '') -> Any:
    """The builder of a prepared set, ``NAME[/CONFIG][:VERSION]``, by default in the folder of TensorFlow Datasets."""
    where, tfds = f'`scenario`=tfds:{name}', tfds_library()
    folder = _find(where, name, data_dir, _root(data_dir, tfds))
    check_files(folder, (path.name for path in folder.iterdir() if not path.is_dir()), where)
    try:
        foreign = [c for c in _classes(json.loads((folder / FEATURES).read_text())) if not c.startswith(f'{LIBRARY}.')]
        builder = None if foreign else tfds.builder_from_directory(folder)
    except Exception as error:  # whatever the library makes of broken files
        raise DataError(f'{where}: {folder} cannot be read: {short(error)}') from None
    if builder is None:
        raise DataError(f'{where}: {folder / FEATURES} names {foreign[0]}, a class from outside {LIBRARY}')
    if (suffix := builder.info.file_format.file_suffix) != FORMAT:
        raise DataError(f'{where}: {folder} holds {suffix}, not {FORMAT}; remove it, then {_command(name, data_dir)}')
    return builder


def prepare(name: str, data_dir: str = '') -> pathlib.Path:
    """Download a set and write it in a form that can be read at any place; returns where it is."""
    where, tfds = f'data prepare {name}', tfds_library()
    _parsed(name, where)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it says much there; progress is on standard error
            builder = tfds.builder(name, data_dir=_root(data_dir, tfds), file_format=FORMAT)
            builder.download_and_prepare()
    except tfds.core.DatasetNotFoundError:
        raise UserError(f'{where}: no such set; see tensorflow.org/datasets/catalog') from None
    except Exception as error:  # a set's own code may fail in any way: no network, a changed file, no space left
        raise UserError(f'{where}: {_missing(error) or short(error)}') from None
    return pathlib.Path(builder.data_dir)


def short(error: BaseException) -> str:
    """The beginning of what a library says, in one line."""
    text = ' '.join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else f'{text[:LONGEST]}...'


def _missing(error: BaseException | None) -> str:
    """A sentence about the missing package, where that is the cause of an error."""
    while error is not None and not (isinstance(error, ModuleNotFoundError) and error.name):  # raised anew it has none
        error = error.__cause__ or error.__context__
    return (
        f"the package {error.name} is missing; pip install 'fedjax-fair[tfds]' brings what sets need" if error else ''
    )


def _root(data_dir: str, tfds: types.ModuleType) -> pathlib.Path:
    return pathlib.Path(os.path.expandvars(data_dir or tfds.core.constants.DATA_DIR)).expanduser()


def _parsed(name: str, where: str) -> re.Match[str]:
    match = NAME.fullmatch(name)
    if match is None:
        raise DataError(f'{where}: a name is written NAME[/CONFIG][:VERSION]')
    return match


def _find(where: str, name: str, data_dir: str, root: pathlib.Path) -> pathlib.Path:
    """The folder of a set: the one named or the only configuration, in the one named or the newest version."""
    match = _parsed(name, where)
    everything = dict(_prepared(root))
    matching = {key: path for key, path in everything.items() if key[0] == match['name']}
    matching = {key: path for key, path in matching.items() if match['config'] in (None, key[1])}
    matching = {key: path for key, path in matching.items() if match['version'] in (None, key[2])}
    if not matching:
        known = ', '.join(map(_written, everything)) or 'none'
        raise DataError(f'{where}: not prepared in {root} (found: {known}); run {_command(name, data_dir)}')
    if len(configs := {key[1] for key in matching}) > 1:
        choices = ', '.join(f'{match["name"]}/{config}' for config in sorted(configs))
        raise DataError(f'{where}: prepared in several configurations; choose one of {choices}')
    return matching[max(matching, key=lambda key: tuple(map(int, key[2].split('.'))))]


def _prepared(root: pathlib.Path) -> Iterator[tuple[tuple[str, str, str], pathlib.Path]]:
    """Name, configuration (or nothing) and version of every set below a folder, and where it is."""
    for depth in ('*/*', '*/*/*'):
        for path in sorted(root.glob(f'{depth}/{FEATURES}')):
            name, *config, version = path.parent.relative_to(root).parts
            if VERSION.fullmatch(version):
                yield (name, ''.join(config), version), path.parent


def _written(key: tuple[str, str, str]) -> str:
    name, config, version = key
    return f'{name}{"/" * bool(config)}{config}:{version}'


def _command(name: str, data_dir: str) -> str:
    return f'fedjax-fair data prepare {name}' + (f' --data_dir={data_dir}' if data_dir else '')


def _classes(node: Any) -> Iterator[str]:
    """Names of the Python classes that a description of features asks for; opening it imports them.

    Texts in it may be descriptions again, which are opened too.
    """
    if isinstance(node, str):
        with contextlib.suppress(ValueError):  # most texts are no JSON
            yield from _classes(json.loads(node))
    if isinstance(node, dict):
        yield from (node[k] for k in ('pythonClassName', 'python_class_name', 'type') if isinstance(node.get(k), str))
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _classes(child)
