"""Prostates in magnetic resonance, NIfTI volumes of several hospitals as HarmoFL reads them: ``prostate:ROOT``.

ROOT holds a folder for every hospital (BIDMC, HK, I2CVB, ISBI, ISBI_1.5, UCL) with ``Case00.nii.gz`` and
``Case00_segmentation.nii.gz`` (or ``_Segmentation``), and so on. A volume is cut off above at its 0.99 quantile and
stretched over 0..255; an example is a slice whose segmentation is not empty, with its two neighbours as channels.
Segmentations are 0 or 1, whatever is above 1 being 1.

By default a fifth of every hospital's patients is drawn for testing. ``split=slice`` is HarmoFL's own split, for
comparison only: by slice, so that a patient may be on both sides, in the order of its ``<hospital>-dir.npy`` and
``<hospital>-index.npy`` beside the folders; 64 % train, 20 % test, 16 % are for validation and are left out.

Reference: Jiang et al., HarmoFL, AAAI 2022; volumes of Liu et al., Shape-aware Meta-learning, MICCAI 2020.
"""

from __future__ import annotations

import gzip
import math
import pathlib
import zlib
from typing import Annotated, Literal

import numpy as np

from fedjax_fair.data.blocks import TEST, TRAIN, UNKNOWN, VAL, Block
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.contents import Arrays, Encoded
from fedjax_fair.data.sources.medical import library
from fedjax_fair.errors import DataError
from fedjax_fair.foreign import BYTES_AT_ONCE, Inflating, check_room
from fedjax_fair.registry import register

MARK = '_segmentation'
ENDINGS = ('.nii.gz', '.nii')

LARGEST_VALUE = 8  # bytes of a number while values are scaled


@register.source('prostate', argument='ROOT', about='prostates in magnetic resonance, NIfTI volumes of hospitals')
def read_prostate(
    root: str,
    split: Annotated[Literal['patient', 'slice'], 'test set: patients drawn here, or slices as in HarmoFL'] = 'patient',
) -> Encoded:
    """Slices of all cases; ``split`` is by patient or by slice."""
    where = f'`scenario`=prostate:{root}'
    folder = one_path(root, where)
    hospitals = [path for path in sorted(folder.iterdir()) if path.is_dir() and _cases(path)]
    if not hospitals:
        raise DataError(f'{where}: no folders with volumes and segmentations, such as BIDMC/Case00{MARK}.nii.gz')
    beside = (path for depth in ('*', '*/*') for path in folder.glob(depth))  # those behind links too
    files = sorted(path for path in beside if path.name.endswith((*ENDINGS, '.npy')))

    def decode(image_size: int | None) -> Arrays:
        return Arrays([block for path in hospitals for block in _hospital(path, split, where)])

    return Encoded(folder, [str(path.relative_to(folder)) for path in files], f'prostate by {split}', decode)


def _cases(hospital: pathlib.Path) -> list[str]:
    """The names of all files with segmentations, sorted."""
    return sorted(path.name for path in hospital.iterdir() if MARK in path.name.lower() and path.name.endswith(ENDINGS))


def _hospital(path: pathlib.Path, split: str, where: str) -> list[Block]:
    """The slices of every case of a hospital."""
    cases = _cases(path) if split == 'patient' else _listed(path, where)
    slices = [_slices(path / case, where) for case in cases]
    ends = np.cumsum([len(masks) for _, masks in slices])
    if not ends[-1]:
        raise DataError(f'{where}: all segmentations of {path.name} are empty')
    sides = np.full(ends[-1], UNKNOWN) if split == 'patient' else _sides(path, int(ends[-1]), where)
    return [
        Block(
            path.name,
            images,
            np.zeros(len(side), np.int32),
            side,
            *_whose(path, case, len(side)),
            masks,
            unlabelled=True,
            names=f'{path.name}/{case}',
        )
        for case, (images, masks), side in zip(cases, slices, np.split(sides, ends[:-1]), strict=True)
    ]


