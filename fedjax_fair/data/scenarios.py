"""Federations by name: the registry behind ``--scenario``."""

from __future__ import annotations

import functools
import inspect
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_fair.data.assemble import Split, clients_of_each, federate
from fedjax_fair.data.digits import CLIENT_SIZES, DOMAINS, digit_domains, handwritten_digits
from fedjax_fair.data.federation import Federation
from fedjax_fair.data.options import given, named_paths, refuse_unread
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.quality import quality_shift
from fedjax_fair.data.sources import FLAGS, SOURCES, read_pool
from fedjax_fair.data.tissue import tissue_pool
from fedjax_fair.data.toys import gaussian_toy

READING = (
    'data_seed',
    'npz_keys',
    'source_options',
    'image_size',
    'task',
    'corruption',
    'severity',
    'partition',
)  # what is not about who holds what
TISSUE_SIZES = (80, 60, 100, 50, 70, 40)  # training images per hospital


class Scenario(NamedTuple):
    """How to make a federation and one line about it.

    ``make(**options)`` reads exactly the options it names; where ``argument`` is set, a scenario is written
    ``name:argument`` and ``make`` takes the argument first.
    """

    make: Callable[..., Federation]
    description: str
    argument: str = ''
    flags: tuple[str, ...] = FLAGS  # those of a source's own options that it has

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options that it reads."""
        names = tuple(inspect.signature(self.make).parameters)[bool(self.argument) :]
        return tuple(name for name in names if name in self.flags or name not in FLAGS)


def digits_domains(
    data_seed: int = 0,
    num_clients: int | None = None,
    clients_per_domain: int | None = None,
    client_sizes: Sequence[int] | None = None,
    test_size: int = 200,
    truncate: bool = False,
) -> Federation:
    """Four looks of digits, 20 clients: handwritten, printed, street numbers, noisy synthetic; one test set per domain.

    ``client_sizes`` are the training examples per client of each domain (default 60, 30, 90, 40), in this order.
    """
    sizes = tuple(client_sizes or CLIENT_SIZES)
    sizes = sizes * len(DOMAINS) if len(sizes) == 1 else sizes
    if len(sizes) != len(DOMAINS) or min(sizes) < 1 or test_size < 1:
        raise ValueError(
            f'--client_sizes={",".join(map(str, sizes))} --test_size={test_size}: needed are one positive size for '
            f'each of {", ".join(DOMAINS)} (or one for all) and a positive test size'
        )
    per_domain = clients_of_each(len(DOMAINS), num_clients, clients_per_domain)
    split = Split('domain', clients_per_domain=per_domain, client_sizes=sizes, truncate=truncate)
    pool = digit_domains(tuple(per_domain * s for s in sizes), test_size, data_seed)
    return federate(pool, 'digits_domains', split, data_seed, description=SCENARIOS['digits_domains'].description)


def digits_labels(
    data_seed: int = 0,
    num_clients: int | None = None,
    split_by: str | None = None,
    alpha: float | None = None,
    classes_per_client: int | None = None,
    truncate: bool = False,
    partition: str | None = None,
) -> Federation:
    """Real handwritten digits, 28x28x1, over 100 clients of two classes each (or ``alpha``: Dirichlet shares).

    Every client has a test set of about 40 digits in its own mix of classes; clients may share test digits, none of
    which is used for training.
    """
    if split_by is None and alpha is None:
        split_by = 'classes'
    split = Split(split_by, 100 if num_clients is None else num_clients, alpha, classes_per_client, truncate=truncate)
    description = SCENARIOS['digits_labels'].description
    return federate(handwritten_digits(data_seed), 'digits_labels', split, data_seed, 40, description, partition)


def digits_common(
    data_seed: int = 0,
    num_clients: int | None = None,
    split_by: str | None = None,
    alpha: float | None = None,
    classes_per_client: int | None = None,
    truncate: bool = False,
    partition: str | None = None,
) -> Federation:
    """The digits of :func:`digits_labels` over 10 clients, iid or as asked, and one test set for all of them."""
    split = Split(split_by, num_clients, alpha, classes_per_client, truncate=truncate)
    description = SCENARIOS['digits_common'].description
    return federate(handwritten_digits(data_seed), 'digits_common', split, data_seed, None, description, partition)


def tissue(
    name: str,
    classes: int,
    data_seed: int = 0,
    num_clients: int | None = None,
    client_sizes: Sequence[int] | None = None,
    test_size: int = 60,
    image_size: int = 64,
    shift: float = 1.0,
    task: str = 'classification',
    truncate: bool = False,
) -> Federation:
    """Stained tissue of hospitals that stain and scan differently, one client each; see :mod:`fedjax_fair.data.tissue`.

    ``client_sizes`` are the training images per hospital (default 80, 60, 100, 50, 70, 40, and so on in turn);
    ``shift`` is how far hospitals differ, from 0 (all alike) to 1; ``task='segmentation'`` learns the nuclei, else the
    class of the whole image.
    """
    sizes = tuple(client_sizes or TISSUE_SIZES)
    hospitals = num_clients or (len(sizes) if len(sizes) > 1 else len(TISSUE_SIZES))
    if client_sizes is not None and len(sizes) not in (1, hospitals):
        raise ValueError(
            f'--client_sizes={",".join(map(str, sizes))} must be one size or {hospitals}, one per hospital'
        )
    if image_size < 16:
        raise ValueError(f'--image_size={image_size} must be at least 16')
    if not 0 <= shift <= 1:
        raise ValueError(f'--shift={shift} must be between 0 (hospitals look alike) and 1')
    if task not in ('classification', 'segmentation'):
        raise ValueError(f'--task={task} is not one of classification, segmentation')
    each = [sizes[h % len(sizes)] for h in range(hospitals)]
    pool = tissue_pool(each, test_size, image_size, classes, data_seed, shift)._replace(task=task)
    return federate(pool, name, Split('site', truncate=truncate), data_seed, description=SCENARIOS[name].description)


def from_source(
    kind: str,
    argument: str,
    data_seed: int = 0,
    npz_keys: str | None = None,
    source_options: str | None = None,
    image_size: int | None = None,
    task: str | None = None,
    test_size: int | None = None,
    split_by: str | None = None,
    num_clients: int | None = None,
    alpha: float | None = None,
    classes_per_client: int | None = None,
    clients_per_domain: int | None = None,
    client_sizes: Sequence[int] | None = None,
    truncate: bool = False,
    join_sites: bool = False,
    partition: str | None = None,
) -> Federation:
    """Data of one's own or of a publisher: see :mod:`fedjax_fair.data.sources`, and :class:`Split` for the partition.

    Without ``split_by`` data with sites or domains gives one client per site, or ``clients_per_domain`` clients of
    each where that (or ``num_clients`` or ``client_sizes``) is given; data without gives 10 clients, iid. With
    ``join_sites`` sites that cannot be both trained on and tested are one, 'other'. ``partition`` is a file that says
    who holds what instead, see :mod:`fedjax_fair.data.written`.
    """
    how: Any = {'npz_keys': npz_keys, 'source_options': source_options, 'task': task, 'join_sites': join_sites}
    pool = read_pool(kind, argument, data_seed=data_seed, image_size=image_size, **how)
    sizes = None if client_sizes is None else tuple(client_sizes)
    split = Split(
        split_by, num_clients, alpha, classes_per_client, clients_per_domain, sizes, truncate, test_size=test_size
    )
    return _of_files(pool, kind, argument, split, data_seed, partition)


def office_caltech(
    paths: str,
    data_seed: int = 0,
    npz_keys: str | None = None,
    image_size: int | None = None,
    clients_per_domain: int | None = None,
    client_sizes: Sequence[int] | None = None,
    partition: str | None = None,
) -> Federation:
    """Domains in the way of FedHEAL's Office-Caltech-10: images in the order of class and file name.

    ``paths`` are npz files, one for each domain, or the folder of images ``<domain>/<class>/<file>``. Of ten images in
    that order the first eight are for training, whatever the files say. Each of five clients per domain holds a tenth
    of its domain's training images (or ``client_sizes``), at least one of every class.
    """
    kind = 'folders' if any(map(os.path.isdir, named_paths(paths))) else 'npz'
    refuse_unread(given({'npz_keys': npz_keys}), SOURCES[kind].options, f'--scenario=office_caltech:{paths}')
    pool = read_pool(kind, paths, npz_keys=npz_keys, image_size=image_size, data_seed=data_seed)
    if pool.cluster_of is not None:
        raise ValueError(
            f'--scenario=office_caltech:{paths}: this split would divide groups (slides, patients) of examples; '
            '--npz_keys=group:- leaves them unread'
        )
    place = np.zeros(len(pool.y), int)
    for group, name in enumerate(pool.groups or (paths,)):
        own = pool.origin == group
        if (np.diff(pool.strata[own]) < 0).any():
            raise ValueError(f'--scenario=office_caltech: the labels of {name} must be sorted by class')
        place[own] = np.arange(own.sum())
    pool = pool._replace(held_out=place % 10 > 7)
    tenth = np.bincount(pool.origin[~pool.held_out]) // 10
    sizes = tuple(client_sizes or (int(size) for size in tenth))
    split = Split('domain', clients_per_domain=clients_per_domain, client_sizes=sizes, every_class=True)
    return _of_files(pool, 'office_caltech', paths, split, data_seed, partition)


def _of_files(pool: Pool, kind: str, paths: str, split: Split, seed: int, partition: str | None = None) -> Federation:
    names = pool.groups if kind == 'domains' else [pathlib.Path(path).stem for path in paths.split(',')]
    return federate(pool, f'{kind}:' + '+'.join(names), split, seed, None, f'data of {paths}', partition)


SCENARIOS: dict[str, Scenario] = {
    'digits_domains': Scenario(
        digits_domains, 'digits in four looks (handwritten, printed, street, synthetic), clients of unequal size'
    ),
    'digits_labels': Scenario(
        digits_labels, 'real handwritten digits with label skew, 100 clients of two classes (or Dirichlet) each'
    ),
    'gaussian_toy_1': Scenario(functools.partial(gaussian_toy, 1), 'two clients with different 2-D Gaussian classes'),
    'gaussian_toy_2': Scenario(functools.partial(gaussian_toy, 2), 'toy 1 with a common and a rare class'),
    'gaussian_toy_3': Scenario(functools.partial(gaussian_toy, 3), 'toy with a wide class, a rare one and outliers'),
    'digits_common': Scenario(digits_common, 'the digits of digits_labels, 10 clients, one test set for all'),
    'tissue': Scenario(
        functools.partial(tissue, 'tissue', 2),
        'stained tissue, normal or tumour, six hospitals that stain and scan differently',
    ),
    'tissue_grades': Scenario(
        functools.partial(tissue, 'tissue_grades', 4), 'tissue in four classes: normal and three grades'
    ),
    'quality_shift': Scenario(
        quality_shift,
        'some clients have noisy or blurred images; BASE is digits, tissue, tissue_grades or a source such as npz:PATH',
        'BASE',
    ),
    'office_caltech': Scenario(
        office_caltech,
        'domains in npz files or class folders, 8 of 10 images for training, small clients of all classes',
        'PATH[,PATH]',
    ),
    **{
        kind: Scenario(functools.partial(from_source, kind), source.description, source.argument, source.flags)
        for kind, source in SOURCES.items()
    },
}


def make_scenario(
    spec: str,
    *,
    num_clients: int | None = None,
    data_seed: int = 0,
    split_by: str | None = None,
    alpha: float | None = None,
    classes_per_client: int | None = None,
    clients_per_domain: int | None = None,
    client_sizes: Sequence[int] | None = None,
    npz_keys: str | None = None,
    source_options: str | None = None,
    image_size: int | None = None,
    shift: float | None = None,
    corrupted_ratio: float | None = None,
    corruption: str | None = None,
    severity: int | None = None,
    test_size: int | None = None,
    task: str | None = None,
    truncate: bool = False,
    join_sites: bool = False,
    partition: str | None = None,
) -> Federation:
    """The federation ``spec`` names: one of :data:`SCENARIOS`, with its argument where it takes one.

    None, False or an empty sequence leaves an option to the scenario; one the scenario does not read is an error.

    >>> make_scenario('gaussian_toy_1').num_clients
    2
    """
    options = dict(locals())
    chosen = given({name: value for name, value in options.items() if name != 'spec'})
    name, _, argument = spec.partition(':')
    if name not in SCENARIOS:
        raise ValueError(f'--scenario={spec} is unknown; choose one of {", ".join(scenario_names())}')
    scenario = SCENARIOS[name]
    if bool(argument) != bool(scenario.argument):
        written = f'{name}:{scenario.argument}' if scenario.argument else name
        raise ValueError(f'--scenario={spec} must be written {written}')
    refuse_unread(chosen, scenario.options, f'--scenario={name}')
    if partition is not None:
        refuse_unread(chosen, [o for o in READING if o in scenario.options], f'--partition={partition}')
    return scenario.make(*[argument] * bool(argument), **chosen)


def scenario_names() -> tuple[str, ...]:
    """The scenarios as they are written on the command line."""
    return tuple(f'{name}:{s.argument}' if s.argument else name for name, s in SCENARIOS.items())
