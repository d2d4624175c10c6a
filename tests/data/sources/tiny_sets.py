"""Small data sets of TensorFlow Datasets, made without a network; importing this module registers them by name."""

import io
import itertools

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

SITES = ('north', 'south', 'east')
MODES = ('RGB', 'L', 'P', 'RGBA', 'LA', '1')


def tile(key):
    return np.random.default_rng(key).integers(0, 256, (8, 8, 3), dtype=np.uint8)


def photo(key):
    """Most are 6 high and 5 wide; every third is larger."""
    shape = (9, 7, 3) if key % 3 == 2 else (6, 5, 3)
    pixels = np.random.default_rng(key).integers(0, 256, shape, dtype=np.uint8)
    return Image.fromarray(pixels).convert(MODES[key % len(MODES)])


def classes_of_pixels(key):
    """A mask of the classes 0, 1, 2, in a palette of other colours."""
    width, height = photo(key).size
    mask = Image.fromarray(np.random.default_rng(key).integers(0, 3, (height, width), dtype=np.uint8)).convert('P')
    mask.putpalette([200, 10, 10, 10, 200, 10, 10, 10, 200])
    return mask


def png(image):
    file = io.BytesIO()
    image.save(file, 'png')
    return file.getvalue()


class Tiny(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A set of the ``features()`` and ``example(key)`` of the class; keys go on from split to split."""

    VERSION = tfds.core.Version('1.0.0')
    SPLITS = (('train', 12),)

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(self.features()))

    def _split_generators(self, dl_manager):
        keys = itertools.count()
        return {split: self._generate_examples([next(keys) for _ in range(count)]) for split, count in self.SPLITS}

    def _generate_examples(self, keys):
        for key in keys:
            yield key, self.example(key)


class TinyTiles(Tiny):
    """Arrays of bytes in three splits."""

    SPLITS = (('train', 12), ('test', 5), ('validation', 4))

    def features(self):
        return {
            'image': tfds.features.Tensor(shape=(8, 8, 3), dtype=np.uint8),
            'label': tfds.features.ClassLabel(names=['cat', 'dog', 'owl']),
            'hospital': tfds.features.Text(),
            'patient': np.int64,
        }

    def example(self, key):
        return {'image': tile(key), 'label': key % 3, 'hospital': SITES[key % 2], 'patient': key}


class TinyPhotos(Tiny):
    """Encoded images of many modes and two sizes, in one split."""

    SPLITS = (('train', 18),)

    def features(self):
        return {
            'image': tfds.features.Image(),
            'classes_of_pixels': tfds.features.Image(shape=(None, None, 1)),
            'label': tfds.features.ClassLabel(num_classes=2),
            'place': tfds.features.ClassLabel(names=SITES),
            'attributes': {'smiling': np.bool_, 'marks': tfds.features.Tensor(shape=(4,), dtype=np.int64)},
            'words': tfds.features.Sequence(tfds.features.Text()),
            'height': np.float32,
            'patient': np.int64,
        }

    def example(self, key):
        return {
            'image': png(photo(key)),
            'classes_of_pixels': png(classes_of_pixels(key)),
            'label': key % 2,
            'place': key % 3,
            'attributes': {'smiling': key % 3 == 0, 'marks': [key % 2, 1, 0, 1]},
            'words': ['a'] * (key % 3),
            'height': 1.5,
            'patient': key,
        }


class TinyConfigs(Tiny):
    """Two sets of one kind, without classes and without a split 'test'."""

    BUILDER_CONFIGS = tuple(tfds.core.BuilderConfig(name=name, version=Tiny.VERSION) for name in ('one', 'two'))
    SPLITS = (('train', 6), ('validation', 3))

    def features(self):
        return {
            'left': tfds.features.Tensor(shape=(8, 8, 3), dtype=np.uint8),
            'right': tfds.features.Tensor(shape=(8, 8, 1), dtype=np.uint8),
            'number': np.int64,
        }

    def example(self, key):
        painted = np.uint8(255) * (tile(key)[..., :1] > 99)
        return {'left': tile(key), 'right': painted, 'number': -1 if key == 4 else key % 2}


class TinyBroken(Tiny):
    """An image that is none."""

    def features(self):
        return {'image': tfds.features.Image(), 'label': tfds.features.ClassLabel(num_classes=2)}

    def example(self, key):
        return {'image': png(photo(key))[: 40 if key == 7 else None], 'label': key % 2}


class TinyNeedy(TinyBroken):
    """A set whose code needs a package that nobody has."""

    def example(self, key):
        import package_that_nobody_has  # noqa: F401
