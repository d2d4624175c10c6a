"""Quality shift: some clients' images are worse than the others', and every model is tested on both qualities."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np

from fedjax_fair.data.assembly import assemble
from fedjax_fair.data.corruptions import CORRUPTIONS, corrupt_images, make_corruption
from fedjax_fair.data.declarations import (
    WHO,
    Alpha,
    Classes,
    ImageSize,
    NpzKeys,
    NumClients,
    PartitionFile,
    SourceOptions,
    Task,
    TestSize,
    TrainSize,
    given,
    refuse_unread,
)
from fedjax_fair.data.federation import Federation, Partition, stack_tests
from fedjax_fair.data.partition.dealing import check_none_is_empty
from fedjax_fair.data.partition.file import count_clients, read_partition
from fedjax_fair.data.partition.label_skew import two_pools
from fedjax_fair.data.partition.patients import patients_of
from fedjax_fair.data.pool import Pool, kept_tests, kept_training
from fedjax_fair.data.scenarios.digit_images import handwritten_digits
from fedjax_fair.data.scenarios.tissue_images import check_images, tissue_pool
from fedjax_fair.data.sources import read_pool, source_flags, source_names
from fedjax_fair.errors import UserError
from fedjax_fair.options import between, not_one_of, options_of
from fedjax_fair.registry import register, sources

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
    """One hospital's images: clients differ in their quality and their mix of classes, and in nothing else."""
    sizes = [TISSUE_PER_CLIENT * num_clients]
    check_images(sizes[0] + TISSUE_TESTS, image_size, f'`num_clients`={num_clients}')
    return tissue_pool(sizes, TISSUE_TESTS, image_size, classes, data_seed, shift=0)._replace(task=task)


BASES: dict[str, Callable[..., Pool]] = {
    'digits': _digits,
    'tissue': functools.partial(_tissue, 2),
    'tissue_grades': functools.partial(_tissue, 4),
}


@register.scenario(
    argument='BASE',
    about='some clients have noisy or blurred images; '
    'BASE is digits, tissue, tissue_grades or a source such as npz:PATH',
)
def quality_shift(
    base: str,
    data_seed: int,
    num_clients: NumClients = 20,
    alpha: Alpha = 1.0,
    corrupted_ratio: Annotated[float, 'share of clients whose images are corrupted', between(0, 1), WHO] = 0.2,
    corruption: Annotated[str, f'what spoils images: {", ".join(CORRUPTIONS)}'] = 'gaussian_noise',
    severity: Annotated[Literal[1, 2, 3, 4, 5], 'how strong the corruption is'] = 3,
    npz_keys: NpzKeys | None = None,
    source_options: SourceOptions | None = None,
    image_size: ImageSize | None = None,
    train_size: TrainSize | None = None,
    test_size: TestSize | None = None,
    task: Task | None = None,
    classes: Classes | None = None,
    partition: PartitionFile | None = None,
) -> Federation:
    """Images of a base (one of :data:`BASES`, or a source such as ``npz:PATH``), corrupted for the last clients.

    ``corrupted_ratio`` of the clients hold corrupted images, and the same share of every class
    (:func:`~fedjax_fair.data.partition.two_pools`); or clients hold what a ``partition`` in a file says. Every test
    example is tested twice, clean and corrupted; a client's own test set is that of its quality. Sites of the base are
    put together; all examples of a patient go to one client.

    Reference: Wu et al., From Optimization to Generalization, IJCAI 2024: 20 clients, alpha 1, Gaussian noise of
    severity 3. One draw of the corrupted images serves all seeds of a run, as there.
    """
    make_corruption(corruption, severity)
    own = {'npz_keys': npz_keys, 'source_options': source_options}
    reading = given({**own, 'image_size': image_size, 'task': task, 'classes': classes})
    read = _reader(base, reading)
    if partition:
        pool = read(data_seed, count_clients(partition))
        dealt = read_partition(partition, pool)
    else:
        worse = _corrupted_clients(corrupted_ratio, num_clients)
        pool = read(data_seed, num_clients)
        train, test = kept_training(pool, train_size, data_seed), kept_tests(pool, test_size, data_seed)
        dealt = _deal(pool, (train, test), num_clients, worse, alpha, data_seed)
    for what, names in (('groups', dealt.groups), ('test sets', dealt.test_names)):
        if names != QUALITIES:
            raise UserError(f'`partition`={partition}: its {what} are {names}; expected are {QUALITIES}')
    return _corrupted(pool, base, dealt, corruption, severity, data_seed)


def _corrupted_clients(ratio: float, num_clients: int) -> int:
    worse = round(ratio * num_clients)
    if not 0 < worse < num_clients:
        raise UserError(
            f'`corrupted_ratio`={ratio} gives {worse} of {num_clients} clients corrupted images; '
            'both qualities need at least one client'
        )
    return worse


def _deal(
    pool: Pool, kept: tuple[np.ndarray, np.ndarray], num_clients: int, worse: int, alpha: float, data_seed: int
) -> Partition:
    """Deal out the training and test examples that are ``kept``; the last ``worse`` clients are to be corrupted.

    Both qualities are tested on the same examples.
    """
    train, test = map(np.flatnonzero, kept)
    patients = patients_of(pool, train)
    with patients.counted():
        dealt = patients.examples(two_pools(patients.labels, num_clients, worse, alpha, data_seed))
    check_none_is_empty(dealt, f'`data_seed`={data_seed} `alpha`={alpha}')
    quality = (np.arange(num_clients) >= num_clients - worse).astype(np.int32)
    return Partition([train[client] for client in dealt], [test, test], quality, QUALITIES, QUALITIES, quality)


def _corrupted(pool: Pool, base: str, dealt: Partition, corruption: str, severity: int, data_seed: int) -> Federation:
    """The federation in which the images of corrupted clients, and of the corrupted test set, are corrupted."""
    x, quality = np.array(pool.x), np.asarray(dealt.group_of)
    theirs = np.concatenate([client for client, kind in zip(dealt.clients, quality, strict=True) if kind])
    x[theirs] = corrupt_images(x[theirs], corruption, severity, 2 * data_seed)
    clean, worse = dealt.tests
    seen = pool.x[clean], corrupt_images(pool.x[worse], corruption, severity, 2 * data_seed + 1)
    sets = [(images, pool.targets[rows]) for images, rows in zip(seen, dealt.tests, strict=True)]
    tests = stack_tests(sets, dealt.test_of, QUALITIES)
    name = 'quality_shift:' + ':'.join(pathlib.Path(part).stem for part in base.split(':'))
    about = f'{corruption} of severity {severity} at {int(quality.sum())} of {len(dealt.clients)} clients'
    return assemble(pool._replace(x=x), name, dealt, tests, about)


def _reader(base: str, options: dict[str, Any]) -> Callable[[int, int], Pool]:
    """A function of seed and number of clients that reads a base; an option that the base does not read is refused."""
    name, _, path = base.partition(':')
    where = f'`scenario`=quality_shift:{name}'
    if path and name in sources:
        refuse_unread(options, ('image_size', 'task', 'classes', *source_flags(name)), where)
        return lambda data_seed, num_clients: read_pool(name, path, data_seed=data_seed, **options)
    if path or name not in BASES:
        raise UserError(f'`scenario`=quality_shift:{base} {not_one_of(base, (*BASES, *source_names()))}')
    refuse_unread(options, options_of(BASES[name]), where)
    return functools.partial(BASES[name], **options)
