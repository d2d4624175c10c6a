"""Fed-ISIC2019 of FLamby, skin lesions of six centres: ``fed_isic2019:ROOT``.

ROOT is the folder that FLamby's scripts fill, with their file ``train_test_split`` (image, ..., target, center, fold,
fold2) beside the images: ``ISIC_2019_Training_Input_preprocessed/<image>.jpg``, or ``ISIC_2019_Training_Input/`` where
these have not been made smaller. With ``ISIC_2019_Training_Metadata.csv`` in it, images of one lesion are known too.

FLamby's split is the default. It is drawn by image, and so a lesion with several images may be on both sides;
``split=drawn`` draws a fifth of every centre by whole lesions instead.

Reference: Ogier du Terrail et al., FLamby, NeurIPS 2022 (Datasets and Benchmarks).
"""

from __future__ import annotations

import pathlib
from typing import Annotated, Literal

import numpy as np

from fedjax_fair.data.blocks import TEST, TRAIN, UNKNOWN
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.checks import numbers_below
from fedjax_fair.data.sources.contents import Files
from fedjax_fair.data.sources.text_table import Table, read_table
from fedjax_fair.errors import DataError
from fedjax_fair.registry import register

CENTRES = ('BCN', 'vidir_molemax', 'vidir_modern', 'rosendahl', 'MSK', 'vienna_dias')
CLASSES = ('MEL', 'NV', 'BCC', 'AK', 'BKL', 'DF', 'VASC', 'SCC')
FOLDERS = ('ISIC_2019_Training_Input_preprocessed', 'ISIC_2019_Training_Input')
METADATA = 'ISIC_2019_Training_Metadata.csv'
FOLDS = {'train': TRAIN, 'test': TEST}


@register.source('fed_isic2019', argument='ROOT', about='Fed-ISIC2019 of FLamby, skin lesions of six centres')
def read_fed_isic2019(
    root: str, split: Annotated[Literal['official', 'drawn'], 'test set: as FLamby has it, or drawn here'] = 'official'
) -> Files:
    """The images in the order of their centres; ``split`` is official or drawn."""
    where = f'`scenario`=fed_isic2019:{root}'
    folder = one_path(root, where)
    images_in = next((name for name in FOLDERS if (folder / name).is_dir()), None)
    if images_in is None:
        raise DataError(f'{where}: no folder {" or ".join(FOLDERS)}')
    table = read_table(folder / 'train_test_split', where, root=folder)
    centre = numbers_below(table, 'center', len(CENTRES))
    side = _folds(table) if split == 'official' else np.full(len(table), UNKNOWN)
    order = np.argsort(centre, kind='stable')  # client k is centre k
    images = [f'{images_in}/{image}.jpg' for image in np.array(table['image'])[order]]
    labels = numbers_below(table, 'target', len(CLASSES))
    lesion = _lesions(folder, table, where)
    patient = None if lesion is None else lesion[order]
    return Files(folder, images, labels[order], side[order], np.array(CENTRES)[centre[order]], patient, None, CLASSES)


def _folds(table: Table) -> np.ndarray:
    if wrong := [fold for fold in table['fold'] if fold not in FOLDS]:
        raise DataError(f'{table.where}: fold is {wrong[0]!r}; {" or ".join(FOLDS)} is expected')
    return np.array([FOLDS[fold] for fold in table['fold']])


def _lesions(folder: pathlib.Path, table: Table, where: str) -> np.ndarray | None:
    """The lesion of every image; an image without a known lesion is its own. None without the file of metadata."""
    if not (folder / METADATA).is_file():
        return None
    known = read_table(folder / METADATA, where, root=folder)
    lesion_of = dict(zip(known['image'], known['lesion_id'], strict=True))
    return np.array([lesion_of.get(image) or image for image in table['image']])
