"""Class folders of image files: ``folders:ROOT``.

Images lie in ``ROOT/<class>/``, or in ``ROOT/<domain>/<class>/``. Folders named train, test and val (or training,
testing, valid, validation) may stand before or behind the domain, or in front of classes without domains.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

import numpy as np

from fedjax_fair.data.options import one_path
from fedjax_fair.data.parts import SPLIT_NAMES, groups_within
from fedjax_fair.data.sources.found import Files
from fedjax_fair.data.sources.listing import Parts, check_depth, image_files, is_shown, numbered, origins

LAYOUT = 'ROOT/CLASS/image, ROOT/DOMAIN/CLASS/image or either with train, test and val folders in front of CLASS'


def read_folders(root: str, group: str | None = None) -> Files:
    """The images below ``root``; classes are those of all domains, sorted by name.

    ``group`` is a regular expression whose one group finds the patient or slide in a file's name: ``^(P\\d+)_``.
    """
    where = f'--scenario=folders:{root}'
    folder = one_path(root, where)
    files = class_folders(folder, image_files(folder, where), where)
    names = [pathlib.PurePosixPath(image).name for image in files.images]
    if group is None:
        return files
    found = groups_of(names, group)
    return files._replace(group=found if files.site is None else groups_within(files.site, found))


def class_folders(folder: pathlib.Path, paths: Sequence[Parts], where: str) -> Files:
    """What the folders around image files say of them."""
    check_depth(paths, range(2, 5), where, LAYOUT)
    split, site = origins([path[:-2] for path in paths], where, LAYOUT)
    labels, class_names = numbered([path[-2] for path in paths])
    _check_classes(folder, len(paths[0]) - 1, class_names, where)
    return Files(folder, ['/'.join(path) for path in paths], labels, split, site, class_names=class_names)


def _check_classes(root: pathlib.Path, depth: int, class_names: tuple[str, ...], where: str) -> None:
    """Classes are no splits, and an empty folder is no class (of which another domain may have images)."""
    if all(name.lower() in SPLIT_NAMES for name in class_names):
        raise ValueError(f'{where}: images lie in {", ".join(class_names)} without a class; expected is {LAYOUT}')
    for path in sorted(root.glob('/'.join('*' * depth))):
        inside = path.relative_to(root)
        empty = path.is_dir() and all(map(is_shown, inside.parts)) and not any(path.iterdir())
        if empty and path.name not in class_names:
            raise ValueError(f'{where}: the class folder {inside} is empty; fill or remove it')


def groups_of(names: Sequence[str], pattern: str) -> np.ndarray:
    """The group (patient, slide) of every file, which a regular expression finds in its name.

    >>> groups_of(['P1_a.png', 'P1_b.png', 'P27_a.png'], r'^(P\\d+)_').tolist()
    ['P1', 'P1', 'P27']
    """
    flag = f'--source_options=group={pattern}'
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ValueError(f'{flag} is not a regular expression: {error}') from None
    if expression.groups != 1:
        raise ValueError(f'{flag} must have one group in brackets, as in ^(P\\d+)_, not {expression.groups}')
    found = [expression.search(name) for name in names]
    for name, match in zip(names, found, strict=True):
        if match is None or not match[1]:
            raise ValueError(f'{flag} finds no group in the file name {name}')
    return np.array([match[1] for match in found if match])
