"""Image files listed in a table: ``csv:PATH``.

A row is an image; columns name its file, its label and, where there are such, its site, its patient (or lesion,
slide), its split (train, test, val) and its mask.
"""

from __future__ import annotations

import os
import pathlib
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from fedjax_fair.data.blocks import SPLIT_NAMES, UNKNOWN
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.contents import Files
from fedjax_fair.data.sources.image_paths import DIGITS, drawn_where_none, is_image, numbered
from fedjax_fair.data.sources.text_table import Table, read_table
from fedjax_fair.errors import DataError, UserError
from fedjax_fair.registry import register

UNREAD = '-'  # in the place of a column: the role is not read
USUAL_COLUMNS = {
    'image': 'image file filename file_name path image_path filepath image_id image_name img',
    'label': 'label class dx diagnosis target',
    'site': 'site hospital center centre domain',
    'patient': 'patient patient_id group lesion_id',
    'split': 'split fold',
    'mask': 'mask mask_path',
}


@register.source('csv', argument='PATH', about='image files listed in a csv or tsv file')
def read_csv(
    path: str,
    image: Annotated[str, 'column of image files'] | None = None,
    label: Annotated[str, 'column of classes, or several columns joined by |'] | None = None,
    site: Annotated[str, 'column of sites'] | None = None,
    patient: Annotated[str, 'column of patients'] | None = None,
    split: Annotated[str, 'column of train, test or val'] | None = None,
    mask: Annotated[str, 'column of mask files'] | None = None,
    folder: Annotated[str, 'folder of the images'] | None = None,
    extension: Annotated[str, 'ending of file names'] | None = None,
) -> Files:
    """The images of a table; the first six options are columns, found by their usual names where not given.

    ``label=edema|mass`` are columns of zeros and ones, several labels each. Without labels there must be masks.
    ``folder`` holds the images (default: the table's own), ``extension`` ends their names where the table leaves it
    out. A column ``-`` is not read.
    """
    file = one_path(path, f'`scenario`=csv:{path}', 'file', os.path.isfile)
    table = read_table(file, '`scenario`=csv')
    root = file.parent if folder is None else one_path(folder, f'`source_options`=folder={folder}')
    given = {'image': image, 'label': label, 'site': site, 'patient': patient, 'split': split, 'mask': mask}
    columns = {role: _column(table, role, column) for role, column in given.items()}
    for role, instead in (('image', 'image'), ('label', 'mask')):
        if columns[role] is None and columns[instead] is None:
            raise UserError(_unclear(table, role, 'none of its columns has a usual name'))
    images = _files(table, columns['image'], root, extension)
    if twice := [name for name, count in Counter(images).items() if count > 1]:
        raise DataError(f'{table.where} lists {twice[0]} more than once; one row per image is expected')
    labels, class_names = _labels(table, columns['label'])
    sites, patients = (None if (c := columns[r]) is None else np.array(_filled(table, c)) for r in ('site', 'patient'))
    masks = None if columns['mask'] is None else _files(table, columns['mask'], root, extension)
    unlabelled = columns['label'] is None
    split_of, about = _split(table, columns['split']), (class_names, unlabelled)
    return Files(root, images, labels, split_of, sites, patients, masks, *about, anywhere=True)


def _column(table: Table, role: str, given: str | None) -> str | None:
    """The column of a role: as given, or the one that has a usual name; None where it is not read."""
    if given == UNREAD:
        return None
    if given is not None:
        names = given.split('|') if role == 'label' else [given]
        if missing := [name for name in names if name not in table]:
            where = f'`source_options`={role}={given}: {table.where}'
            raise UserError(f'{where} has no column {missing[0]!r} but {table.listed}')
        return given
    usual = [column for column in table.columns if column.lower() in USUAL_COLUMNS[role].split()]
    if len(usual) > 1:
        raise UserError(_unclear(table, role, f'{" and ".join(usual)} could be it'))
    return usual[0] if usual else None


def _unclear(table: Table, role: str, why: str) -> str:
    return f'`source_options`={role}=COLUMN is needed for {table.where}: {why}; it has {table.listed}'


def _filled(table: Table, column: str) -> list[str]:
    """A column without gaps."""
    values = table[column]
    if '' in values:
        raise DataError(f'{table.where} has no {column} in row {values.index("") + 1}')
    return values


def _files(table: Table, column: str | None, root: pathlib.Path, extension: str | None) -> list[str]:
    """The files that a column names; all of them must exist."""
    ending = '' if extension is None else '.' + extension.removeprefix('.')
    names = [name if is_image(name) else name + ending for name in _filled(table, str(column))]
    if wrong := [name for name in names if not is_image(name)]:
        raise DataError(f'{table.where}: {wrong[0]!r} in {column} is no image; give `source_options`=extension=png')
    if gone := [name for name in names if not os.path.isfile(root / name)]:
        raise DataError(f'{table.where}: {len(gone)} of {len(names)} files are not in {root}, the first is {gone[0]}')
    return names


def _labels(table: Table, column: str | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Classes as numbers and their names: integers stay, words are numbered; or several labels each."""
    if column is None:
        return np.zeros(len(table), np.int32), ()
    if '|' in column:
        names = tuple(column.split('|'))
        return np.array([_zeros_and_ones(table, name) for name in names], np.int32).T, names
    values = _filled(table, column)
    if not all(value.removeprefix('-').isdecimal() for value in values):
        return numbered(values)
    if wrong := [value for value in values if len(value) > DIGITS or not 0 <= int(value) < len(values)]:
        raise DataError(f'{table.where}: {column} holds {wrong[0][:DIGITS]}; classes are numbered 0, 1, 2, ...')
    return np.array(values).astype(np.int32), ()


def _zeros_and_ones(table: Table, column: str) -> Sequence[bool]:
    values = table[column]
    known = {'0': False, '0.0': False, '1': True, '1.0': True}
    if wrong := [value for value in values if value not in known]:
        raise DataError(f'{table.where}: {column} holds {wrong[0]!r}; of several labels each is 0 or 1')
    return [known[value] for value in values]


def _split(table: Table, column: str | None) -> np.ndarray:
    """The split of every row, by name; numbers are refused, since they could be numbers of folds."""
    if column is None:
        return np.full(len(table), UNKNOWN)
    values = table[column]
    if wrong := [value for value in values if value.lower() not in SPLIT_NAMES]:
        known = ', '.join(SPLIT_NAMES)
        hint = f'`source_options`=split={UNREAD} leaves it unread'
        raise DataError(f'{table.where}: {column} holds {wrong[0]!r}, not one of {known}; {hint}')
    return drawn_where_none([SPLIT_NAMES[value.lower()] for value in values])
