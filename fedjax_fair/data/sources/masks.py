"""Images and the masks of their pixels in two folders: ``masks:ROOT``.

``ROOT/images/a.jpg`` has its mask in ``ROOT/masks/a.png``: the same name up to the ending. Folders of sites, of splits
(train, test, val) or of both may stand in front: ``ROOT/<site>/images/``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedjax_fair.data.options import one_path
from fedjax_fair.data.sources.found import Files
from fedjax_fair.data.sources.listing import Parts, check_depth, image_files, origins


def read_masks(root: str, images: str = 'images', masks: str = 'masks') -> Files:
    """Images with masks; ``images`` and ``masks`` are the names of their folders."""
    where = f'--scenario=masks:{root}'
    layout = f'ROOT/{images}/image with ROOT/{masks}/image of the same name, or SITE folders in front of both'
    folder = one_path(root, where)
    paths = image_files(folder, where)
    chosen = [path for path in paths if images in path[:-1]]
    if not chosen:
        raise ValueError(f'{where}: no images below a folder {images!r}; expected is {layout}')
    check_depth(chosen, range(2, 5), where, layout)
    if astray := [path for path in chosen if path[-2] != images]:
        raise ValueError(f'{where}: {"/".join(astray[0])} does not lie in a folder {images!r}; expected is {layout}')
    split, site = origins([path[:-2] for path in chosen], where, layout)
    mask_of = _by_stem([path for path in paths if path[-2:-1] == (masks,)], where)
    found = [_mask(path, mask_of, masks, where) for path in chosen]
    labels = np.zeros(len(chosen), np.int32)
    return Files(folder, ['/'.join(p) for p in chosen], labels, split, site, masks=found, unlabelled=True)


def _by_stem(paths: list[Parts], where: str) -> dict[Parts, str]:
    """Files by their path without the ending."""
    found: dict[Parts, str] = {}
    for path in paths:
        if (key := _stem(path)) in found:
            raise ValueError(f'{where}: {found[key]} and {"/".join(path)} are masks of one image')
        found[key] = '/'.join(path)
    return found


def _stem(path: Parts) -> Parts:
    return (*path[:-1], path[-1].rpartition('.')[0])


def _mask(path: Parts, mask_of: dict[Parts, str], folder: str, where: str) -> str:
    key = _stem((*path[:-2], folder, path[-1]))
    if key not in mask_of:
        raise ValueError(f'{where}: {"/".join(path)} has no mask; expected is {"/".join(key)} with any ending')
    return mask_of[key]


def black_and_white(masks: np.ndarray, names: Sequence[str]) -> bool:
    """Whether masks ``[T, H, W]`` are painted in 0 and 255, which stand for the classes 0 and 1.

    255 beside other values is refused, in the ``names`` of such masks: it is white, or stands for pixels of no class.
    Only where all numbers up to it occur is it a class like any other.

    >>> black_and_white(np.array([[[0, 255]], [[0, 0]]]), 'ab'), black_and_white(np.array([[[0, 2]], [[0, 1]]]), 'ab')
    (True, False)
    """
    holds = np.zeros((len(masks), 256), bool)
    for row, mask in zip(holds, masks, strict=True):
        row[:] = np.bincount(mask.ravel(), minlength=256)
    white, other = holds[:, 255], holds[:, 1:255].any(1)
    if white.any() and other.any() and not holds[:, 1:].any(0).all():
        first, second = int(white.argmax()), int(other.argmax())
        value = 1 + int(holds[second, 1:255].argmax())
        raise ValueError(
            f'--scenario: {names[first]} holds 255 and {names[second]} holds {value}; '
            'masks are black and white (0 and 255) or hold class numbers 0, 1, 2, ...'
        )
    return not other.any()
