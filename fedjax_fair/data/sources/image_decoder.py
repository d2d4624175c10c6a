"""Image files into arrays: decoded once, by all processors, and cached on disk."""

from __future__ import annotations

import pathlib
from collections import Counter

import numpy as np

from fedjax_fair.data.blocks import Block
from fedjax_fair.data.resize import resize_masks
from fedjax_fair.data.sources.array_cache import cached, mapped, new_array
from fedjax_fair.data.sources.checks import black_and_white
from fedjax_fair.data.sources.contents import Arrays, Files
from fedjax_fair.data.sources.pixels import Header, bombs_refused, fit, read_header, read_image, read_mask
from fedjax_fair.data.sources.workers import for_each
from fedjax_fair.errors import DataError

VERSION = 2  # of the arrays in the cache; those of an older version are made again


def decode(files: Files, image_size: int | None = None) -> Arrays:
    """All images as bytes of one shape, and their masks; read-only and mapped from disk.

    Images are fitted into squares of ``image_size``, or into the most common of their sizes; they stay grey where all
    of them are, else all are RGB.
    """
    names = [*files.images, *(files.masks or ())]
    kinds = ('images',) if files.masks is None else ('images', 'masks')
    settings = f'version {VERSION}, {len(files.images)} images, size {image_size}'

    def read(folder: pathlib.Path) -> list[np.memmap]:
        return [mapped(folder / f'{kind}.npy') for kind in kinds]

    images, *rest = cached(files.root, names, settings, read, lambda folder: _draw(files, image_size, folder))
    masks = rest[0] if rest else None
    about = (files.labels, files.split, files.site, files.patient, masks, files.unlabelled, files.images)
    return Arrays([Block(files.root.name, images, *about)], files.class_names)


def _draw(files: Files, image_size: int | None, folder: pathlib.Path) -> None:
    """Decode everything into arrays in a folder."""
    with bombs_refused():  # such a file is named, not decoded
        headers = _headers(files)
        size = Counter(h.size for h in headers).most_common(1)[0][0] if image_size is None else (image_size, image_size)
        _draw_images(files, size, max(h.channels for h in headers), folder)
        if files.masks is not None:
            _draw_masks(files, size, headers, folder)


def _headers(files: Files) -> list[Header]:
    """The headers of all images; if some cannot be read, one message names all damaged files."""

    def look(k: int) -> Header:
        return read_header(files.root / files.images[k])

    def look_closely(k: int) -> Header:
        header = look(k)
        read_image(files.root / files.images[k], 3)
        return header

    try:
        return for_each(look, files.root, files.images, 'looking at images')
    except ValueError:
        return for_each(look_closely, files.root, files.images, 'looking for damage')


def _draw_images(files: Files, size: tuple[int, int], channels: int, folder: pathlib.Path) -> None:
    images = new_array(folder / 'images.npy', (len(files.images), *size, channels))

    def draw(k: int) -> None:
        fit(read_image(files.root / files.images[k], channels), images[k])

    for_each(draw, files.root, files.images, 'decoding images')
    images.flush()


def _draw_masks(files: Files, size: tuple[int, int], headers: list[Header], folder: pathlib.Path) -> None:
    names = list(files.masks or ())
    masks = new_array(folder / 'masks.npy', (len(names), *size))

    def draw(k: int) -> None:
        mask = read_mask(files.root / names[k])
        if mask.shape != headers[k].size:
            raise DataError(f'it is a mask of size {mask.shape}, but its image has {headers[k].size}')
        masks[k] = resize_masks(mask[None], size)[0]

    for_each(draw, files.root, names, 'decoding masks')
    if black_and_white(masks, names):
        for mask in masks:
            mask //= 255
    masks.flush()
