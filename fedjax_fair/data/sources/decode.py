"""Image files into arrays: decoded once, by all processors, and kept on disk."""

from __future__ import annotations

import pathlib
import warnings
from collections import Counter

from PIL import Image

from fedjax_fair.data.parts import Part
from fedjax_fair.data.resize import resize_masks
from fedjax_fair.data.sources.cache import cached, new_array
from fedjax_fair.data.sources.found import Arrays, Files
from fedjax_fair.data.sources.masks import black_and_white
from fedjax_fair.data.sources.pixels import Header, fit, read_header, read_image, read_mask
from fedjax_fair.data.sources.workers import for_each

VERSION = 1  # of what decoding gives; arrays that an older version kept are made again


def decode(files: Files, image_size: int | None = None) -> Arrays:
    """All images as bytes of one shape, and their masks; read-only and mapped from disk.

    Images are fitted into squares of ``image_size``, or into the most common of their sizes; they stay grey where all
    of them are, else all are RGB.
    """
    if image_size is not None and image_size < 1:
        raise ValueError(f'--image_size must be at least 1, got {image_size}')
    names = [*files.images, *(files.masks or ())]
    kinds = ('images',) if files.masks is None else ('images', 'masks')
    settings = f'version {VERSION}, {len(files.images)} images, size {image_size}'
    arrays = cached(files.root, names, settings, kinds, lambda folder: _draw(files, image_size, folder))
    images, masks = (*arrays, None)[:2]
    part = Part(files.root.name, images, files.labels, files.split, files.site, files.group, masks, files.unlabelled)
    return Arrays([part], files.class_names)


def _draw(files: Files, image_size: int | None, folder: pathlib.Path) -> None:
    """Decode everything into arrays in a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter('error', Image.DecompressionBombWarning)  # such a file is named, not decoded
        headers = for_each(lambda k: read_header(files.root / files.images[k]), files.images, 'looking at images')
        size = Counter(h.size for h in headers).most_common(1)[0][0] if image_size is None else (image_size, image_size)
        _draw_images(files, size, max(h.channels for h in headers), folder)
        if files.masks is not None:
            _draw_masks(files, size, headers, folder)


def _draw_images(files: Files, size: tuple[int, int], channels: int, folder: pathlib.Path) -> None:
    images = new_array(folder / 'images.npy', (len(files.images), *size, channels))
    for_each(
        lambda k: fit(read_image(files.root / files.images[k], channels), images[k]), files.images, 'decoding images'
    )
    images.flush()


def _draw_masks(files: Files, size: tuple[int, int], headers: list[Header], folder: pathlib.Path) -> None:
    names = list(files.masks or ())
    masks = new_array(folder / 'masks.npy', (len(names), *size))

    def draw(k: int) -> None:
        mask = read_mask(files.root / names[k])
        if mask.shape != headers[k].size:
            raise ValueError(f'it is a mask of size {mask.shape}, but its image has {headers[k].size}')
        masks[k] = resize_masks(mask[None], size)[0]

    for_each(draw, names, 'decoding masks')
    if black_and_white(masks):
        for mask in masks:
            mask //= 255
    masks.flush()
