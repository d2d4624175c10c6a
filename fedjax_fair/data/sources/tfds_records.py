"""Records of TensorFlow Datasets into arrays, in their order, without TensorFlow.

Encoded images are decoded as image files are, rather than by TensorFlow Datasets, which without TensorFlow leaves grey
images, palettes and transparency among colour images as they are. The orientation that
a camera noted is ignored, as in TensorFlow Datasets, because masks and sizes are those of the stored image.
"""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from fedjax_fair.data.blocks import Block
from fedjax_fair.data.resize import resize_masks, with_channels
from fedjax_fair.data.sources.contents import Arrays
from fedjax_fair.data.sources.npz import checked_labels, checked_masks
from fedjax_fair.data.sources.pixels import LOSSY, bombs_refused, check_mode, classes_in, fit, opaque, opened
from fedjax_fair.data.sources.tfds_store import short, tfds_library
from fedjax_fair.data.sources.workers import in_threads
from fedjax_fair.errors import DataError

BATCH = 64  # examples that a thread hands over at once: one by one takes twice as long
Record = Mapping[str, Any]
Roles = Mapping[str, tuple[str, Any]]  # the path and the feature of each role
Size = tuple[int, int]


def decode_splits(name: str, builder: Any, roles: Roles, splits: Mapping[str, int], image_size: int | None) -> Arrays:
    """One block per split, images fitted into ``image_size`` squared, or else their own or most common size."""
    raw = _undecoded(builder.info.features)
    records = {split: builder.as_data_source(split, decoders=raw) for split in splits}

    def look(split: str, at: Callable[[Record], Any]) -> _Looked:
        return _Looked(f'`scenario`=tfds:{name}: split {split}', records[split], at)

    size = (image_size, image_size) if image_size else roles['image'][1].shape[:2]
    with bombs_refused():
        if None in size:
            counts = Counter(own for split in splits for own in look(split, lambda record: _size(record, roles)))
            size = max(counts, key=lambda own: counts[own])
        blocks = [
            _block(f'{name} ({split})', _stacked(look(split, lambda record: _example(record, roles, size))), use)
            for split, use in splits.items()
        ]
    return Arrays(blocks, _class_names(roles))


def _undecoded(features: Any) -> dict[str, Any]:
    """Decoders that leave images encoded."""
    tfds = tfds_library()
    nested = {name: _undecoded(f) for name, f in features.items() if isinstance(f, tfds.features.FeaturesDict)}
    images = {name: tfds.decode.SkipDecoding() for name, f in features.items() if isinstance(f, tfds.features.Image)}
    return nested | images


def _class_names(roles: Roles) -> tuple[str, ...]:
    """The names of classes; empty where the names are only numbers."""
    names = getattr(roles['label'][1], 'names', None) if 'label' in roles else None
    return () if names is None or all(name.isdigit() for name in names) else tuple(names)


# --- one record ------------------------------------------------------------------------------------------------------


def _size(record: Record, roles: Roles) -> Size:
    """The size of an image; only its header is decoded."""
    value = _value(record, roles['image'][0])
    return opened(io.BytesIO(value)).size[::-1] if isinstance(value, bytes) else value.shape[:2]


def _example(record: Record, roles: Roles, size: Size) -> dict[str, Any]:
    """What a record holds for every role, its image and mask fitted into ``size``."""
    example = {role: READERS[role](_value(record, path), feature) for role, (path, feature) in roles.items()}
    image, mask = example['image'], example.get('mask')
    example['image'] = np.zeros((*size, image.shape[2]), np.uint8)
    fit(image, example['image'])
    if mask is not None:
        if mask.shape != image.shape[:2]:
            raise DataError(f'a mask of {mask.shape} pixels for an image of {image.shape[:2]}')
        example['mask'] = resize_masks(mask[None], size)[0]
    return example


def _value(record: Record, path: str) -> Any:
    value: Any = record
    for key in path.split('/'):
        value = value[key]
    return value


def _pixels(value: Any, feature: Any) -> np.ndarray:
    """An image ``[H, W, C]``, grey or colour as the feature has it."""
    if not isinstance(value, bytes):
        return value
    image = opened(io.BytesIO(value))
    check_mode(image)
    pixels, grey = opaque(image), feature.shape[-1] in (1, 2)
    if grey and pixels.ndim == 3:
        pixels = np.asarray(Image.fromarray(pixels).convert('L'))
    return with_channels(pixels[None], 1 if grey else 3)[0]


def _classes(value: Any, feature: Any) -> np.ndarray:
    """A mask ``[H, W]``."""
    if not isinstance(value, bytes):
        return value[..., 0]
    image = opened(io.BytesIO(value))
    return classes_in(image, image.format in LOSSY)


def _label(value: Any, feature: Any) -> np.ndarray:
    return np.asarray(value, np.int32)


def _text(value: Any, feature: Any) -> str:
    """A site or a patient by its name."""
    if (names := getattr(feature, 'names', None)) is not None:
        return names[value] if value >= 0 else str(value)
    return value.decode(errors='replace') if isinstance(value, bytes) else str(value)


READERS: dict[str, Callable[[Any, Any], Any]] = {
    'image': _pixels,
    'mask': _classes,
    'label': _label,
    'site': _text,
    'patient': _text,
}


# --- all records -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Looked:
    """Records seen through the function ``look``; errors name the record."""

    where: str
    records: Sequence[Record]
    look: Callable[[Record], Any]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, place: int) -> Any:
        try:
            return self.look(self.records[place])
        except Exception as error:  # files, protocol buffers and image formats have many ways to be broken
            raise DataError(f'{self.where}, example {place}: {short(error)}') from None

    def __iter__(self) -> Iterator[Any]:
        """In order, read and decoded ahead by several threads."""

        def batch(number: int) -> list[Any]:
            return [self[k] for k in range(number * BATCH, min((number + 1) * BATCH, len(self)))]

        for examples in in_threads(batch, -(-len(self) // BATCH), 'decoding records'):
            yield from examples


def _stacked(examples: _Looked) -> dict[str, np.ndarray]:
    """One array per role, filled in place: images are never in memory twice."""
    columns: dict[str, np.ndarray] = {}
    for place, example in enumerate(examples):
        for role, value in example.items():
            if role not in columns:
                kind = object if isinstance(value, str) else value.dtype
                columns[role] = np.empty((len(examples), *np.shape(value)), kind)
            columns[role][place] = value
    return {role: column.astype(str) if column.dtype == object else column for role, column in columns.items()}


def _block(source: str, columns: dict[str, np.ndarray], use: int) -> Block:
    images, masks, labels = columns['image'], columns.get('mask'), columns.get('label')
    return Block(
        source,
        images,
        np.zeros(len(images), np.int32) if labels is None else checked_labels(labels, source),
        np.full(len(images), use),
        columns.get('site'),
        columns.get('patient'),
        None if masks is None else checked_masks(masks, images, source),
        unlabelled=labels is None,
    )
