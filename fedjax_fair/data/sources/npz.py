"""Arrays of your own: ``npz:PATH[,PATH...]``; :func:`read_npz` describes the layout of files."""

from __future__ import annotations

import os
import pathlib
import zipfile
from typing import Any, NamedTuple

import numpy as np

from fedjax_fair.data.blocks import SPLIT_NAMES, TEST, TRAIN, UNKNOWN, VAL, Block, at_site
from fedjax_fair.data.declarations import NpzKeys
from fedjax_fair.data.paths import named_paths
from fedjax_fair.data.resize import with_channels
from fedjax_fair.data.sources.checks import black_and_white
from fedjax_fair.data.sources.contents import Arrays
from fedjax_fair.errors import DataError, UserError
from fedjax_fair.foreign import check_plain, npz_array
from fedjax_fair.registry import register

UNREAD = '-'  # in the place of an array: the role is not read
ROLES = ('images', 'labels', 'masks', 'site', 'split', 'is_test', 'patient', 'class_names', 'site_names')
PATIENT, OLDER = 'patient', 'group'  # a role, and its older name in files and in `npz_keys`
SPLIT_PREFIXES = {'train': TRAIN, 'test': TEST, 'val': VAL}
LARGEST_LABEL = np.iinfo(np.int32).max


class _File(NamedTuple):
    """An open archive and the names under which the user keeps each role."""

    path: pathlib.Path
    archive: np.lib.npyio.NpzFile
    keys: dict[str, str]
    used: set[str]

    def array(self, role: str) -> str:
        """The name of the array that holds a role: what the user says, else the role itself or its older name."""
        if role in self.keys or not role.endswith(PATIENT):
            return self.keys.get(role, role)
        held = [name for name in (role, role.removesuffix(PATIENT) + OLDER) if name in self.archive.files]
        if len(held) > 1:
            both = ' and '.join(map(repr, held))
            raise DataError(
                f'`scenario`: {self.path.name} holds {both}, which both name the patients; '
                f'`npz_keys`={role}:{held[0]} or {role}:{held[1]} chooses one'
            )
        return held[0] if held else role

    def __contains__(self, role: object) -> bool:
        name = self.array(str(role))
        return name != UNREAD and name in self.archive.files

    def named(self) -> list[tuple[str, str]]:
        """The roles that the user gives to arrays, and the arrays."""
        return [(role, name) for role, name in self.keys.items() if name != UNREAD]

    def read(self, role: str, length: int | None = None) -> np.ndarray:
        """The array of a role; ``length`` is the length it must have."""
        self.used.add(role)
        name = self.array(role)
        if name == UNREAD:
            raise UserError(f'`npz_keys`={role}:{UNREAD}: {self.path.name} cannot be used without {role}')
        if name not in self.archive.files:
            arrays = ', '.join(sorted(self.archive.files))
            raise DataError(f'`scenario`: {self.path.name} has no array {name!r}; it holds {arrays}')
        try:
            array = np.asarray(npz_array(self.archive, name))
        except DataError as error:
            raise DataError(f'`scenario`: {self.path.name}: {error}') from None
        except Exception as error:  # what a damaged archive makes numpy raise is anybody's guess
            why = ' '.join(str(error).split())
            raise DataError(f'`scenario`: {self.path.name}: array {name!r} cannot be read: {why}') from None
        if length is not None and array.shape[:1] != (length,):
            raise DataError(
                f'`scenario`: {self.path.name}: {name!r} has shape {array.shape}, not {length} rows as images'
            )
        return array

    def column(self, role: str, length: int | None = None) -> np.ndarray:
        """The numbers or texts of a role, ``[N]``; ``[N, 1]`` becomes ``[N]``, bytes become text."""
        values = self.read(role, length)
        values = values[:, 0] if values.shape[1:] == (1,) else values
        where = f'`scenario`: {self.path.name}: {self.array(role)!r}'
        if values.ndim != 1:
            raise DataError(f'{where} must have shape [N] or [N, 1], got {values.shape}')
        if values.dtype.kind == 'f' and not np.isfinite(values).all():
            raise DataError(f'{where} holds NaN or infinite values')
        try:
            return np.char.decode(values, 'utf-8') if values.dtype.kind == 'S' else values
        except UnicodeDecodeError as error:
            raise DataError(f'{where} holds {error.object!r}, which is not text in UTF-8') from None

    def maybe(self, role: str, length: int) -> np.ndarray | None:
        return self.column(role, length) if role in self else None


