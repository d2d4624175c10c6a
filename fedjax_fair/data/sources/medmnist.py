"""MedMNIST as given out, ``medmnist:PATH[,PATH]``: the twelve sets of 2D images, of 28 pixels or larger.

The arrays are those that ``npz:`` reads too, labels ``[T, 1]`` or, of ChestMNIST, ``[T, 14]``; a file's name tells the
names of its classes (Yang et al., MedMNIST v2, Scientific Data 10:41, 2023). Several files are several domains: the
three views of OrganMNIST share their classes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from fedjax_fair.data.blocks import TEST, TRAIN, VAL, Block
from fedjax_fair.data.paths import named_paths, one_path
from fedjax_fair.data.sources.contents import Arrays
from fedjax_fair.data.sources.npz import read_npz
from fedjax_fair.errors import DataError
from fedjax_fair.registry import register

ORGANS = (
    *('bladder', 'femur-left', 'femur-right', 'heart', 'kidney-left', 'kidney-right', 'liver', 'lung-left'),
    *('lung-right', 'pancreas', 'spleen'),
)
CLASS_NAMES: dict[str, tuple[str, ...]] = {
    'pathmnist': (
        *('adipose', 'background', 'debris', 'lymphocytes', 'mucus', 'smooth muscle', 'normal colon mucosa'),
        *('cancer-associated stroma', 'colorectal adenocarcinoma epithelium'),
    ),
    'chestmnist': (
        *('atelectasis', 'cardiomegaly', 'effusion', 'infiltration', 'mass', 'nodule', 'pneumonia', 'pneumothorax'),
        *('consolidation', 'edema', 'emphysema', 'fibrosis', 'pleural', 'hernia'),
    ),
    'dermamnist': (
        *('actinic keratoses and intraepithelial carcinoma', 'basal cell carcinoma', 'benign keratosis-like lesions'),
        *('dermatofibroma', 'melanoma', 'melanocytic nevi', 'vascular lesions'),
    ),
    'octmnist': ('choroidal neovascularization', 'diabetic macular edema', 'drusen', 'normal'),
    'pneumoniamnist': ('normal', 'pneumonia'),
    'retinamnist': tuple(f'grade {grade}' for grade in range(5)),
    'breastmnist': ('malignant', 'normal or benign'),
    'bloodmnist': (
        *('basophil', 'eosinophil', 'erythroblast', 'immature granulocytes', 'lymphocyte', 'monocyte', 'neutrophil'),
        'platelet',
    ),
    'tissuemnist': (
        *('collecting duct or connecting tubule', 'distal convoluted tubule', 'glomerular endothelial cells'),
        *('interstitial endothelial cells', 'leukocytes', 'podocytes', 'proximal tubule segments'),
        'thick ascending limb',
    ),
    'organamnist': ORGANS,
    'organcmnist': ORGANS,
    'organsmnist': ORGANS,
}


@register.source(
    'medmnist', argument='PATH[,PATH]', about='MedMNIST, the sets of 2D images, with the names of their classes'
)
def read_medmnist(paths: str) -> Arrays:
    """The sets in these files; their validation images are used neither for training nor for testing."""
    where = f'`scenario`=medmnist:{paths}'
    named = map(str, named_paths(paths))
    files = [one_path(path, f'`scenario`=medmnist:{path}', 'file', os.path.isfile) for path in named]
    arrays = read_npz(paths)
    for source in dict.fromkeys(block.source for block in arrays.blocks):
        _check([block for block in arrays.blocks if block.source == source], f'{where}: {source}')
    names = {CLASS_NAMES.get(path.stem.partition('_')[0], ()) for path in files}  # pathmnist_64 too
    if () in names:
        raise DataError(f'{where}: a file must be named after one of {", ".join(CLASS_NAMES)}; others are read by npz:')
    if len(names) > 1:
        raise DataError(f'{where}: these sets have different classes and cannot be domains of one federation')
    return arrays._replace(class_names=names.pop())


def _check(blocks: Sequence[Block], where: str) -> None:
    """Check that a file holds 2D images, and all of training, validation and test images."""
    shape = blocks[0].images.shape[1:]
    if len(shape) != 3 or shape[-1] not in (1, 3):
        raise DataError(f'{where} holds images of shape {shape}; expected are 2D ones, the 3D sets are not read')
    if {int(split) for block in blocks for split in np.unique(block.split)} != {TRAIN, VAL, TEST}:
        raise DataError(f'{where} must hold train, val and test images and labels')
