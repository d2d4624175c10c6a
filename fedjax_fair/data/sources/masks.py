"""Images and the masks of their pixels in two folders: ``masks:ROOT``.

``ROOT/images/a.jpg`` has its mask in ``ROOT/masks/a.png``: the same name up to the ending. Folders of sites, of splits
(train, test, val) or of both may stand in front: ``ROOT/<site>/images/``.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.contents import Files
from fedjax_fair.data.sources.image_paths import Names, check_depth, image_files, splits_and_sites
from fedjax_fair.errors import DataError
from fedjax_fair.registry import register


@register.source('masks', argument='ROOT', about='image files and masks of their pixels in two folders')
def read_masks(
    root: str,
    images: Annotated[str, 'folder of images'] = 'images',
    masks: Annotated[str, 'folder of masks'] = 'masks',
) -> Files:
    """Images with masks; ``images`` and ``masks`` are the names of their folders."""
    where = f'`scenario`=masks:{root}'
    layout = f'ROOT/{images}/image with ROOT/{masks}/image of the same name, or SITE folders in front of both'
    folder = one_path(root, where)
    paths = image_files(folder, where)
    chosen = [path for path in paths if images in path[:-1]]
    if not chosen:
        raise DataError(f'{where}: no images below a folder {images!r}; expected is {layout}')
    check_depth(chosen, range(2, 5), where, layout)
    if astray := [path for path in chosen if path[-2] != images]:
        raise DataError(f'{where}: {"/".join(astray[0])} does not lie in a folder {images!r}; expected is {layout}')
    split, site = splits_and_sites([path[:-2] for path in chosen], where, layout)
    mask_of = _by_stem([path for path in paths if path[-2:-1] == (masks,)], where)
    mask_files = [_mask(path, mask_of, masks, where) for path in chosen]
    labels = np.zeros(len(chosen), np.int32)
    return Files(folder, ['/'.join(p) for p in chosen], labels, split, site, masks=mask_files, unlabelled=True)


def _by_stem(paths: list[Names], where: str) -> dict[Names, str]:
    """Files by their path without the ending."""
    files: dict[Names, str] = {}
    for path in paths:
        if (key := _stem(path)) in files:
            raise DataError(f'{where}: {files[key]} and {"/".join(path)} are masks of one image')
        files[key] = '/'.join(path)
    return files


def _stem(path: Names) -> Names:
    return (*path[:-1], path[-1].rpartition('.')[0])


def _mask(path: Names, mask_of: dict[Names, str], folder: str, where: str) -> str:
    key = _stem((*path[:-2], folder, path[-1]))
    if key not in mask_of:
        raise DataError(f'{where}: {"/".join(path)} has no mask; expected is {"/".join(key)} with any ending')
    return mask_of[key]