def parse_keys(keys: str | None) -> dict[str, str]:
    """``'role:array,role:array'`` as a dict.

    >>> parse_keys('site:hospital,labels:y')
    {'site': 'hospital', 'labels': 'y'}

    The array ``-`` means that the role is not read.
    """
    pairs = [pair.partition(':') for pair in (keys or '').split(',') if pair.strip()]
    for role, colon, array in pairs:
        name = _role(role)
        base = name.split('_', 1)[-1] if name.split('_')[0] in SPLIT_PREFIXES else name
        if not colon or not array.strip() or base not in ROLES:
            raise UserError(
                f'`npz_keys`={keys}: {role + colon + array!r} is not role:array with a role among {", ".join(ROLES)}, '
                'or train_, test_, val_ before one of them'
            )
    renamed = {_role(role): array.strip() for role, _, array in pairs}
    if len(renamed) < len(pairs):
        raise UserError(f'`npz_keys`={keys} names a role twice')
    return renamed


def _role(name: str) -> str:
    """A role as the user wrote it, with ``group`` as another word for patient."""
    name = name.strip()
    return name.removesuffix(OLDER) + PATIENT if name.endswith(OLDER) else name


@register.source('npz', argument='PATH[,PATH]', about='arrays of your own from .npz files')
def read_npz(paths: str, npz_keys: NpzKeys | None = None) -> Arrays:
    """Arrays of your own, in one or more files.

    A file holds one of

    * ``train_images``, ``train_labels`` and optionally the same two of ``test`` and ``val`` (as MNIST or MedMNIST do);
    * ``images``, ``labels`` and optionally ``site``, ``split`` or ``is_test``, ``patient``, ``masks``;
    * one pair ``<domain>_images``, ``<domain>_labels`` per domain.

    Images are uint8 or floats of shape ``[T, H, W]``, ``[T, H, W, C]`` or ``[T, D]`` and keep their values; floats
    become float32. Labels ``[T]`` are classes; labels ``[T, K]`` of zeros and ones make a multi-label task; masks
    ``[T, H, W]`` (0, 1, ... or 0 and 255) are learned with ``--task=segmentation``, or where there are no labels.

    Several files are several domains, each named after its file. ``site`` holds numbers (named by ``site_names``) or
    texts; ``class_names`` names the classes; ``split`` holds train/test/val or 0/1/2; examples with equal ``patient``
    (or ``group``, its older name) are those of one patient or slide, which is never divided. Validation examples
    (``val_images``, ``split`` = val) are used neither for training nor for testing. Where nothing says what is for
    testing, a stratified 20 % is drawn. Pickled arrays are never loaded.

    ``npz_keys`` gives roles to arrays of other names, ``site:hospital,patient:case,train_images:x_train``; ``split:-``
    leaves the file's own ``split`` unread, as if there were none, and so with any role.
    """
    chosen = named_paths(paths)
    if len({p.stem for p in chosen}) != len(chosen) or not chosen:
        raise DataError(f'`scenario`=npz:{paths} must name one or more files with different names')
    renamed = parse_keys(npz_keys)
    blocks: list[Block] = []
    names: list[tuple[str, ...]] = []
    for path in chosen:
        with _open(path) as archive:
            file = _File(path, archive, renamed, set())
            _check_keys_exist(file)
            blocks += _blocks(file, alone=len(chosen) == 1)
            names += [tuple(file.column('class_names').astype(str).tolist())] if 'class_names' in file else []
            _check_keys_read(file)
    if len(set(names)) > 1:
        raise DataError(f'`scenario`=npz:{paths}: the files name their classes differently: {sorted(set(names))}')
    return Arrays(blocks, names[0] if names else ())


