"""The two data sets of FedISM in the layout of its repository, wnn2000/FFL4MIA: ``ffl4mia:ROOT``.

ROOT (``data/ICH_20``, intracranial haemorrhages, or ``data/ISIC2019_20``, skin lesions) holds ``train.csv`` and
``test.csv`` with the columns id and class, and the images ``train/clean/<id>.png`` (or ``.jpg``), ``test/clean/...``.
Other folders beside ``clean`` hold the authors' corrupted images; ``train`` and ``test`` name the one to read.

The federation of the paper, in which the last clients have noisy images, is ``quality_shift:ffl4mia:ROOT``: its clients
are drawn by the published rule and its noise is added here, so that only clean images are needed.

Reference: Wu et al., From Optimization to Generalization, IJCAI 2024.
"""

from __future__ import annotations

import os
import pathlib
from typing import Annotated

import numpy as np

from fedjax_fair.data.blocks import TEST, TRAIN
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.checks import numbers_below
from fedjax_fair.data.sources.contents import Files
from fedjax_fair.data.sources.text_table import read_table
from fedjax_fair.errors import DataError, UserError
from fedjax_fair.options import not_one_of
from fedjax_fair.registry import register

ENDINGS = ('.png', '.jpg')  # of haemorrhages, of skin lesions
CLASSES = 8  # of skin lesions; haemorrhages have 5


@register.source('ffl4mia', argument='ROOT', about='haemorrhages or skin lesions in the layout of FFL4MIA (FedISM)')
def read_ffl4mia(
    root: str,
    train: Annotated[str, 'folder of training images'] = 'clean',
    test: Annotated[str, 'folder of test images'] = 'clean',
) -> Files:
    """The images of both parts, read from the folders ``train`` and ``test`` of each."""
    where = f'`scenario`=ffl4mia:{root}'
    folder = one_path(root, where)
    images: list[str] = []
    labels, split = [], []
    for part, variant, side in (('train', train, TRAIN), ('test', test, TEST)):
        table = read_table(folder / f'{part}.csv', where, root=folder)
        images += _images(folder, part, variant, table['id'], where)
        labels.append(numbers_below(table, 'class', CLASSES))
        split.append(np.full(len(table), side))
    return Files(folder, images, np.concatenate(labels), np.concatenate(split))


def _images(folder: pathlib.Path, part: str, variant: str, names: list[str], where: str) -> list[str]:
    """Paths below ROOT; all images have the ending of the first."""
    if not (folder / part).is_dir():
        raise DataError(f'{where}: no folder {part}; the images are expected in {part}/{variant}')
    variants = sorted(path.name for path in (folder / part).iterdir() if path.is_dir())
    if variant not in variants:
        raise UserError(f'`source_options`={part}={variant} {not_one_of(variant, variants)}')
    first = f'{part}/{variant}/{names[0]}'
    ending = next((ending for ending in ENDINGS if os.path.isfile(folder / (first + ending))), None)
    if ending is None:
        raise DataError(f'{where}: no {first}{" or ".join(ENDINGS)}, which {part}.csv names')
    return [f'{part}/{variant}/{name}{ending}' for name in names]