def _whose(path: pathlib.Path, case: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The site and the patient of every slice."""
    return np.full(count, path.name), np.full(count, f'{path.name}/{case}')


def _slices(path: pathlib.Path, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Images ``[S, H, W, 3]`` and masks ``[S, H, W]`` of one case, the first and the last slice of it left out."""
    cut = path.name.lower().index(MARK)
    volume = _volume(path.with_name(path.name[:cut] + path.name[cut + len(MARK) :]), where)
    mask = (_volume(path, where) > 0).astype(np.uint8)
    if volume.shape != mask.shape or volume.ndim != 3:
        raise DataError(f'{where}: {path.parent.name}/{path.name} has shape {mask.shape}, its volume {volume.shape}')
    seen = _stretched(volume)
    chosen = np.flatnonzero(mask[1:-1].any((1, 2))) + 1
    return np.stack([seen[chosen - 1], seen[chosen], seen[chosen + 1]], -1), mask[chosen]


def _volume(path: pathlib.Path, where: str) -> np.ndarray:
    """The values of a file as ``[D, H, W]``; files store them in the order width, height, depth."""
    nibabel = library('nibabel', where)
    broken = (nibabel.filebasedimages.ImageFileError, nibabel.spatialimages.HeaderDataError, zlib.error)
    try:
        _check_size(path)
        stored = nibabel.load(path).dataobj
        check_room(math.prod(stored.shape) * LARGEST_VALUE, f'its volume {stored.shape}')
        values = np.asarray(stored).T
    except (OSError, EOFError, ValueError, *broken) as error:
        line = getattr(error, 'strerror', None) or str(error).partition('\n')[0]
        raise DataError(f'{where}: {path.parent.name}/{path.name} cannot be read: {line}') from None
    if not np.isfinite(values).all():
        raise DataError(f'{where}: {path.parent.name}/{path.name} holds NaN or infinite values')
    return values


def _check_size(path: pathlib.Path) -> None:
    """Refuse a file that inflates to very much; the library reads as much as its header asks for, at any place."""
    if path.suffix == '.gz':
        with gzip.open(path) as file:
            stream = Inflating(file, path.stat().st_size, 'it')
            while stream.read(BYTES_AT_ONCE):
                pass


def _stretched(volume: np.ndarray) -> np.ndarray:
    """Values from the lowest to the 0.99 quantile as 0 to 255."""
    low, high = np.min(volume), np.quantile(volume, 0.99)
    share = (np.minimum(volume, high) - low) / (high - low if high > low else 1)
    return (share * 255).astype(np.uint8)


# --- HarmoFL's own lists ---------------------------------------------------------------------------------------------


def _list(path: pathlib.Path, what: str, where: str) -> np.ndarray:
    file = path.with_name(f'{path.name}-{what}.npy')
    try:
        return np.load(file, mmap_mode='r', allow_pickle=False)  # a wrong length in its header allocates nothing
    except (OSError, EOFError, ValueError):
        raise DataError(f'{where}: `source_options`=split=slice needs {file.name}, an array of numpy.save') from None


def _listed(path: pathlib.Path, where: str) -> list[str]:
    """The segmentations in the order of HarmoFL's list of all files."""
    names = [str(name) for name in _list(path, 'dir', where).ravel()]
    cases = [name for name in names if MARK in name.lower()]
    if sorted(cases) != _cases(path):
        raise DataError(f'{where}: {path.name}-dir.npy must list the {len(_cases(path))} segmentations of {path.name}')
    return cases


def _sides(path: pathlib.Path, count: int, where: str) -> np.ndarray:
    """TRAIN, VAL or TEST of every slice: 64, 16 and 20 % in the order of HarmoFL's index, rounded as there."""
    index = _list(path, 'index', where).ravel()
    if sorted(index.tolist()) != list(range(count)):
        raise DataError(f'{where}: {path.name}-index.npy must hold 0 to {count - 1}, a number for every slice')
    train = 0.8 * count * 0.8
    ends = int(train), int(train + (0.8 * count - train))
    sides = np.zeros(count, int)
    sides[index] = np.repeat([TRAIN, VAL, TEST], np.diff([0, *ends, count]))
    return sides
