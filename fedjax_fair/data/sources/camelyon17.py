"""Camelyon17 as WILDS gives it out (version 1.0): ``camelyon17:ROOT``.

ROOT holds ``metadata.csv`` (patient, node, x_coord, y_coord, tumor, slide, center, split) and the patches of 96 x 96
pixels, ``patches/patient_004_node_4/patch_patient_004_node_4_x_3328_y_21792.png``. Hospitals are sites.

The column ``split`` is a random tenth of all patches, of the same slides as the rest, and only half of what WILDS calls
its split. By default it is not read: a fifth of every hospital is drawn for testing, by whole slides or patients.
Federated work trains on all five hospitals (HarmoFL does), and its own lists of test patches are not published.
``split=official`` is WILDS' split: hospitals 0, 3 and 4 train, without that tenth, and are tested on hospital 2, which
is nobody's; hospital 1 and the tenth are for validation and are left out.

Reference: Koh et al., WILDS: A Benchmark of in-the-Wild Distribution Shifts, ICML 2021.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from fedjax_fair.data.blocks import EVERYONE, TEST, TRAIN, UNKNOWN, VAL
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.checks import numbers_below
from fedjax_fair.data.sources.contents import Files
from fedjax_fair.data.sources.text_table import Table, read_table
from fedjax_fair.registry import register

HOSPITALS, VAL_HOSPITAL, TEST_HOSPITAL = 5, 1, 2
CLASSES = ('normal', 'tumor')


@register.source('camelyon17', argument='ROOT', about='Camelyon17-WILDS, tissue patches of five hospitals')
def read_camelyon17(
    root: str,
    split: Annotated[Literal['drawn', 'official'], 'test set: drawn here, or as WILDS has it'] = 'drawn',
    patient: Annotated[Literal['slide', 'patient'], 'what is never divided'] = 'slide',
) -> Files:
    """The patches; ``split`` is drawn or official, ``patient`` is what is never divided: a slide or a patient."""
    where = f'`scenario`=camelyon17:{root}'
    folder = one_path(root, where)
    table = read_table(folder / 'metadata.csv', where, root=folder)
    hospital = numbers_below(table, 'center', HOSPITALS)
    side = np.full(len(table), UNKNOWN) if split == 'drawn' else _official(table, hospital)
    site = np.where(side == TEST, EVERYONE, np.char.add('center ', hospital.astype(str)))
    read = side != VAL
    columns = (_patches(table), numbers_below(table, 'tumor', len(CLASSES)), side, site, np.array(table[patient]))
    images, labels, side, site, together = (column[read] for column in columns)
    return Files(folder, images.tolist(), labels, side, site, together, None, CLASSES)


def _patches(table: Table) -> np.ndarray:
    """The path of every patch below ROOT; patients are written with three digits."""
    columns = (table[name] for name in ('patient', 'node', 'x_coord', 'y_coord'))
    names = ((f'patient_{patient:0>3}_node_{node}', x, y) for patient, node, x, y in zip(*columns, strict=True))
    return np.array([f'patches/{name}/patch_{name}_x_{x}_y_{y}.png' for name, x, y in names])


def _official(table: Table, hospital: np.ndarray) -> np.ndarray:
    """WILDS' split; of the column ``split`` only the value 0 is for training."""
    side = np.where(numbers_below(table, 'split', 4) == 0, TRAIN, VAL)
    return np.select([hospital == TEST_HOSPITAL, hospital == VAL_HOSPITAL], [TEST, VAL], side)
