"""What a source decoded by itself, kept on disk part by part: decoded once, and mapped ever after."""

from __future__ import annotations

import json
import pathlib

import numpy as np

from fedjax_fair.data.parts import Part
from fedjax_fair.data.resize import resize_images, resize_masks
from fedjax_fair.data.sources.cache import cached, mapped
from fedjax_fair.data.sources.found import Arrays, Encoded

VERSION = 1  # of what is kept; what an older version kept is made again
LARGE, SMALL = ('images', 'masks'), ('labels', 'split', 'site', 'group')  # columns that are mapped, and that are read
FACTS = 'facts.json'


def decode_once(found: Encoded, image_size: int | None) -> Arrays:
    """The examples of a source, decoded where the same files were not decoded in the same way before."""
    settings = f'version {VERSION}, {found.settings}, size {image_size}'

    def make(folder: pathlib.Path) -> None:
        arrays = found.decode(image_size)
        parts = [_fitted(p, image_size) for p in arrays.parts if len(p.images)]  # of an empty one nothing can be mapped
        _write(Arrays(parts, arrays.class_names), folder)

    return cached(found.root, found.names, settings, _read, make)


def _fitted(part: Part, image_size: int | None) -> Part:
    """Images and masks of the size that is asked for, if one is."""
    size = part.images.shape[1:3] if image_size is None else (image_size, image_size)
    masks = None if part.masks is None else resize_masks(part.masks, size)
    return part._replace(images=resize_images(part.images, size), masks=masks)


def _write(arrays: Arrays, folder: pathlib.Path) -> None:
    for number, part in enumerate(arrays.parts):
        for column in (*LARGE, *SMALL):
            if (values := getattr(part, column)) is not None:
                np.save(folder / f'{number}-{column}.npy', values, allow_pickle=False)
    told = [(part.source, part.unlabelled, part.names) for part in arrays.parts]
    facts = {'class_names': arrays.class_names, 'parts': told}
    (folder / FACTS).write_text(json.dumps(facts))


def _read(folder: pathlib.Path) -> Arrays:
    facts = json.loads((folder / FACTS).read_text())

    def part(number: int, source: str, unlabelled: bool, names: list[str] | str) -> Part:
        paths = {column: folder / f'{number}-{column}.npy' for column in (*LARGE, *SMALL)}
        found = {
            column: mapped(path) if column in LARGE else np.load(path, allow_pickle=False)
            for column, path in paths.items()
            if path.exists()
        }
        return Part(source, **found, unlabelled=unlabelled, names=names)

    return Arrays([part(number, *told) for number, told in enumerate(facts['parts'])], tuple(facts['class_names']))
