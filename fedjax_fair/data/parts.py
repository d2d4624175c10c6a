"""Arrays read from several places, joined to one table of examples of one image shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedjax_fair.data.pool import Origin, Pool, stratified_split
from fedjax_fair.data.resize import resize_images, resize_masks, with_channels

TRAIN, TEST, VAL = 0, 1, 2
SPLIT_NAMES = {
    **{'train': TRAIN, 'training': TRAIN, 'test': TEST, 'testing': TEST},
    **{'val': VAL, 'valid': VAL, 'validation': VAL},
}
SIDES = {TRAIN: ' (train)', TEST: ' (test)'}  # behind the name of a source
UNKNOWN = -1  # nothing says whether an example is for training or testing
OTHER = 'other'  # the name of sites that are joined
EVERYONE = ''  # in the place of a site: test examples that belong to none and test all clients alike


class Part(NamedTuple):
    """Examples read together: arrays of one length.

    ``images`` are ``[T, H, W, C]`` or features ``[T, D]``, ``split`` holds TRAIN, TEST, VAL or UNKNOWN, ``site``
    names where each example comes from (EVERYONE for test examples that are nobody's), examples of equal ``group``
    belong together. ``names`` are what a source calls its examples, or one name for all of them.
    """

    source: str
    images: np.ndarray
    labels: np.ndarray
    split: np.ndarray
    site: np.ndarray | None = None
    group: np.ndarray | None = None
    masks: np.ndarray | None = None
    unlabelled: bool = False  # labels are all zero because there are none
    names: Sequence[str] | str = ''


def merge(
    parts: Sequence[Part],
    class_names: tuple[str, ...],
    image_size: int | None,
    seed: int,
    task: str | None = None,
    join_sites: bool = False,
) -> Pool:
    """One table of all parts: one image shape, sites numbered as they appear, a test set drawn where none is given.

    Validation examples are left out. Masks are kept where all parts have them, resized with their images. With
    ``join_sites`` the sites that cannot be both trained on and tested become one, 'other': those that lack training or
    test examples, or where these are to be drawn have fewer than two groups (or examples, where there are no groups).
    """
    left_out = sum(int((p.split == VAL).sum()) for p in parts)
    read = [p for p in parts if (p.split != VAL).any()]
    if left_out and not read:
        raise ValueError(f'--scenario: {_sources(parts)} holds only validation examples, none for training or testing')
    parts = read or parts  # none of what is left out is resized or copied
    x = one_shape([p.images for p in parts], image_size)
    if len({p.labels.shape[1:] for p in parts}) > 1:
        raise ValueError('--scenario: labels must have one shape in all files and parts')
    y = np.concatenate([p.labels for p in parts])
    _check_labels(y, class_names, parts)
    split, clusters = np.concatenate([p.split for p in parts]), _clusters(parts)
    site = _sites(parts)
    _check_common(site, split, parts)
    if join_sites:
        site = _joined(site, split, clusters)
    group_of, groups = _numbered(site)
    masks = [resize_masks(p.masks, x.shape[1:3]) for p in parts if p.masks is not None]
    kept = _joined_rows(masks) if len(masks) == len(parts) else None
    task = task or _natural_task(y, parts)
    pool = Pool(x, y, split == TEST, group_of, groups, class_names, kept, task, clusters)
    pool = pool._replace(place=np.arange(len(y), dtype=np.int32), origins=_origins(parts))
    _check_task(pool, parts)
    if len(rows := np.flatnonzero(split == UNKNOWN)):
        around = (None if a is None else a[rows] for a in (group_of, clusters))
        split[rows] = np.where(stratified_split(pool.strata[rows], seed, *around), TEST, TRAIN)
    return pool._replace(held_out=split == TEST, left_out=left_out).take(split != VAL)


def groups_within(site: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Groups that are named after their site too: every hospital numbers its patients alone.

    >>> groups_within(np.array(['north', 'south']), np.array([1, 1])).tolist()
    ['north/1', 'south/1']
    """
    return np.char.add(np.char.add(site, '/'), group.astype(str))


def at_site(part: Part, name: str) -> Part:
    """The same examples as those of one site."""
    site = np.full(len(part.labels), name)
    names = part.names if isinstance(part.names, str) else [f'{name}/{own}' for own in part.names]
    return part._replace(site=site, group=None if part.group is None else groups_within(site, part.group), names=names)


def _origins(parts: Sequence[Part]) -> tuple[Origin, ...]:
    """What examples are called; those without names are rows of a source, or of its training or test examples."""
    starts = np.cumsum([0, *(len(p.labels) for p in parts)])
    sides = [SIDES.get(int(p.split[0]), '') if len(np.unique(p.split)) == 1 else '' for p in parts]
    names = [p.names if len(p.names) else f'{p.source}{side}' for p, side in zip(parts, sides, strict=True)]
    return tuple(Origin(int(start), own) for start, own in zip(starts[:-1], names, strict=True))


def _sources(parts: Sequence[Part]) -> str:
    return ', '.join(dict.fromkeys(p.source for p in parts))


def _joined_rows(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays below each other; one alone, which may be in a file, is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _natural_task(y: np.ndarray, parts: Sequence[Part]) -> str:
    """What the arrays are for: several labels each, masks without labels, or one class each."""
    if y.ndim > 1:
        return 'multilabel'
    return 'segmentation' if all(p.unlabelled for p in parts) else 'classification'


def _check_task(pool: Pool, parts: Sequence[Part]) -> None:
    source = _sources(parts)
    lacks = {
        'classification': 'one class label per image' if pool.y.ndim > 1 or any(p.unlabelled for p in parts) else '',
        'segmentation': 'masks of the size of the images' if pool.masks is None else '',
        'multilabel': 'labels of shape [T, K]' if pool.y.ndim == 1 else '',
    }
    if pool.task not in lacks:
        raise ValueError(f'--task={pool.task} is unknown; choose one of {", ".join(lacks)}')
    if lacks[pool.task]:
        raise ValueError(f'--task={pool.task}: {source} lacks {lacks[pool.task]}')


def one_shape(images: Sequence[np.ndarray], image_size: int | None) -> np.ndarray:
    """Join arrays of images: fitted into one size, grey repeated to RGB where mixed, one dtype.

    The size is ``image_size`` squared, or by default that of most examples. Features ``[T, D]`` must agree in ``D``.
    """
    if len({x.dtype for x in images}) > 1:
        raise ValueError('--scenario: some images are uint8 and some floats; store all of them in one type')
    if any(x.ndim == 2 for x in images):
        if len({x.shape[1:] for x in images}) > 1 or image_size is not None:
            shapes = sorted({x.shape[1:] for x in images})
            raise ValueError(f'--scenario: features must share one shape (got {shapes}) and take no --image_size')
        return np.concatenate(images)
    channels = {x.shape[-1] for x in images}
    if len(channels) > 1 and channels != {1, 3}:
        raise ValueError(f'--scenario: images have {sorted(channels)} channels; only grey and RGB may be mixed')
    size = _most_common_size(images) if image_size is None else (image_size, image_size)
    fitted = [with_channels(resize_images(x, size), max(channels)) for x in images]
    return _joined_rows(fitted)


def _most_common_size(images: Sequence[np.ndarray]) -> tuple[int, int]:
    counts: dict[tuple[int, int], int] = {}
    for x in images:
        counts[x.shape[1:3]] = counts.get(x.shape[1:3], 0) + len(x)
    return max(counts, key=lambda size: counts[size])


def _check_labels(y: np.ndarray, class_names: tuple[str, ...], parts: Sequence[Part]) -> None:
    source = _sources(parts)
    if not len(y):
        raise ValueError(f'--scenario: {source} holds no examples')
    if y.ndim > 1:
        if class_names and y.shape[1] != len(class_names):
            raise ValueError(f'--scenario: {source}: {y.shape[1]} labels, but {len(class_names)} class_names')
        return
    if class_names and y.max() >= len(class_names):
        raise ValueError(f'--scenario: {source}: label {y.max()} is out of range of the {len(class_names)} class_names')
    if y.max() >= len(y):
        raise ValueError(f'--scenario: {source}: label {y.max()} is out of range for {len(y)} examples; number from 0')


def _sites(parts: Sequence[Part]) -> np.ndarray | None:
    """The site of every example by name; None where no part has sites."""
    sites = [p.site for p in parts if p.site is not None]
    if sites and len(sites) < len(parts):
        raise ValueError(f'--scenario: {parts[0].source} gives sites for some of its images only; give them for all')
    return np.concatenate(sites) if sites else None


def _check_common(site: np.ndarray | None, split: np.ndarray, parts: Sequence[Part]) -> None:
    """Only test examples may be everyone's, and then all of them are."""
    if site is None or EVERYONE not in site:
        return
    read = split != VAL
    if UNKNOWN in split or ((site == EVERYONE) != (split == TEST))[read].any():
        raise ValueError(
            f'--scenario: {parts[0].source} leaves the site of some images empty; name it for all, or for all but the '
            'test images, which test every client then'
        )


def _joined(site: np.ndarray | None, split: np.ndarray, clusters: np.ndarray | None) -> np.ndarray:
    """Sites with OTHER in the place of all that cannot be both trained on and tested."""
    if site is None:
        raise ValueError('--join_sites=true: these examples have no sites or domains')
    if EVERYONE in site:  # every site that is trained on is tested
        return site
    drawn = np.flatnonzero(split == UNKNOWN)
    _, first = np.unique(drawn if clusters is None else clusters[drawn], return_index=True)
    names, count = np.unique(site[drawn[first]], return_counts=True)  # a group counts where its first example is
    known = np.intersect1d(*(site[split == side] for side in (TRAIN, TEST)))
    return np.where(np.isin(site, np.concatenate([names[count > 1], known])), site, OTHER)


def _numbered(site: np.ndarray | None) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Sites as numbers, in the order in which they appear, and their names; None and () where there are none.

    What is everyone's has the number -1.
    """
    if site is None:
        return None, ()
    names, first, inverse = np.unique(site, return_index=True, return_inverse=True)
    order = np.argsort(first)
    order = order[names[order] != EVERYONE]
    number = np.full(len(names), -1, np.int32)
    number[order] = np.arange(len(order))
    return number[inverse], tuple(names[order].tolist())


def _clusters(parts: Sequence[Part]) -> np.ndarray | None:
    """Examples that belong together have one number; an example of a part without groups stands alone."""
    if all(p.group is None for p in parts):
        return None
    alone = [[f'alone {k} {i}' for i in range(len(p.labels))] for k, p in enumerate(parts)]
    pairs = zip(alone, (p.group for p in parts), strict=True)
    names = np.concatenate([np.array(names) if group is None else group.astype(str) for names, group in pairs])
    return np.unique(names, return_inverse=True)[1].astype(np.int32)
