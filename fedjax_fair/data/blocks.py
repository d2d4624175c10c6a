"""Blocks of examples read from several places, merged to one pool of examples of one image shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedjax_fair.data.pool import ExampleNames, Pool, stratified_split
from fedjax_fair.data.resize import resize_images, resize_masks, with_channels
from fedjax_fair.errors import DataError, UserError
from fedjax_fair.escaping import visible
from fedjax_fair.options import not_one_of
from fedjax_fair.registry import tasks

TRAIN, TEST, VAL = 0, 1, 2
SPLIT_NAMES = {
    **{'train': TRAIN, 'training': TRAIN, 'test': TEST, 'testing': TEST},
    **{'val': VAL, 'valid': VAL, 'validation': VAL},
}
SIDES = {TRAIN: ' (train)', TEST: ' (test)'}  # behind the name of a source
UNKNOWN = -1  # nothing says whether an example is for training or testing
OTHER = 'other'  # the name of sites that are joined
EVERYONE = ''  # in the place of a site: test examples that belong to none and test all clients alike


class Block(NamedTuple):
    """Examples read together: arrays of one length.

    ``images`` are ``[T, H, W, C]`` or features ``[T, D]``, ``split`` holds TRAIN, TEST, VAL or UNKNOWN, ``site``
    names where each example comes from (EVERYONE for test examples that test all clients alike), examples of equal
    ``patient`` are never divided. ``names`` are what a source calls its examples, or one name for all of them.
    """

    source: str
    images: np.ndarray
    labels: np.ndarray
    split: np.ndarray
    site: np.ndarray | None = None
    patient: np.ndarray | None = None
    masks: np.ndarray | None = None
    unlabelled: bool = False  # labels are all zero because there are none
    names: Sequence[str] | str = ''


def merge(
    blocks: Sequence[Block],
    class_names: tuple[str, ...],
    image_size: int | None,
    seed: int,
    task: str | None = None,
    join_sites: bool = False,
) -> Pool:
    """One pool of all blocks: one image shape, sites numbered as they appear, a test set drawn where none is given.

    Validation examples are left out. Masks are kept where all blocks have them, resized with their images. With
    ``join_sites`` the sites that cannot be both trained on and tested become one, 'other': those without training
    examples or without test examples or, where the test examples are still to be drawn, those with fewer than two
    patients (or examples, where patients are not known).
    """
    left_out = sum(int((b.split == VAL).sum()) for b in blocks)
    read = [b for b in blocks if (b.split != VAL).any()]
    if left_out and not read:
        raise DataError(f'`scenario`: {_sources(blocks)} holds only validation examples, none for training or testing')
    blocks = read or blocks  # none of what is left out is resized or copied
    x = one_shape([b.images for b in blocks], image_size)
    if len({b.labels.shape[1:] for b in blocks}) > 1:
        raise DataError('`scenario`: labels must have one shape in all files and parts')
    y = np.concatenate([b.labels for b in blocks])
    _check_labels(y, class_names, blocks)
    split, patient_of = np.concatenate([b.split for b in blocks]), _patients(blocks)
    site = _sites(blocks)
    _check_common(site, split, blocks)
    if join_sites:
        site = _joined(site, split, patient_of)
    site_of, sites = _numbered(site)
    sites, class_names = shown_names('sites', sites, blocks), shown_names('classes', class_names, blocks)
    masks = [resize_masks(b.masks, x.shape[1:3]) for b in blocks if b.masks is not None]
    kept = _joined_rows(masks) if len(masks) == len(blocks) else None
    task = task or _natural_task(y, blocks)
    pool = Pool(x, y, split == TEST, site_of, sites, class_names, kept, task, patient_of)
    pool = pool._replace(place=np.arange(len(y), dtype=np.int32), example_names=_example_names(blocks))
    _check_task(pool, blocks)
    if len(rows := np.flatnonzero(split == UNKNOWN)):
        around = (None if a is None else a[rows] for a in (site_of, patient_of))
        split[rows] = np.where(stratified_split(pool.strata[rows], seed, *around), TEST, TRAIN)
        pool = pool._replace(tests_drawn=True)
    return pool._replace(held_out=split == TEST, left_out=left_out).take(split != VAL)


def patients_within(site: np.ndarray, patient: np.ndarray) -> np.ndarray:
    """Names of patients that begin with their site: two sites may give two patients the same number.

    >>> patients_within(np.array(['north', 'south']), np.array([1, 1])).tolist()
    ['north/1', 'south/1']
    """
    return np.char.add(np.char.add(site, '/'), patient.astype(str))


def at_site(block: Block, name: str) -> Block:
    """The same examples, all from one site."""
    site = np.full(len(block.labels), name)
    patient = None if block.patient is None else patients_within(site, block.patient)
    names = block.names if isinstance(block.names, str) else [f'{name}/{own}' for own in block.names]
    return block._replace(site=site, patient=patient, names=names)


def _example_names(blocks: Sequence[Block]) -> tuple[ExampleNames, ...]:
    """What examples are called; those without names are rows of a source, or of its training or test examples."""
    starts = np.cumsum([0, *(len(b.labels) for b in blocks)])
    sides = [SIDES.get(int(b.split[0]), '') if len(np.unique(b.split)) == 1 else '' for b in blocks]
    names = [b.names if len(b.names) else f'{b.source}{side}' for b, side in zip(blocks, sides, strict=True)]
    return tuple(ExampleNames(int(start), own) for start, own in zip(starts[:-1], names, strict=True))


def shown_names(what: str, names: tuple[str, ...], blocks: Sequence[Block]) -> tuple[str, ...]:
    """Names as everybody may print and write them, whatever characters or bytes a source has in them."""
    shown = tuple(map(visible, names))
    if shown != names and (twice := [name for name, times in Counter(shown).items() if times > 1]):
        raise DataError(f'`scenario`: {_sources(blocks)}: two {what} are both written {twice[0]}; rename one of them')
    return shown


def _sources(blocks: Sequence[Block]) -> str:
    return ', '.join(dict.fromkeys(b.source for b in blocks))


def _joined_rows(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """All rows in one array; a single array, which may be mapped from a file, is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _natural_task(y: np.ndarray, blocks: Sequence[Block]) -> str:
    """What the arrays are for: several labels each, masks without labels, or one class each."""
    if y.ndim > 1:
        return 'multilabel'
    return 'segmentation' if all(b.unlabelled for b in blocks) else 'classification'


