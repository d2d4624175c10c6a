"""Image files below a folder, and what the names of the folders around them say."""

from __future__ import annotations

import os
import pathlib
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from fedjax_fair.data.blocks import SPLIT_NAMES, TEST, TRAIN, UNKNOWN
from fedjax_fair.errors import DataError
from fedjax_fair.foreign import is_inside, led_out

SUFFIXES = ('.png', '.jpg', '.jpeg', '.bmp', '.gif', '.tif', '.tiff', '.webp', '.jp2', '.ppm', '.pgm', '.npy')
DIGITS = 20  # of a number; Python refuses to read very long ones
DEEPEST = 6  # folders below this are not searched: a link may lead back up

Names = tuple[str, ...]  # of the folders and the file on a path below the root


def is_image(name: str) -> bool:
    """Whether a file's name, with folders in front of it or not, is that of an image.

    >>> is_image('../scan.PNG'), is_image('Thumbs.db'), is_image('scans/._scan.png')
    (True, False, False)
    """
    path = pathlib.PurePath(name)
    return is_shown(path.name) and path.suffix.lower() in SUFFIXES


def is_shown(name: str) -> bool:
    """Whether a name is neither hidden nor one that some systems leave in archives."""
    return not name.startswith(('.', '__MACOSX'))


def image_files(root: pathlib.Path, where: str, is_one: Callable[[str], bool] = is_image) -> list[Names]:
    """All image files below ``root``, sorted by path; ``where`` begins the message where there are none.

    ``is_one`` tells by a file's name whether it is an image.
    """

    def refuse(error: OSError) -> None:  # or else its images would be missing without a word
        raise DataError(f'{where}: {error.filename} cannot be read: {error.strerror}') from None

    paths: list[Names] = []
    home = os.path.realpath(root)
    for folder, folders, files in os.walk(root, onerror=refuse, followlinks=True):
        inside = pathlib.Path(folder).relative_to(root).parts
        folders[:] = [name for name in folders if is_shown(name) and len(inside) < DEEPEST]
        for name in folders:
            path = os.path.join(folder, name)
            if os.path.islink(path) and not is_inside(target := os.path.realpath(path), home):
                raise DataError(f'{where}: {"/".join((*inside, name))} {led_out(target)}')
        paths += [(*inside, name) for name in files if is_one(name)]
    if not paths:
        endings = f'; those end in {", ".join(SUFFIXES)}' if is_one is is_image else ''
        raise DataError(f'{where}: no image file{endings}')
    return sorted(paths)


def check_depth(paths: Sequence[Names], depths: range, where: str, layout: str) -> None:
    """All images lie equally deep, as a layout has them."""
    counts = Counter(map(len, paths))
    wrong = [depth for depth in counts if depth not in depths] or [min(counts, key=lambda depth: counts[depth])]
    if len(counts) > 1 or wrong[0] not in depths:
        path = '/'.join(next(path for path in paths if len(path) == wrong[0]))
        others = ' beside images of another depth' if len(counts) > 1 else ''
        raise DataError(f'{where}: {path} lies {wrong[0] - 1} folders deep{others}; expected is {layout}')


def splits_and_sites(fronts: Sequence[Names], where: str, layout: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Split and site of every image, from the names of the folders in front of its own.

    There are at most two such folders. One may be the split: at that level all names are names of splits. The other is
    the site.

    >>> splits_and_sites([('train', 'a'), ('test', 'b')], '', '')[1].tolist()
    ['a', 'b']
    """
    levels = range(len(fronts[0]))
    at = next((k for k in levels if all(front[k].lower() in SPLIT_NAMES for front in fronts)), None)
    split = np.full(len(fronts), UNKNOWN)
    if at is not None:
        split = drawn_where_none([SPLIT_NAMES[front[at].lower()] for front in fronts])
    rest = [front[:at] + front[at + 1 :] if at is not None else front for front in fronts]
    for front, names in zip(fronts, rest, strict=True):
        if len(names) > 1 or any(name.lower() in SPLIT_NAMES for name in names):
            raise DataError(f'{where}: {"/".join(front)} is not the place of a split or domain; expected is {layout}')
    return split, np.array([names[0] for names in rest]) if rest[0] else None


def drawn_where_none(split: Sequence[int]) -> np.ndarray:
    """The splits; where no example is for testing, training examples become UNKNOWN and a test set is drawn later."""
    chosen = np.array(split)
    return chosen if (chosen == TEST).any() else np.where(chosen == TRAIN, UNKNOWN, chosen)


def is_number(name: str) -> bool:
    """Whether a text is a whole number from 0, of so few digits that it may be one of a class."""
    return name.isdecimal() and len(name) <= DIGITS


def numbered(names: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Classes by name: their numbers and the sorted names; names that are numbers come first, by value.

    >>> numbered(['cat', '10', '9', 'cat'])
    (array([2, 1, 0, 2], dtype=int32), ('9', '10', 'cat'))
    """
    classes = sorted(set(names), key=lambda name: (0, int(name), name) if is_number(name) else (1, 0, name))
    place = {name: number for number, name in enumerate(classes)}
    return np.array([place[name] for name in names], np.int32), tuple(classes)
