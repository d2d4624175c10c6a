"""Retina, COVID-FL and Derm in the layout of rui-yan/SSL-FL: ``ssl_fl:ROOT``.

ROOT holds ``labels.csv`` (file name, label), ``test.csv`` and ``<K>_clients/split_*/client_*.csv`` (one file name in a
line), all without a line of column names, and the images ``train/<file name>`` and ``test/<file name>``: pictures, or
``.npy`` arrays as those of Retina are. Clients are as published; ``test.csv`` tests all of them.

Reference: Yan et al., Label-Efficient Self-Supervised Federated Learning, IEEE TMI 2023.
"""

from __future__ import annotations

import pathlib
from typing import Annotated

import numpy as np

from fedjax_fair.data.blocks import EVERYONE, TEST, TRAIN
from fedjax_fair.data.paths import one_path
from fedjax_fair.data.sources.checks import numbers_below
from fedjax_fair.data.sources.contents import Files
from fedjax_fair.data.sources.text_table import read_table
from fedjax_fair.errors import DataError
from fedjax_fair.registry import register


@register.source(
    'ssl_fl', argument='ROOT', about='Retina, COVID-FL or Derm in the layout of SSL-FL, clients as published'
)
def read_ssl_fl(root: str, split: Annotated[str, 'partition, such as split_1 or 5_clients/split_1'] = '') -> Files:
    """The images of the clients of a ``split`` (split_1, or 5_clients/split_1; may be left out where it is alone)."""
    where = f'`scenario`=ssl_fl:{root}'
    folder = one_path(root, where)
    table = read_table(folder / 'labels.csv', where, header=False, root=folder)
    label_of = dict(zip(table['0'], numbers_below(table, '1').tolist(), strict=True))
    lists = [*_clients(_chosen(folder, split, where), where), folder / 'test.csv']
    images, labels, site = [], [], []
    for path in lists:
        phase, name = ('test', EVERYONE) if path is lists[-1] else ('train', path.stem)
        files = dict.fromkeys(read_table(path, where, header=False, root=folder)['0'])  # a file named twice counts once
        if unknown := [file for file in files if file not in label_of]:
            raise DataError(f'{where}: {path.name} names {unknown[0]!r}, which labels.csv does not')
        images += [f'{phase}/{file}' for file in files]
        labels += [label_of[file] for file in files]
        site += [name] * len(files)
    sites = np.array(site)
    return Files(folder, images, np.array(labels, np.int32), np.where(sites == EVERYONE, TEST, TRAIN), sites)


def _chosen(folder: pathlib.Path, split: str, where: str) -> pathlib.Path:
    splits = {path.relative_to(folder).as_posix(): path for path in sorted(folder.glob('*_clients/split_*'))}
    if not splits:
        raise DataError(f'{where}: no folder <K>_clients/split_*')
    matches = [path for name, path in splits.items() if split in ('', name, path.name)]
    if len(matches) != 1:
        wrong = '`source_options`=split=' + split if split else where
        raise DataError(f'{wrong}: choose with `source_options`=split=... one of {", ".join(splits)}')
    return matches[0]


def _clients(folder: pathlib.Path, where: str) -> list[pathlib.Path]:
    """The lists of all clients; client_2 comes before client_10."""
    paths = sorted(folder.glob('*.csv'), key=lambda path: (len(path.name), path.name))
    if not paths:
        raise DataError(f'{where}: no client_*.csv in {folder.parent.name}/{folder.name}')
    return paths
