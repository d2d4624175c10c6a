"""Sources: data as its publisher ships it, or as a hospital keeps it, read into one pool of examples."""

from fedjax_fair.data.sources import (  # noqa: F401, I001  (in the order of lists)
    npz,
    folders,
    csv_table,
    masks,
    camelyon17,
    ssl_fl,
    ffl4mia,
    fed_isic2019,
    prostate,
    dicom,
    idx,
    svhn,
    usps,
    cifar,
    tfds,
    medmnist,
    domains,
)
from fedjax_fair.data.sources.contents import Arrays, Contents, Domains, Encoded, Files
from fedjax_fair.data.sources.reader import FLAGS, read_pool, source_flags, source_names
from fedjax_fair.registry import sources as SOURCES

__all__ = [
    'FLAGS',
    'SOURCES',
    'Arrays',
    'Contents',
    'Domains',
    'Encoded',
    'Files',
    'read_pool',
    'source_flags',
    'source_names',
]
