"""Every source is a scenario: its examples, dealt out by a partition scheme or as a file says."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

from fedjax_fair.data.assembly import federate
from fedjax_fair.data.declarations import PartitionFile, TestSize
from fedjax_fair.data.federation import Federation
from fedjax_fair.data.partition.split import Split
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.sources import FLAGS, read_pool, source_flags
from fedjax_fair.options import options_of
from fedjax_fair.registry import Entry, sources


def scenario_of(kind: str) -> Entry:
    """The scenario ``KIND:PATH`` of a source."""
    source = sources.entry(kind)
    unread = {'data_seed', *FLAGS} - set(source_flags(kind))
    reading = {name: option for name, option in options_of(read_pool).items() if name not in unread}
    make = functools.partial(from_source, kind)
    return source._replace(make=make, options={**reading, **options_of(from_source)})


def from_source(
    kind: str,
    argument: str,
    split: Split,
    data_seed: int,
    test_size: TestSize | None = None,
    partition: PartitionFile | None = None,
    **reading: Any,
) -> Federation:
    """The examples of a source, read with these options of :func:`read_pool` and dealt out by a split.

    ``partition`` is a file that says who holds what instead, see :mod:`fedjax_fair.data.partition.file`.
    """
    pool = read_pool(kind, argument, data_seed=data_seed, **reading)
    name = federation_name(pool, kind, argument)
    about = f'data of {argument}'
    return federate(pool, name, split, data_seed, None, test_size, partition, about)


def federation_name(pool: Pool, kind: str, argument: str) -> str:
    """The kind and the names of files or domains, without their folders."""
    names = pool.sites if kind == 'domains' else [pathlib.Path(path).stem for path in argument.split(',')]
    return f'{kind}:' + '+'.join(names)