def _check_task(pool: Pool, blocks: Sequence[Block]) -> None:
    source = _sources(blocks)
    lacks = {
        'classification': 'one class label per image' if pool.y.ndim > 1 or any(b.unlabelled for b in blocks) else '',
        'segmentation': 'masks of the size of the images' if pool.masks is None else '',
        'multilabel': 'labels of shape [T, K]' if pool.y.ndim == 1 else '',
    }
    if pool.task not in tasks:
        raise UserError(f'`task`={pool.task} {not_one_of(pool.task, tasks)}')
    if lack := lacks.get(pool.task):  # what a task from outside needs, it checks itself
        raise UserError(f'`task`={pool.task}: {source} lacks {lack}')


def one_shape(images: Sequence[np.ndarray], image_size: int | None) -> np.ndarray:
    """Join arrays of images: fitted into one size, grey repeated to RGB where mixed, one dtype.

    The size is ``image_size`` squared, or by default that of most examples. Features ``[T, D]`` must agree in ``D``.
    """
    if len({x.dtype for x in images}) > 1:
        raise DataError('`scenario`: some images are uint8 and some floats; store all of them in one type')
    if any(x.ndim == 2 for x in images):
        if len({x.shape[1:] for x in images}) > 1 or image_size is not None:
            shapes = sorted({x.shape[1:] for x in images})
            raise DataError(f'`scenario`: features must share one shape (got {shapes}) and take no `image_size`')
        return np.concatenate(images)
    channels = {x.shape[-1] for x in images}
    if len(channels) > 1 and channels != {1, 3}:
        raise DataError(f'`scenario`: images have {sorted(channels)} channels; only grey and RGB may be mixed')
    size = _most_common_size(images) if image_size is None else (image_size, image_size)
    fitted = [with_channels(resize_images(x, size), max(channels)) for x in images]
    return _joined_rows(fitted)


