"""Quality shift: some clients' images are worse than the others', and every model is tested on both kinds."""

from __future__ import annotations

import functools
import inspect
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from fedjax_fair.data import partition as partitions
from fedjax_fair.data.assemble import assemble, check_none_is_empty, with_partition
from fedjax_fair.data.clusters import clusters_of
from fedjax_fair.data.corruptions import corrupt_images, make_corruption
from fedjax_fair.data.digits import handwritten_digits
from fedjax_fair.data.federation import Federation, Partition, stack_tests
from fedjax_fair.data.options import given, refuse_unread
from fedjax_fair.data.pool import Pool, kept_tests
from fedjax_fair.data.sources import SOURCES, read_pool
from fedjax_fair.data.tissue import tissue_pool
from fedjax_fair.data.written import count_clients, read_partition

QUALITIES = ('clean', 'corrupted')
TISSUE_PER_CLIENT, TISSUE_TESTS, TISSUE_SIDE = 60, 400, 32


def _digits(data_seed: int, num_clients: int) -> Pool:
    return handwritten_digits(data_seed)


def _tissue(
    classes: int,
    data_seed: int,
    num_clients: int,
    image_size: int = TISSUE_SIDE,
    task: str = 'classification',
) -> Pool:
    """One hospital's images: all that differs between clients is their quality and their mix of classes."""
    sizes = [TISSUE_PER_CLIENT * num_clients]
    return tissue_pool(sizes, TISSUE_TESTS, image_size, classes, data_seed, shift=0)._replace(task=task)


BASES: dict[str, Callable[..., Pool]] = {
    'digits': _digits,
    'tissue': functools.partial(_tissue, 2),
    'tissue_grades': functools.partial(_tissue, 4),
}


def quality_shift(
    base: str,
    data_seed: int = 0,
    num_clients: int = 20,
    alpha: float = 1.0,
    corrupted_ratio: float = 0.2,
    corruption: str = 'gaussian_noise',
    severity: int = 3,
    npz_keys: str | None = None,
    source_options: str | None = None,
    image_size: int | None = None,
    test_size: int | None = None,
    task: str | None = None,
    partition: str | None = None,
) -> Federation:
    """Images of a base (one of :data:`BASES`, or a source such as ``npz:PATH``), corrupted for the last clients.

    ``corrupted_ratio`` of the clients hold corrupted images, and of every class the same part
    (:func:`~fedjax_fair.data.partition.two_pools`); or clients hold what a ``partition`` in a file says. The test set
    is there twice, clean and corrupted; a client's own is that of its quality. Sites of the base are put together;
    examples of one slide or patient go to one client.

    Reference: Wu et al., From Optimization to Generalization, IJCAI 2024: 20 clients, alpha 1, Gaussian noise of
    severity 3. One draw of the corrupted images serves all seeds of a run, as there.
    """
    make_corruption(corruption, severity)
    num_clients = count_clients(partition) if partition else num_clients
    worse = round(corrupted_ratio * num_clients)
    if not partition and not 0 < worse < num_clients:
        raise ValueError(
            f'--corrupted_ratio={corrupted_ratio} gives {worse} of {num_clients} clients corrupted images; '
            'both kinds need a client at least'
        )
    how = {'npz_keys': npz_keys, 'source_options': source_options, 'image_size': image_size, 'task': task}
    pool = _source(base, given(how))(data_seed, num_clients)
    if partition:
        dealt = read_partition(partition, pool)
    else:
        dealt = _deal(pool, num_clients, worse, alpha, data_seed, test_size)
    for what, names in (('groups', dealt.groups), ('test sets', dealt.test_names)):
        if names != QUALITIES:
            raise ValueError(f'--partition={partition}: its {what} are {names}; expected are {QUALITIES}')
    x, quality = np.array(pool.x), np.asarray(dealt.group_of)
    theirs = np.concatenate([client for client, kind in zip(dealt.clients, quality, strict=True) if kind])
    x[theirs] = corrupt_images(x[theirs], corruption, severity, 2 * data_seed)
    clear, blurred = dealt.tests
    seen = pool.x[clear], corrupt_images(pool.x[blurred], corruption, severity, 2 * data_seed + 1)
    sets = [(images, pool.targets[rows]) for images, rows in zip(seen, dealt.tests, strict=True)]
    tests = stack_tests(sets, dealt.test_of, QUALITIES)
    name = 'quality_shift:' + ':'.join(pathlib.Path(part).stem for part in base.split(':'))
    description = f'{corruption} of severity {severity} at {int(quality.sum())} of {num_clients} clients'
    made = assemble(name, pool._replace(x=x), dealt.clients, tests, pool.num_classes, QUALITIES, quality, description)
    return with_partition(made, dealt, pool)


def _deal(pool: Pool, num_clients: int, worse: int, alpha: float, data_seed: int, test_size: int | None) -> Partition:
    """The last ``worse`` clients are to hold corrupted images; both kinds are tested on the same examples."""
    train, test = np.flatnonzero(~pool.held_out), np.flatnonzero(kept_tests(pool, test_size, data_seed))
    whole = clusters_of(pool, train)
    with whole.counted():
        dealt = whole.examples(partitions.two_pools(whole.strata, num_clients, worse, alpha, data_seed))
    check_none_is_empty(dealt, f'--data_seed={data_seed} --alpha={alpha}')
    quality = (np.arange(num_clients) >= num_clients - worse).astype(np.int32)
    return Partition([train[client] for client in dealt], [test, test], quality, QUALITIES, QUALITIES, quality)


def _source(base: str, options: dict[str, Any]) -> Callable[[int, int], Pool]:
    """What makes the examples of a base; an option it does not read is refused."""
    name, _, path = base.partition(':')
    where = f'--scenario=quality_shift:{name}'
    if path and name in SOURCES:
        refuse_unread(options, ('image_size', 'task', *SOURCES[name].flags), where)
        return lambda data_seed, num_clients: read_pool(name, path, data_seed=data_seed, **options)
    if path or name not in BASES:
        choices = ', '.join((*BASES, *(f'{kind}:{source.argument}' for kind, source in SOURCES.items())))
        raise ValueError(f'--scenario=quality_shift:{base} is unknown; choose one of {choices}')
    refuse_unread(options, tuple(inspect.signature(BASES[name]).parameters)[2:], where)
    return functools.partial(BASES[name], **options)
