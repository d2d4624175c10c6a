"""Sources: data as its publisher ships it, or as a hospital keeps it, read into one typed table of examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedjax_fair.data.options import pairs
from fedjax_fair.data.parts import merge
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.sources.camelyon17 import read_camelyon17
from fedjax_fair.data.sources.cifar import read_cifar10, read_cifar100
from fedjax_fair.data.sources.dicom import read_dicom
from fedjax_fair.data.sources.domains import join_domains, read_domains
from fedjax_fair.data.sources.fed_isic2019 import read_fed_isic2019
from fedjax_fair.data.sources.ffl4mia import read_ffl4mia
from fedjax_fair.data.sources.folders import read_folders
from fedjax_fair.data.sources.found import Arrays, Domains, Encoded, Files, Found
from fedjax_fair.data.sources.idx import read_idx
from fedjax_fair.data.sources.kept import decode_once
from fedjax_fair.data.sources.listed import read_csv
from fedjax_fair.data.sources.masks import read_masks
from fedjax_fair.data.sources.medmnist import read_medmnist
from fedjax_fair.data.sources.npz import read_npz
from fedjax_fair.data.sources.prostate import read_prostate
from fedjax_fair.data.sources.ssl_fl import read_ssl_fl
from fedjax_fair.data.sources.svhn import read_svhn, read_synth_digits
from fedjax_fair.data.sources.tfds import read_tfds
from fedjax_fair.data.sources.usps import read_usps

__all__ = ['SOURCES', 'Arrays', 'Domains', 'Encoded', 'Files', 'Found', 'Source', 'read_pool']


FLAGS = ('npz_keys', 'source_options')  # how options of a source are given


class Source(NamedTuple):
    """How to read a kind of data and one line about it.

    ``read(argument, **options)`` takes what stands behind ``KIND:``, and finds. Its keywords are the options it has;
    all but ``npz_keys``, a flag of its own, are given as ``--source_options=name=value,...``.
    """

    read: Callable[..., Found]
    description: str
    argument: str = 'PATH'

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(inspect.signature(self.read).parameters)[1:]

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that carry its options."""
        keys, others = FLAGS
        return (keys,) * (keys in self.options) + (others,) * bool(set(self.options) - {keys})


def read_arrays(kind: str, argument: str, options: Mapping[str, Any], image_size: int | None = None) -> Arrays:
    """What a source finds, its domains read and its image files decoded."""
    if kind not in SOURCES:
        raise ValueError(f'--scenario={kind}:{argument}: {kind!r} is not one of {", ".join(SOURCES)}')
    for name in options:
        if name not in SOURCES[kind].options:
            known = ', '.join(n for n in SOURCES[kind].options if n != 'npz_keys') or 'none'
            raise ValueError(f'--source_options={name}={options[name]}: {kind} has no such option, but {known}')
    if image_size is not None and image_size < 1:
        raise ValueError(f'--image_size must be at least 1, got {image_size}')
    found = SOURCES[kind].read(argument, **options)
    if isinstance(found, Arrays):
        return found
    if isinstance(found, Domains):
        return join_domains(found, lambda kind, path: read_arrays(kind, path, {}, image_size))
    if isinstance(found, Encoded):
        return decode_once(found, image_size)
    from fedjax_fair.data.sources.decode import decode  # an image library, for those who have image files

    return decode(found, image_size)


def read_pool(
    kind: str,
    argument: str,
    *,
    data_seed: int = 0,
    image_size: int | None = None,
    task: str | None = None,
    join_sites: bool = False,
    npz_keys: str | None = None,
    source_options: str | None = None,
) -> Pool:
    """The examples of a source as a table of one image shape.

    Images are fitted into squares of ``image_size`` (default: the most common size), grey ones repeated to RGB where
    both occur; uint8 and float images keep their values. ``data_seed`` draws the test set where the source has none,
    ``task`` says what is to be learned where it leaves a choice, ``join_sites`` makes one of the sites that are too
    small, see :func:`~fedjax_fair.data.parts.merge`.
    """
    options: dict[str, Any] = pairs(source_options, 'source_options')
    options |= {} if npz_keys is None else {'npz_keys': npz_keys}
    found = read_arrays(kind, argument, options, image_size)
    return merge(found.parts, found.class_names, image_size, data_seed, task, join_sites)


SOURCES: dict[str, Source] = {
    'npz': Source(read_npz, 'arrays of your own from .npz files', 'PATH[,PATH]'),
    'folders': Source(read_folders, 'image files in class folders, of one or several domains', 'ROOT'),
    'csv': Source(read_csv, 'image files listed in a csv or tsv file'),
    'masks': Source(read_masks, 'image files and masks of their pixels in two folders', 'ROOT'),
    'camelyon17': Source(read_camelyon17, 'Camelyon17-WILDS, tissue patches of five hospitals', 'ROOT'),
    'ssl_fl': Source(read_ssl_fl, 'Retina, COVID-FL or Derm in the layout of SSL-FL, clients as published', 'ROOT'),
    'ffl4mia': Source(read_ffl4mia, 'haemorrhages or skin lesions in the layout of FFL4MIA (FedISM)', 'ROOT'),
    'fed_isic2019': Source(read_fed_isic2019, 'Fed-ISIC2019 of FLamby, skin lesions of six centres', 'ROOT'),
    'prostate': Source(read_prostate, 'prostates in magnetic resonance, NIfTI volumes of hospitals', 'ROOT'),
    'dicom': Source(read_dicom, 'DICOM files in class folders, of one or several domains', 'ROOT'),
    'idx': Source(read_idx, 'MNIST, Fashion-MNIST, EMNIST and the like from a folder of IDX files', 'FOLDER'),
    'svhn': Source(read_svhn, 'SVHN, digits of house numbers, from its MATLAB files', 'FOLDER'),
    'synth_digits': Source(read_synth_digits, 'synthetic digits in MATLAB files like those of SVHN', 'FOLDER'),
    'usps': Source(read_usps, 'USPS, digits of letters, from its two LIBSVM files', 'FOLDER'),
    'cifar10': Source(read_cifar10, 'CIFAR-10 in its binary version, archive or folder'),
    'cifar100': Source(read_cifar100, 'CIFAR-100 in its binary version, archive or folder'),
    'tfds': Source(read_tfds, 'a data set of TensorFlow Datasets, prepared before', 'NAME[/CONFIG][:VERSION]'),
    'medmnist': Source(
        read_medmnist, 'MedMNIST, the sets of 2D images, with the names of their classes', 'PATH[,PATH]'
    ),
    'domains': Source(read_domains, 'several sources, each a domain', 'NAME=KIND:PATH[,...]'),
}
