"""Scenarios of digits, which need no download: four domains, and label skew on real handwriting."""

from __future__ import annotations

from fedjax_fair.data.assembly import federate
from fedjax_fair.data.declarations import PartitionFile, TestSize
from fedjax_fair.data.federation import Federation
from fedjax_fair.data.partition.schemes import clients_of_each
from fedjax_fair.data.partition.split import Split
from fedjax_fair.data.scenarios.digit_images import CLIENT_SIZES, DOMAINS, digit_domains, handwritten_digits
from fedjax_fair.errors import UserError
from fedjax_fair.registry import register

LABELS_CLIENTS, LABELS_TESTS = 100, 40  # clients of digits_labels, and test digits of each


@register.scenario(
    scheme='domain',
    about='digits in four looks (handwritten, printed, street, synthetic), clients of unequal size',
)
def digits_domains(split: Split, data_seed: int, test_size: TestSize = 200) -> Federation:
    """Four looks of digits: handwritten, printed, street numbers, noisy synthetic.

    There are 20 clients and one test set per domain. ``client_sizes`` are the training examples per client of each
    domain (default 60, 30, 90, 40), in this order.
    """
    sizes = tuple(split.options.get('client_sizes', CLIENT_SIZES))
    sizes = sizes * len(DOMAINS) if len(sizes) == 1 else sizes
    if len(sizes) != len(DOMAINS):
        raise UserError(
            f'`client_sizes`={",".join(map(str, sizes))}: needed is one size for each of {", ".join(DOMAINS)}, '
            'or one for all'
        )
    counts = (split.options.get(name) for name in ('num_clients', 'clients_per_domain'))
    per_domain = clients_of_each(len(DOMAINS), *counts)
    pool = digit_domains(tuple(per_domain * size for size in sizes), test_size, data_seed)
    options = {'clients_per_domain': per_domain, 'client_sizes': sizes}
    return federate(pool, 'digits_domains', split._replace(by='domain', options=options), data_seed)


@register.scenario(about='real handwritten digits with label skew, 100 clients of two classes (or Dirichlet) each')
def digits_labels(split: Split, data_seed: int, partition: PartitionFile | None = None) -> Federation:
    """Real handwritten digits over 100 clients of two classes each.

    Images are 28x28x1. With ``alpha`` the clients hold Dirichlet shares of the classes. Every client has a test set of
    about 40 digits in its own mix of classes; clients may share test digits, none of which is used for training.
    """
    by = split.by if split.by or 'alpha' in split.options else 'classes'
    split = split._replace(by=by, defaults={'num_clients': LABELS_CLIENTS})
    pool = handwritten_digits(data_seed)
    return federate(pool, 'digits_labels', split, data_seed, LABELS_TESTS, partition_file=partition)


@register.scenario(about='the digits of digits_labels, 10 clients, one test set for all')
def digits_common(split: Split, data_seed: int, partition: PartitionFile | None = None) -> Federation:
    """The digits of :func:`digits_labels` over 10 clients, iid or as asked, and one test set for all of them."""
    return federate(handwritten_digits(data_seed), 'digits_common', split, data_seed, partition_file=partition)
