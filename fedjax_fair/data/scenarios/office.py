"""The protocol of FedHEAL for Office-Caltech-10, on files of one's own."""

from __future__ import annotations

import os

import numpy as np

from fedjax_fair.data.assembly import assemble
from fedjax_fair.data.declarations import (
    ClientSizes,
    ClientsPerDomain,
    ImageSize,
    NpzKeys,
    PartitionFile,
    given,
)
from fedjax_fair.data.federation import Federation, Partition
from fedjax_fair.data.partition.dealing import deal
from fedjax_fair.data.partition.file import read_partition
from fedjax_fair.data.partition.sites import with_every_class
from fedjax_fair.data.partition.split import Split
from fedjax_fair.data.paths import named_paths
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.scenarios.from_source import federation_name
from fedjax_fair.data.sources import read_pool
from fedjax_fair.errors import UserError
from fedjax_fair.registry import register


@register.scenario(
    argument='PATH[,PATH]',
    about='domains in npz files or class folders, 8 of 10 images for training, small clients of all classes',
)
def office_caltech(
    paths: str,
    data_seed: int,
    npz_keys: NpzKeys | None = None,
    image_size: ImageSize | None = None,
    clients_per_domain: ClientsPerDomain | None = None,
    client_sizes: ClientSizes | None = None,
    partition: PartitionFile | None = None,
) -> Federation:
    """Domains in the way of FedHEAL's Office-Caltech-10.

    ``paths`` are npz files, one for each domain, or the folder of images ``<domain>/<class>/<file>``. Images are in the
    order of class and file name; of ten images in that order the first eight are for training, whatever the files say.
    Each of five clients per domain holds a tenth of its domain's training images (or ``client_sizes``), at least one of
    every class.
    """
    kind = 'folders' if any(map(os.path.isdir, named_paths(paths))) else 'npz'
    if npz_keys is not None and kind == 'folders':
        raise UserError(
            f'`npz_keys`={npz_keys} does not apply to `scenario`=office_caltech:{paths}, a folder of images'
        )
    pool = _ordered(read_pool(kind, paths, npz_keys=npz_keys, image_size=image_size, data_seed=data_seed), paths)
    name = federation_name(pool, 'office_caltech', paths)
    if partition:
        dealt = read_partition(partition, pool, shared=True)
    else:
        tenth = np.bincount(pool.site_index[~pool.held_out]) // 10
        options = {'clients_per_domain': clients_per_domain, 'client_sizes': client_sizes or tuple(tenth.tolist())}
        dealt = _deal(pool, name, Split('domain', given(options)), data_seed)
    return assemble(pool, name, dealt, description=f'data of {paths}')


def _ordered(pool: Pool, paths: str) -> Pool:
    """The pool with the first eight of ten images for training."""
    if pool.patient_of is not None:
        raise UserError(
            f'`scenario`=office_caltech:{paths}: this split would divide patients; '
            '`npz_keys`=patient:- leaves them unread'
        )
    place = np.zeros(len(pool.y), int)
    for site, name in enumerate(pool.sites or (paths,)):
        own = pool.site_index == site
        if (np.diff(pool.strata[own]) < 0).any():
            raise UserError(f'`scenario`=office_caltech: the labels of {name} must be sorted by class')
        place[own] = np.arange(own.sum())
    return pool._replace(held_out=place % 10 > 7)


def _deal(pool: Pool, name: str, split: Split, seed: int) -> Partition:
    """A split by domain after which every client gets the classes that it lacks."""
    dealt = deal(pool, name, split, seed)
    train = np.flatnonzero(~pool.held_out)
    places = [np.searchsorted(train, client) for client in dealt.clients]
    clients = with_every_class(places, pool.strata[train], pool.site_index[train], seed)
    return dealt._replace(clients=[train[client] for client in clients])