def _open(path: pathlib.Path) -> np.lib.npyio.NpzFile:
    check_plain(path, f'`scenario`=npz:{path}')
    if not os.path.isfile(path):  # unlike that of pathlib, false for a name that is too long
        raise DataError(f'`scenario`=npz:{path}: no such file')
    try:
        archive = np.load(path, allow_pickle=False) if zipfile.is_zipfile(path) else None
    except Exception:  # as above: anybody's guess
        archive = None
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise DataError(f'`scenario`=npz:{path}: not an npz file (write one with numpy.savez)')
    return archive


def _check_keys_exist(file: _File) -> None:
    if missing := [f'{role}:{name}' for role, name in file.named() if name not in file.archive.files]:
        arrays = ', '.join(sorted(file.archive.files))
        raise UserError(f'`npz_keys`={missing[0]}: {file.path.name} has no such array; it holds {arrays}')


def _check_keys_read(file: _File) -> None:
    if unread := [f'{role}:{name}' for role, name in file.named() if role not in file.used]:
        read = ', '.join(sorted(file.used))
        raise UserError(f'`npz_keys`={unread[0]} is not read in the layout of {file.path.name}, which reads {read}')


# --- layouts ---------------------------------------------------------------------------------------------------------


def _blocks(file: _File, alone: bool) -> list[Block]:
    """The blocks of one file; where several files are read, each is one site named after the file."""
    if 'train_images' in file:
        present = [p for p in SPLIT_PREFIXES if f'{p}_images' in file or f'{p}_labels' in file]
        splits = SPLIT_PREFIXES if 'test' in present else {**SPLIT_PREFIXES, 'train': UNKNOWN}
        blocks = [_block(file, f'{p}_', splits[p]) for p in present]
    elif 'images' in file:
        blocks = [_block(file, '', UNKNOWN)]
    else:
        blocks = _domain_blocks(file)
    if alone:
        return blocks
    if any(block.site is not None for block in blocks):
        raise DataError(f'`scenario`: {file.path.name} has sites of its own; give it alone, not with other files')
    return [at_site(block, file.path.stem) for block in blocks]


def _domain_blocks(file: _File) -> list[Block]:
    domains = [n.removesuffix('_images') for n in file.archive.files if n.endswith('_images')]
    domains = [d for d in domains if d not in SPLIT_PREFIXES]
    if not domains:
        raise DataError(
            f'`scenario`: {file.path.name} holds {", ".join(sorted(file.archive.files))}; needed are '
            'train_images+train_labels, images+labels or <domain>_images+<domain>_labels (rename with `npz_keys`)'
        )
    blocks = [_block(file, f'{d}_', UNKNOWN) for d in domains]
    return [block._replace(site=np.full(len(block.labels), d)) for d, block in zip(domains, blocks, strict=True)]


def _block(file: _File, prefix: str, split: int) -> Block:
    images = _images(file.read(prefix + 'images'), file.path.name)
    count = len(images)
    unlabelled = prefix + 'labels' not in file and prefix + 'masks' in file
    labels = (
        np.zeros(count, np.int32) if unlabelled else checked_labels(file.read(prefix + 'labels', count), file.path.name)
    )
    extra: dict[str, Any] = {role: file.maybe(prefix + role, count) for role in ('site', 'patient')}
    if prefix + 'masks' in file:
        extra['masks'] = checked_masks(file.read(prefix + 'masks', count), images, file.path.name)
    if extra['site'] is not None:
        extra['site'] = _site_names(file, extra['site'])
    extra |= {'unlabelled': unlabelled, 'names': f'{file.path.name} {prefix}images'}
    return Block(file.path.name, images, labels, _split(file, prefix, count, split), **extra)


# --- checks of single arrays -----------------------------------------------------------------------------------------


