"""MedMNIST as given out, ``medmnist:PATH[,PATH]``: the twelve sets of 2D images, of 28 pixels or larger.

The arrays are those that ``npz:`` reads too, labels ``[T, 1]`` or, of ChestMNIST, ``[T, 14]``; a file's name tells the
names of its classes (Yang et al., MedMNIST v2, Scientific Data 10:41, 2023). Several files are several domains: the
three views of OrganMNIST share their classes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from fedjax_fair.data.options import named_paths, one_path
from fedjax_fair.data.parts import TEST, TRAIN, VAL, Part
from fedjax_fair.data.sources.found import Arrays
from fedjax_fair.data.sources.npz import read_npz

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


def read_medmnist(paths: str) -> Arrays:
    """The sets in these files; their validation images are used neither for training nor for testing."""
    where = f'--scenario=medmnist:{paths}'
    named = map(str, named_paths(paths))
    files = [one_path(path, f'--scenario=medmnist:{path}', 'file', os.path.isfile) for path in named]
    found = read_npz(paths)
    for source in dict.fromkeys(part.source for part in found.parts):
        _check([part for part in found.parts if part.source == source], f'{where}: {source}')
    names = {CLASS_NAMES.get(path.stem.partition('_')[0], ()) for path in files}  # pathmnist_64 too
    if () in names:
        raise ValueError(
            f'{where}: a file must be named after one of {", ".join(CLASS_NAMES)}; others are read by npz:'
        )
    if len(names) > 1:
        raise ValueError(f'{where}: these sets have different classes and cannot be domains of one federation')
    return found._replace(class_names=names.pop())


def _check(parts: Sequence[Part], where: str) -> None:
    """A file holds 2D images, and all of its three parts."""
    shape = parts[0].images.shape[1:]
    if len(shape) != 3 or shape[-1] not in (1, 3):
        raise ValueError(f'{where} holds images of shape {shape}; expected are 2D ones, the 3D sets are not read')
    if {int(split) for part in parts for split in np.unique(part.split)} != {TRAIN, VAL, TEST}:
        raise ValueError(f'{where} must hold train, val and test images and labels')