def _most_common_size(images: Sequence[np.ndarray]) -> tuple[int, int]:
    counts: dict[tuple[int, int], int] = {}
    for x in images:
        counts[x.shape[1:3]] = counts.get(x.shape[1:3], 0) + len(x)
    return max(counts, key=lambda size: counts[size])


def _check_labels(y: np.ndarray, class_names: tuple[str, ...], blocks: Sequence[Block]) -> None:
    source = _sources(blocks)
    if not len(y):
        raise DataError(f'`scenario`: {source} holds no examples')
    if y.ndim > 1:
        if class_names and y.shape[1] != len(class_names):
            raise DataError(f'`scenario`: {source}: {y.shape[1]} labels, but {len(class_names)} class_names')
        return
    if class_names and y.max() >= len(class_names):
        raise DataError(f'`scenario`: {source}: label {y.max()} is out of range of the {len(class_names)} class_names')
    if y.max() >= len(y):
        raise DataError(f'`scenario`: {source}: label {y.max()} is out of range for {len(y)} examples; number from 0')


def _sites(blocks: Sequence[Block]) -> np.ndarray | None:
    """The site of every example by name; None where no block has sites."""
    sites = [b.site for b in blocks if b.site is not None]
    if sites and len(sites) < len(blocks):
        raise DataError(f'`scenario`: {blocks[0].source} gives sites for some of its images only; give them for all')
    return np.concatenate(sites) if sites else None


def _check_common(site: np.ndarray | None, split: np.ndarray, blocks: Sequence[Block]) -> None:
    """Either no example is EVERYONE's, or exactly the test examples are."""
    if site is None or EVERYONE not in site:
        return
    read = split != VAL
    if UNKNOWN in split or ((site == EVERYONE) != (split == TEST))[read].any():
        raise DataError(
            f'`scenario`: {blocks[0].source} leaves the site of some images empty; name it for all, or for all but the '
            'test images, which test every client then'
        )


def _joined(site: np.ndarray | None, split: np.ndarray, patient_of: np.ndarray | None) -> np.ndarray:
    """Sites in which OTHER replaces those that cannot be both trained on and tested."""
    if site is None:
        raise UserError('`join_sites`=true: these examples have no sites or domains')
    if EVERYONE in site:  # every site that is trained on is tested
        return site
    drawn = np.flatnonzero(split == UNKNOWN)
    _, first = np.unique(drawn if patient_of is None else patient_of[drawn], return_index=True)
    names, count = np.unique(
        site[drawn[first]], return_counts=True
    )  # a patient counts at the site of its first example
    known = np.intersect1d(*(site[split == side] for side in (TRAIN, TEST)))
    return np.where(np.isin(site, np.concatenate([names[count > 1], known])), site, OTHER)


def _numbered(site: np.ndarray | None) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Sites as numbers, in the order in which they appear, and their names; None and () where there are none.

    EVERYONE has the number -1.
    """
    if site is None:
        return None, ()
    names, first, inverse = np.unique(site, return_index=True, return_inverse=True)
    order = np.argsort(first)
    order = order[names[order] != EVERYONE]
    number = np.full(len(names), -1, np.int32)
    number[order] = np.arange(len(order))
    return number[inverse], tuple(names[order].tolist())


def _patients(blocks: Sequence[Block]) -> np.ndarray | None:
    """The number of every example's patient; an example of a block without patients is a patient of its own."""
    if all(b.patient is None for b in blocks):
        return None
    alone = [[f'alone {k} {i}' for i in range(len(b.labels))] for k, b in enumerate(blocks)]
    pairs = zip(alone, (b.patient for b in blocks), strict=True)
    names = np.concatenate([np.array(names) if patient is None else patient.astype(str) for names, patient in pairs])
    return np.unique(names, return_inverse=True)[1].astype(np.int32)