def _images(x: np.ndarray, source: str) -> np.ndarray:
    if x.ndim not in (2, 3, 4):
        raise DataError(f'`scenario`: {source}: images must be [T, H, W], [T, H, W, C] or [T, D], got shape {x.shape}')
    if 0 in x.shape[1:]:
        raise DataError(f'`scenario`: {source}: images must not be empty, got shape {x.shape}')
    if x.ndim == 4 and x.shape[-1] not in (1, 3) and x.shape[1] in (1, 3):
        raise DataError(f'`scenario`: {source}: images must have channels last, [T, H, W, C], got shape {x.shape}')
    if x.dtype != np.uint8 and not np.issubdtype(x.dtype, np.floating):
        raise DataError(f'`scenario`: {source}: images must be uint8 (0..255) or floats, got {x.dtype}')
    x = x if x.dtype == np.uint8 else x.astype(np.float32, copy=False)
    if x.dtype != np.uint8 and not np.isfinite(x).all():
        raise DataError(f'`scenario`: {source}: images hold NaN or infinite values')
    return x if x.ndim == 2 else with_channels(x, 1 if x.ndim == 3 else x.shape[-1])


def checked_labels(y: np.ndarray, source: str) -> np.ndarray:
    """Labels as int32, classes ``[T]`` or zeros and ones ``[T, K]``; error messages name ``source``."""
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y  # MedMNIST stores [T, 1]
    y = y.astype(np.int32) if y.dtype == bool else y
    if y.ndim not in (1, 2) or 0 in y.shape[1:] or not np.issubdtype(y.dtype, np.integer):
        raise DataError(
            f'`scenario`: {source}: labels must be integers of shape [T], or [T, K] for several labels each, '
            f'got {y.dtype} {y.shape}'
        )
    if y.ndim == 2 and len(y) and (y.min() < 0 or y.max() > 1):
        raise DataError(f'`scenario`: {source}: labels [T, K] must be 0 or 1, got {y.min()} to {y.max()}')
    if bad := [label for label in (y.min(initial=0), y.max(initial=0)) if not 0 <= label <= LARGEST_LABEL]:
        raise DataError(f'`scenario`: {source}: labels must be 0, 1, 2, ..., got {bad[0]}')
    return y.astype(np.int32)


def checked_masks(masks: np.ndarray, images: np.ndarray, source: str) -> np.ndarray:
    """Masks ``[T, H, W]`` of the size of their images as bytes, 0 and 255 as 0 and 1; errors name ``source``."""
    masks = masks[..., 0] if masks.ndim == 4 and masks.shape[-1] == 1 else masks
    if masks.shape != images.shape[:3] or not (masks.dtype == bool or np.issubdtype(masks.dtype, np.integer)):
        raise DataError(
            f'`scenario`: {source}: masks must be integers of shape {images.shape[:3]}, got {masks.dtype} {masks.shape}'
        )
    if masks.size and (masks.min() < 0 or masks.max() > 255):
        raise DataError(f'`scenario`: {source}: masks must hold classes 0 to 255, got {masks.min()} to {masks.max()}')
    masks = masks.astype(np.uint8)
    names = [f'{source} mask {k}' for k in range(len(masks))]
    return masks // 255 if black_and_white(masks, names) else masks


def _split(file: _File, prefix: str, count: int, default: int) -> np.ndarray:
    """0 train, 1 test, 2 val for every example, from 'split', else 'is_test', else ``default``."""
    role = next((prefix + r for r in ('split', 'is_test') if prefix + r in file), None)
    if role is None:
        return np.full(count, default)
    values = file.column(role, count)
    named = [SPLIT_NAMES.get(str(v).strip().lower()) for v in values] if values.dtype.kind == 'U' else values
    bad = next((v for v, n in zip(values, named, strict=True) if n not in (TRAIN, TEST, VAL)), None)
    if bad is not None:
        raise DataError(f'`scenario`: {file.path.name}: {role!r} holds {bad}; choose train, test, val or 0, 1, 2')
    return np.asarray(named).astype(int)


def _site_names(file: _File, site: np.ndarray) -> np.ndarray:
    """Sites as strings, through 'site_names' where sites are numbers."""
    if 'site_names' not in file or not np.issubdtype(site.dtype, np.integer):
        return site.astype(str)
    names = file.column('site_names').astype(str)
    if len(site) and not 0 <= site.min() <= site.max() < len(names):
        raise DataError(f'`scenario`: {file.path.name}: site must be in 0..{len(names) - 1}, got {site.max()}')
    return names[site]
