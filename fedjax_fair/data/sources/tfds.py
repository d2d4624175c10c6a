"""Any prepared data set of TensorFlow Datasets by name, read without TensorFlow: ``tfds:NAME[/CONFIG][:VERSION]``.

Features of a set have names; one inside another is written ``attributes/Smiling``. Images are a feature of encoded
images or of bytes ``[H, W, C]``; labels are classes, whole numbers or vectors of zeros and ones. Where but one feature
fits, or one of several is named ``image`` or ``label``, it need not be named.

The split ``train`` is for training and ``test`` for testing; without ``test``, or where there is one split only, a test
set is drawn. Other splits are not read, but ``test=validation`` tests on that one.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from fedjax_fair.data.blocks import TEST, TRAIN, UNKNOWN
from fedjax_fair.data.sources.contents import Arrays, Encoded
from fedjax_fair.data.sources.tfds_store import open_prepared, tfds_library
from fedjax_fair.errors import DataError, UserError
from fedjax_fair.registry import register


@register.source('tfds', argument='NAME[/CONFIG][:VERSION]', about='a data set of TensorFlow Datasets, prepared before')
def read_tfds(
    name: str,
    data_dir: Annotated[str, 'folder of TensorFlow Datasets'] = '',
    image: Annotated[str, 'feature of images'] = '',
    label: Annotated[str, 'feature of classes'] = '',
    site: Annotated[str, 'feature of sites'] = '',
    patient: Annotated[str, 'feature of patients'] = '',
    mask: Annotated[str, 'feature of masks'] = '',
    test: Annotated[str, 'split to test on'] = '',
) -> Encoded:
    """A set prepared in ``data_dir``; ``image`` to ``mask`` name features, ``test`` the split to test on."""
    builder = open_prepared(name, data_dir)
    features = _flat(builder.info.features)
    named = {'image': image, 'label': label, 'site': site, 'patient': patient, 'mask': mask}
    roles = _complete({role: feature for role, feature in named.items() if feature}, features)
    splits = _splits([s for s, info in builder.info.splits.items() if info.num_examples], test, name)

    def decode(image_size: int | None) -> Arrays:
        from fedjax_fair.data.sources.tfds_records import decode_splits  # an image library, for those who need it

        return decode_splits(name, builder, {role: (f, features[f]) for role, f in roles.items()}, splits, image_size)

    folder = pathlib.Path(builder.data_dir)
    settings = f'tfds {sorted(roles.items())} of {splits}'
    return Encoded(folder, sorted(path.name for path in folder.iterdir()), settings, decode)


def _flat(features: Any, prefix: str = '') -> dict[str, Any]:
    """Features by path, those of dictionaries inside dictionaries too."""
    if not isinstance(features, tfds_library().features.FeaturesDict):
        return {prefix: features}
    inside = (_flat(feature, f'{prefix}/{name}' if prefix else name) for name, feature in sorted(features.items()))
    return {path: feature for flat in inside for path, feature in flat.items()}


# --- features --------------------------------------------------------------------------------------------------------


def _is_image(feature: Any) -> bool:
    kinds = (tfds_library().features.Image, tfds_library().features.Tensor)
    return isinstance(feature, kinds) and len(feature.shape) == 3 and feature.np_dtype == np.uint8


def _is_mask(feature: Any) -> bool:
    return _is_image(feature) and feature.shape[-1] == 1


def _is_label(feature: Any) -> bool:
    if not isinstance(feature, tfds_library().features.Tensor) or len(feature.shape) > 1 or None in feature.shape:
        return False
    return np.issubdtype(feature.np_dtype, np.integer) or feature.np_dtype == np.bool_


def _is_name(feature: Any) -> bool:
    return isinstance(feature, tfds_library().features.Tensor) and feature.shape == ()


FITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    'image': (_is_image, 'images of bytes [H, W, C]'),
    'mask': (_is_mask, 'images of bytes [H, W, 1]'),
    'label': (_is_label, 'classes, whole numbers, or vectors of zeros and ones'),
    'site': (_is_name, 'classes, texts or numbers'),
    'patient': (_is_name, 'classes, texts or numbers'),
}


def _complete(named: Mapping[str, str], features: Mapping[str, Any]) -> dict[str, str]:
    """The feature of each role: those that the user named, which must fit, and image and label where they did not."""
    for role, feature in named.items():
        fits, expected = FITS[role]
        if feature not in features or not fits(features[feature]):
            wrong = 'does not fit' if feature in features else 'no such feature'
            raise UserError(f'`source_options`={role}={feature}: {wrong}; {expected} are expected; {_listed(features)}')
    images = [f for f in features if _is_image(features[f]) and f != named.get('mask')]
    classes = [f for f in features if isinstance(features[f], tfds_library().features.ClassLabel)]
    by_role = {'image': named.get('image') or _only('image', images, features)}
    if 'label' in named or classes or 'mask' not in named:
        by_role['label'] = named.get('label') or _only('label', classes, features)
    return {**named, **by_role}


def _only(role: str, fitting: Sequence[str], features: Mapping[str, Any]) -> str:
    """The feature for a role that the user did not name."""
    if len(fitting) != 1 and role not in fitting:
        which = f'{" and ".join(fitting)} could be it' if fitting else 'it is not plain which it is'
        raise UserError(f'`source_options`={role}=FEATURE is needed: {which}; {_listed(features)}')
    return role if role in fitting else fitting[0]


def _listed(features: Mapping[str, Any]) -> str:
    kinds = ((path, ' '.join(repr(feature).split())) for path, feature in features.items())
    return 'features: ' + ', '.join(f'{path} = {kind}' for path, kind in kinds)


# --- splits ----------------------------------------------------------------------------------------------------------


def _splits(splits: Sequence[str], test: str, name: str) -> dict[str, int]:
    """What each split is for, of those that are read.

    >>> _splits(['train', 'test', 'validation'], '', 'a_set') == {'train': TRAIN, 'test': TEST}
    True
    """
    if test and (test not in splits or test == 'train'):
        others = ', '.join(split for split in splits if split != 'train') or 'none'
        raise UserError(f'`source_options`=test={test}: {name} has no such split besides train, but {others}')
    if len(splits) == 1:
        return {splits[0]: UNKNOWN}
    if 'train' not in splits:
        raise DataError(f'`scenario`=tfds:{name} has no split train, but {", ".join(splits) or "none"}')
    tested = test or ('test' if 'test' in splits else '')
    return {'train': TRAIN, tested: TEST} if tested else {'train': UNKNOWN}
