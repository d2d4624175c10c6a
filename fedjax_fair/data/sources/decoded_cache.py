"""A cache on disk for sources that decode their own files: blocks are decoded once and mapped from then on."""

from __future__ import annotations

import json
import pathlib

import numpy as np

from fedjax_fair import plugins
from fedjax_fair.data.blocks import Block
from fedjax_fair.data.resize import resize_images, resize_masks
from fedjax_fair.data.sources.array_cache import cached, mapped
from fedjax_fair.data.sources.contents import Arrays, Encoded
from fedjax_fair.registry import sources

VERSION = 3  # of the files in the cache; those of an older version are made again
LARGE, SMALL = ('images', 'masks'), ('labels', 'split', 'site', 'patient')  # columns that are mapped, and that are read
FACTS_FILE = 'facts.json'


def decode_once(kind: str, source: Encoded, image_size: int | None) -> Arrays:
    """The examples of a source, from the cache if the same code decoded the same files with the same settings before.

    The code is known by the name of the source, and by the digest of the plug-in that registered it.
    """
    code = plugins.code_digest(sources.entry(kind).origin)
    if code is None:  # written in a console: nobody can tell whether it has changed
        return _decoded(source, image_size)
    settings = f'version {VERSION}, {kind} {code}, {source.settings}, size {image_size}'

    def make(folder: pathlib.Path) -> None:
        _write(_decoded(source, image_size), folder)

    return cached(source.root, source.names, settings, _read, make)


def _decoded(source: Encoded, image_size: int | None) -> Arrays:
    """The examples in blocks that are not empty: of an empty one nothing can be mapped."""
    arrays = source.decode(image_size)
    return Arrays([_fitted(b, image_size) for b in arrays.blocks if len(b.images)], arrays.class_names)


def _fitted(block: Block, image_size: int | None) -> Block:
    """Images and masks resized to ``image_size`` where that is given."""
    size = block.images.shape[1:3] if image_size is None else (image_size, image_size)
    masks = None if block.masks is None else resize_masks(block.masks, size)
    return block._replace(images=resize_images(block.images, size), masks=masks)


def _write(arrays: Arrays, folder: pathlib.Path) -> None:
    for number, block in enumerate(arrays.blocks):
        for column in (*LARGE, *SMALL):
            if (values := getattr(block, column)) is not None:
                np.save(folder / f'{number}-{column}.npy', values, allow_pickle=False)
    about = [(block.source, block.unlabelled, block.names) for block in arrays.blocks]
    facts = {'class_names': arrays.class_names, 'blocks': about}
    (folder / FACTS_FILE).write_text(json.dumps(facts))


def _read(folder: pathlib.Path) -> Arrays:
    facts = json.loads((folder / FACTS_FILE).read_text())

    def block(number: int, source: str, unlabelled: bool, names: list[str] | str) -> Block:
        paths = {column: folder / f'{number}-{column}.npy' for column in (*LARGE, *SMALL)}
        arrays = {
            column: mapped(path) if column in LARGE else np.load(path, allow_pickle=False)
            for column, path in paths.items()
            if path.exists()
        }
        return Block(source, **arrays, unlabelled=unlabelled, names=names)

    return Arrays([block(number, *about) for number, about in enumerate(facts['blocks'])], tuple(facts['class_names']))
