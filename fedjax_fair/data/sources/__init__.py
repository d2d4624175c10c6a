"""Sources: data as its publisher ships it, or as a hospital keeps it, read into one typed table of examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedjax_fair.data.options import pairs
from fedjax_fair.data.parts import merge
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.sources.domains import read_domains
from fedjax_fair.data.sources.found import Arrays, Encoded, Files, Found
from fedjax_fair.data.sources.idx import read_idx
from fedjax_fair.data.sources.npz import read_npz
from fedjax_fair.data.sources.tfds import read_tfds

__all__ = ['SOURCES', 'Arrays', 'Encoded', 'Files', 'Found', 'Source', 'read_pool']


FLAGS = ('npz_keys', 'source_options')  # how options of a source are given


class Source(NamedTuple):
    """How to read a kind of data and one line about it.

    ``read(argument, **options)`` takes what stands behind ``KIND:``, and finds. Its keywords are the options it has;
    all but ``npz_keys``, a flag of its own, are given as ``--source_options=name=value,...``.
    """

    read: Callable[..., Found]
    description: str
    argument: str = 'PATH'

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.read).parameters)[1:]

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that carry its options."""
        keys, others = FLAGS
        return (keys,) * (keys in self.options) + (others,) * bool(set(self.options) - {keys})


def read_arrays(kind: str, argument: str, options: Mapping[str, Any], image_size: int | None = None) -> Arrays:
    """What a source finds, images decoded."""
    if kind not in SOURCES:
        raise ValueError(f'--scenario={kind}:{argument}: {kind!r} is not one of {", ".join(SOURCES)}')
    for name in options:
        if name not in SOURCES[kind].options:
            known = ', '.join(n for n in SOURCES[kind].options if n != 'npz_keys') or 'none'
            raise ValueError(f'--source_options={name}={options[name]}: {kind} has no such option, but {known}')
    found = SOURCES[kind].read(argument, **options)
    if isinstance(found, Arrays):
        return found
    if isinstance(found, Encoded):
        return found.decode(image_size)
    from fedjax_fair.data.sources.decode import decode  # an image library, for those who have image files

    return decode(found, image_size)


def read_pool(
    kind: str,
    argument: str,
    *,
    data_seed: int = 0,
    image_size: int | None = None,
    task: str | None = None,
    join_sites: bool = False,
    npz_keys: str | None = None,
    source_options: str | None = None,
) -> Pool:
    """The examples of a source as a table of one image shape.

    Images are fitted into squares of ``image_size`` (default: the most common size), grey ones repeated to RGB where
    both occur; uint8 and float images keep their values. ``data_seed`` draws the test set where the source has none,
    ``task`` says what is to be learned where it leaves a choice, ``join_sites`` makes one of the sites that are too
    small, see :func:`~fedjax_fair.data.parts.merge`.
    """
    options: dict[str, Any] = pairs(source_options, 'source_options')
    options |= {} if npz_keys is None else {'npz_keys': npz_keys}
    found = read_arrays(kind, argument, options, image_size)
    return merge(found.parts, found.class_names, image_size, data_seed, task, join_sites)


SOURCES: dict[str, Source] = {
    'npz': Source(read_npz, 'arrays of your own from .npz files', 'PATH[,PATH]'),
    'idx': Source(read_idx, 'MNIST, Fashion-MNIST and the like from a folder of IDX files', 'FOLDER'),
    'tfds': Source(read_tfds, 'a data set of TensorFlow Datasets, prepared before', 'NAME[/CONFIG][:VERSION]'),
    'domains': Source(
        lambda argument: read_domains(argument, lambda kind, path: read_arrays(kind, path, {})),
        'several sources, each a domain',
        'NAME=KIND:PATH[,...]',
    ),
}
