"""Any registered source read into a pool of examples of one shape.

A source is a function registered with ``@register.source(KIND, argument='PATH')``. It takes what the user writes behind
``KIND:`` and its own options, and returns one of :mod:`~fedjax_fair.data.sources.contents`. Its options are given
together, ``source_options=name=value,...``; only ``npz_keys`` is given by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedjax_fair.data.blocks import merge
from fedjax_fair.data.class_choice import only_classes
from fedjax_fair.data.declarations import Classes, ImageSize, JoinSites, NpzKeys, SourceOptions, Task
from fedjax_fair.data.paths import named_paths
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.sources.contents import Arrays, Domains, Encoded, Files
from fedjax_fair.data.sources.decoded_cache import decode_once
from fedjax_fair.data.sources.domains import join_domains
from fedjax_fair.errors import UserError
from fedjax_fair.foreign import check_files, check_plain, check_room
from fedjax_fair.options import not_one_of, pairs, resolve
from fedjax_fair.registry import sources

FLAGS = NPZ_KEYS, SOURCE_OPTIONS = 'npz_keys', 'source_options'  # how options of a source are given
OLDER_NAMES = {'group': 'patient'}  # of options, in command lines and files of flags


def read_pool(
    kind: str,
    argument: str,
    *,
    data_seed: int = 0,
    npz_keys: NpzKeys | None = None,
    source_options: SourceOptions | None = None,
    image_size: ImageSize | None = None,
    task: Task | None = None,
    join_sites: JoinSites = False,
    classes: Classes | None = None,
) -> Pool:
    """The examples of a source as a table of one image shape.

    Images are fitted into squares of ``image_size`` (default: the most common size), grey ones repeated to RGB where
    both occur; uint8 and float images keep their values. ``data_seed`` draws the test set where the source has none,
    ``task`` says what is to be learned where the source leaves a choice, ``join_sites`` makes one site of those that
    are too small, see :func:`~fedjax_fair.data.blocks.merge`; ``classes`` are those that are kept.
    """
    if image_size is not None and image_size < 1:
        raise UserError(f'`image_size`={image_size} must be at least 1')
    options: dict[str, Any] = pairs(SOURCE_OPTIONS, source_options)
    options |= {} if npz_keys is None else {NPZ_KEYS: npz_keys}
    arrays = read_arrays(kind, argument, options, image_size)
    pool = merge(arrays.blocks, arrays.class_names, image_size, data_seed, task, join_sites)
    return only_classes(pool, classes)


def read_arrays(kind: str, argument: str, options: Mapping[str, Any], image_size: int | None = None) -> Arrays:
    """What a source holds, its domains read and its image files decoded."""
    if kind not in sources:
        raise UserError(f'`scenario`={kind}:{argument}: {kind!r} {not_one_of(kind, sources)}')
    for path in named_paths(argument):  # names of other things than files are no paths that exist
        check_plain(path, f'`scenario`={kind}:{path}', folder=True)
    contents = sources[kind](argument, **_resolved(kind, options))
    if isinstance(contents, Domains):
        return join_domains(contents, lambda kind, path: read_arrays(kind, path, {}, image_size))
    where = f'`scenario`={kind}:{argument}'
    if image_size is not None:  # a pixel has a byte at least
        check_room(_count(contents) * image_size**2, f'{where} with `image_size`={image_size}')
    if isinstance(contents, Arrays):
        return contents
    if isinstance(contents, Encoded):
        check_files(contents.root, contents.names, where)
        return decode_once(kind, contents, image_size)
    check_files(contents.root, [*contents.images, *(contents.masks or ())], where, contents.anywhere)
    from fedjax_fair.data.sources.image_decoder import decode  # imports an image library, which takes its time

    return decode(contents, image_size)


def _count(contents: Arrays | Files | Encoded) -> int:
    """How many images there are, or files of them."""
    if isinstance(contents, Arrays):
        return sum(len(block.images) for block in contents.blocks)
    return len(contents.images if isinstance(contents, Files) else contents.names)


def _resolved(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a source as values; those that are not given are left to it."""
    known = sources.options(kind)
    older = {old: new for old, new in OLDER_NAMES.items() if old not in known and new in known}
    renamed = {older.get(name, name): value for name, value in given.items()}
    if len(renamed) < len(given):
        raise UserError(f'`{SOURCE_OPTIONS}` names an option twice: {", ".join(given)} (group means patient)')

    def label(name: str) -> str:
        return NPZ_KEYS if name == NPZ_KEYS else f'`{SOURCE_OPTIONS}`={name}'

    values = resolve(kind, known, renamed, label)
    return {name: values[name] for name in renamed}


def source_flags(kind: str) -> tuple[str, ...]:
    """The options by which the options of a source are given."""
    own = set(sources.options(kind))
    return (NPZ_KEYS,) * (NPZ_KEYS in own) + (SOURCE_OPTIONS,) * bool(own - {NPZ_KEYS})


def source_names() -> tuple[str, ...]:
    """The sources as they are written on the command line."""
    return tuple(f'{kind}:{sources.entry(kind).notes.get("argument", "PATH")}' for kind in sources)
