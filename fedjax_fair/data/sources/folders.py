"""Class folders of image files: ``folders:ROOT``.

Images lie in ``ROOT/<class>/``, or in ``ROOT/<domain>/<class>/``. Folders named train, test and val (or training,
testing, valid, validation) may stand before or behind the domain, or in front of classes without domains.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from fedjax_fair.data.blocks import SPLIT_NAMES, patients_within
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.contents import Files
from fedjax_fair.data.sources.image_paths import Names, check_depth, image_files, is_shown, numbered, splits_and_sites
from fedjax_fair.errors import DataError, UserError
from fedjax_fair.registry import register

LAYOUT = 'ROOT/CLASS/image, ROOT/DOMAIN/CLASS/image or either with train, test and val folders in front of CLASS'


@register.source('folders', argument='ROOT', about='image files in class folders, of one or several domains')
def read_folders(
    root: str, patient: Annotated[str, 'regular expression that finds the patient in a file name'] | None = None
) -> Files:
    """The images below ``root``; classes are those of all domains, sorted by name.

    ``patient`` is a regular expression that finds the patient in a file's name, in one pair of brackets: ``^(P\\d+)_``.
    """
    where = f'`scenario`=folders:{root}'
    folder = one_path(root, where)
    files = class_folders(folder, image_files(folder, where), where)
    names = [pathlib.PurePosixPath(image).name for image in files.images]
    if patient is None:
        return files
    patients = patients_in(names, patient)
    return files._replace(patient=patients if files.site is None else patients_within(files.site, patients))


def class_folders(folder: pathlib.Path, paths: Sequence[Names], where: str) -> Files:
    """Classes, splits and sites of image files, from the names of their folders."""
    check_depth(paths, range(2, 5), where, LAYOUT)
    split, site = splits_and_sites([path[:-2] for path in paths], where, LAYOUT)
    labels, class_names = numbered([path[-2] for path in paths])
    _check_classes(folder, len(paths[0]) - 1, class_names, where)
    return Files(folder, ['/'.join(path) for path in paths], labels, split, site, class_names=class_names)


def _check_classes(root: pathlib.Path, depth: int, class_names: tuple[str, ...], where: str) -> None:
    """Refuse classes that are named like splits, and empty folders of classes that no domain has images of."""
    if all(name.lower() in SPLIT_NAMES for name in class_names):
        raise DataError(f'{where}: images lie in {", ".join(class_names)} without a class; expected is {LAYOUT}')
    for path in sorted(root.glob('/'.join('*' * depth))):
        inside = path.relative_to(root)
        empty = path.is_dir() and all(map(is_shown, inside.parts)) and not any(path.iterdir())
        if empty and path.name not in class_names:
            raise DataError(f'{where}: the class folder {inside} is empty; fill or remove it')


def patients_in(names: Sequence[str], pattern: str) -> np.ndarray:
    """The patient of every file, which a regular expression finds in its name.

    >>> patients_in(['P1_a.png', 'P1_b.png', 'P27_a.png'], r'^(P\\d+)_').tolist()
    ['P1', 'P1', 'P27']
    """
    flag = f'`source_options`=patient={pattern}'
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UserError(f'{flag} is not a regular expression: {error}') from None
    if expression.groups != 1:
        raise UserError(f'{flag} must have one pair of brackets, as in ^(P\\d+)_, not {expression.groups}')
    matches = [expression.search(name) for name in names]
    for name, match in zip(names, matches, strict=True):
        if match is None or not match[1]:
            raise UserError(f'{flag} finds no patient in the file name {name}')
    return np.array([match[1] for match in matches if match])
