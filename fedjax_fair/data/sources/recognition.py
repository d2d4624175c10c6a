"""Recognition of the kind of source by its path."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from fedjax_fair.data.paths import named_paths
from fedjax_fair.data.sources.image_paths import SUFFIXES
from fedjax_fair.errors import UserError

MEDMNIST = re.compile(r'(path|chest|derma|oct|pneumonia|retina|breast|blood|tissue|organ[acs])mnist(_\d+)?\.npz')


class Sign(NamedTuple):
    """What a kind of source looks like: as a function of a path, and in words."""

    kind: str
    looks_like: Callable[[pathlib.Path], bool]
    words: str


def _ends(*endings: str) -> Callable[[pathlib.Path], bool]:
    return lambda path: path.is_file() and path.name.lower().endswith(endings)


def _holds(*patterns: str) -> Callable[[pathlib.Path], bool]:
    """Whether a folder holds something for each of the patterns."""
    return lambda path: path.is_dir() and all(any(path.glob(pattern)) for pattern in patterns)


def _has(depths: Collection[int], *endings: str) -> Callable[[pathlib.Path], bool]:
    """Whether a file with one of the endings lies at one of these depths below a folder."""
    return lambda path: any(
        file.name.lower().endswith(endings) for depth in depths for file in path.glob('*/' * depth + '*')
    )


def _either(*signs: Callable[[pathlib.Path], bool]) -> Callable[[pathlib.Path], bool]:
    return lambda path: any(sign(path) for sign in signs)


# The first that fits is taken: what publishers give out comes before the forms that anybody's files may have.
SIGNS = (
    Sign('medmnist', lambda path: MEDMNIST.fullmatch(path.name) is not None, 'a file named as those of MedMNIST'),
    Sign('npz', _ends('.npz'), 'an .npz file'),
    Sign('csv', _ends('.csv', '.tsv'), 'a .csv or .tsv file'),
    Sign('cifar10', _either(_ends('cifar-10-binary.tar.gz'), _holds('**/data_batch_1.bin')), 'CIFAR-10 in binary'),
    Sign(
        'cifar100', _either(_ends('cifar-100-binary.tar.gz'), _holds('**/fine_label_names.txt')), 'CIFAR-100 in binary'
    ),
    Sign('idx', _holds('*train-images-idx3-ubyte*'), 'a folder with train-images-idx3-ubyte'),
    Sign('svhn', _holds('train_32x32.mat'), 'a folder with train_32x32.mat'),
    Sign('synth_digits', _holds('synth_train_32x32.mat'), 'a folder with synth_train_32x32.mat'),
    Sign('usps', _holds('usps.bz2'), 'a folder with usps.bz2'),
    Sign('camelyon17', _holds('metadata.csv', 'patches'), 'a folder with metadata.csv and patches'),
    Sign('fed_isic2019', _holds('train_test_split', 'ISIC_2019_*'), 'a folder with train_test_split and ISIC_2019_*'),
    Sign('ssl_fl', _holds('labels.csv', '*_clients/split_*'), 'a folder with labels.csv and <K>_clients/split_*'),
    Sign(
        'ffl4mia', _holds('train.csv', 'test.csv', 'train/clean'), 'a folder with train.csv, test.csv and train/clean'
    ),
    Sign('prostate', _holds('*/*_[sS]egmentation.nii*'), 'folders of hospitals with *_segmentation.nii.gz'),
    Sign(
        'masks',
        _either(*(_holds(f'{front}images', f'{front}masks') for front in ('', '*/', '*/*/'))),
        'folders images and masks',
    ),
    Sign('folders', _has((1, 2, 3), *SUFFIXES), 'class folders of images'),
    Sign('dicom', _has((1, 2, 3), '.dcm', '.dicom', '.ima'), 'class folders of DICOM files'),
)


def _fits(sign: Sign, path: pathlib.Path) -> bool:
    try:
        return sign.looks_like(path)
    except OSError:  # of folders that may not be read, or are gone by now
        return False


def recognise(argument: str, kinds: Collection[str]) -> str:
    """The kind, one of ``kinds``, that a path (or all of several, separated by commas) looks like."""
    paths = named_paths(argument)
    signs = [sign for sign in SIGNS if sign.kind in kinds]
    if not paths or not all(map(os.path.exists, paths)):
        raise UserError(f'{argument}: no such file or folder, nor KIND:PATH with a kind among {", ".join(kinds)}')
    recognised = {next((sign.kind for sign in signs if _fits(sign, path)), '') for path in paths}
    if len(recognised) > 1:
        names = ', '.join(sorted(kind or 'unknown' for kind in recognised))
        raise UserError(f'{argument}: these are of different kinds ({names}); write domains:NAME=KIND:PATH,...')
    if '' in recognised:
        looked = '; '.join(f'{sign.words} ({sign.kind})' for sign in signs)
        raise UserError(f'{argument} is not recognised; write KIND:PATH. Looked for were: {looked}')
    return recognised.pop()
