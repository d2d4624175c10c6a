"""CIFAR-10 and CIFAR-100 in their binary version: ``cifar10:PATH`` and ``cifar100:PATH``.

``PATH`` is the archive as given out (``cifar-10-binary.tar.gz``), read in place, or the folder unpacked from it
(``cifar-10-batches-bin``), or the folder around that. A record is one label byte (CIFAR-100: a coarse one, then a fine
one) and 3072 bytes, the 32x32 red values, then the green, then the blue. The Python version is pickled, and refused.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import pathlib
import tarfile
import zlib
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from fedjax_fair.data.blocks import TEST, TRAIN, Block
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.contents import Arrays
from fedjax_fair.errors import DataError
from fedjax_fair.foreign import BYTES_AT_ONCE, Inflating, Readable, check_files, check_room
from fedjax_fair.registry import register

SHAPE = (3, 32, 32)
PICKLED = {'data_batch_1', 'test_batch', 'train', 'test', 'meta', 'batches.meta'}  # files of the Python version


class _Layout(NamedTuple):
    """The files of CIFAR-10 or CIFAR-100."""

    kind: str
    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    names: str  # the file of class names
    labels: int  # label bytes of a record
    column: int  # which of them is learned
    classes: int

    @property
    def files(self) -> set[str]:
        return {*self.train, self.test, self.names}


CIFAR10 = _Layout(
    kind='cifar10',
    folder='cifar-10-batches-bin',
    archive='cifar-10-binary.tar.gz',
    train=tuple(f'data_batch_{n}.bin' for n in range(1, 6)),
    test='test_batch.bin',
    names='batches.meta.txt',
    labels=1,
    column=0,
    classes=10,
)
CIFAR100_FINE = _Layout(
    kind='cifar100',
    folder='cifar-100-binary',
    archive='cifar-100-binary.tar.gz',
    train=('train.bin',),
    test='test.bin',
    names='fine_label_names.txt',
    labels=2,
    column=1,
    classes=100,
)
CIFAR100_COARSE = CIFAR100_FINE._replace(names='coarse_label_names.txt', column=0, classes=20)


@register.source('cifar10', argument='PATH', about='CIFAR-10 in its binary version, archive or folder')
def read_cifar10(path: str) -> Arrays:
    """Ten classes of objects."""
    return _read(path, CIFAR10)


@register.source('cifar100', argument='PATH', about='CIFAR-100 in its binary version, archive or folder')
def read_cifar100(
    path: str, labels: Annotated[Literal['fine', 'coarse'], 'classes or superclasses'] = 'fine'
) -> Arrays:
    """A hundred classes of objects, or with ``labels='coarse'`` their twenty superclasses."""
    return _read(path, {'fine': CIFAR100_FINE, 'coarse': CIFAR100_COARSE}[labels])


def _read(argument: str, layout: _Layout) -> Arrays:
    where = f'`scenario`={layout.kind}:{argument}'
    path = one_path(argument, where, 'file or folder', os.path.exists)
    held, others = _of_folder(path, layout, where) if path.is_dir() else _of_archive(path, layout, where)
    if missing := sorted({*layout.train, layout.test} - set(held)):
        if others & PICKLED:
            raise DataError(
                f'{where}: this is the Python version, which is pickled and never read; get {layout.archive}'
            )
        raise DataError(f'{where}: no {", ".join(missing)}; expected is {layout.archive} or its folder {layout.folder}')
    blocks = [_block(held[name], TRAIN, layout, f'{where}: {name}') for name in layout.train]
    blocks.append(_block(held[layout.test], TEST, layout, f'{where}: {layout.test}'))
    return Arrays(blocks, _class_names(held.get(layout.names), layout, where))


def _of_folder(path: pathlib.Path, layout: _Layout, where: str) -> tuple[dict[str, bytes], set[str]]:
    """The contents of the files that are needed, and the names of all other files."""
    try:
        folder = path / layout.folder if (path / layout.folder).is_dir() else path
        files = {file.name: file for file in folder.iterdir() if not file.is_dir()}
        needed = [files[name].relative_to(path) for name in sorted(layout.files & set(files))]
        check_files(path, map(str, needed), where)
        check_room(sum((path / file).stat().st_size for file in needed), where)
        held = {name: files[name].read_bytes() for name in layout.files & set(files)}
    except OSError as error:
        raise DataError(f'{where}: {error.filename} cannot be read: {error.strerror}') from None
    around = {file.name for file in folder.glob('*-py*/*')}  # of the Python version's folder
    return held, set(files) - layout.files | around


def _of_archive(path: pathlib.Path, layout: _Layout, where: str) -> tuple[dict[str, bytes], set[str]]:
    """The same for an archive, which is read in memory: a member with a dangerous path does no harm."""
    held: dict[str, bytes] = {}
    others: set[str] = set()
    try:
        with contextlib.ExitStack() as stack:
            packed: Readable = stack.enter_context(gzip.open(path))
            stream: Any = Inflating(packed, path.stat().st_size, where)
            archive = stack.enter_context(tarfile.open(fileobj=stream, mode='r|'))
            for member in archive:
                name = pathlib.PurePosixPath(member.name).name
                file = archive.extractfile(member) if member.isfile() and name in layout.files else None
                if name in held and file:
                    raise DataError(f'{where} holds {name} twice')
                if file is None:
                    others.add(name)
                else:
                    held[name] = file.read()
            while stream.read(BYTES_AT_ONCE):  # the checksum of the whole comes last
                pass
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f'{where} cannot be read as an archive: {error}') from None
    return held, others


def _block(raw: bytes, split: int, layout: _Layout, where: str) -> Block:
    record = layout.labels + int(np.prod(SHAPE))
    if not raw or len(raw) % record:
        raise DataError(f'{where} has {len(raw)} bytes; expected are records of {record}')
    rows = np.frombuffer(raw, np.uint8).reshape(-1, record)
    labels = rows[:, layout.column].astype(np.int32)
    if labels.max() >= layout.classes:
        raise DataError(f'{where}: label {labels.max()} is not one of 0 to {layout.classes - 1}')
    images = rows[:, layout.labels :].reshape(-1, *SHAPE).transpose(0, 2, 3, 1)
    return Block(layout.kind, np.ascontiguousarray(images), labels, np.full(len(labels), split))


def _class_names(raw: bytes | None, layout: _Layout, where: str) -> tuple[str, ...]:
    if raw is None:
        return ()
    names = tuple(raw.decode('ascii', errors='replace').split())
    if len(names) != layout.classes:
        raise DataError(f'{where}: {layout.names} holds {len(names)} names; expected are {layout.classes}')
    return names
