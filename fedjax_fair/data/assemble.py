"""From examples to a federation: choose a partition, check its options, cut the test sets."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from fedjax_fair.core.types import Tests
from fedjax_fair.data import partition
from fedjax_fair.data.clusters import Clusters, clusters_of
from fedjax_fair.data.federation import Federation, Partition, index_table, stack_tests
from fedjax_fair.data.partition import Clients
from fedjax_fair.data.pool import Pool, kept_tests
from fedjax_fair.data.written import fingerprint, read_partition


class Split(NamedTuple):
    """How examples are given to clients; None means the default, or 'not asked for'.

    ``by`` is one of :data:`SPLITS`. Without it the split follows the data and the other options: by site or domain
    where the examples have one, by classes where ``classes_per_client`` is given, Dirichlet where ``alpha`` is, else
    iid. ``client_sizes`` are the examples per client of each domain. ``truncate`` makes all clients equally large,
    ``every_class`` sees to it that clients of a domain hold all of its classes, ``test_size`` is the most test examples
    that are kept of every group.
    """

    by: str | None = None
    num_clients: int | None = None
    alpha: float | None = None
    classes_per_client: int | None = None
    clients_per_domain: int | None = None
    client_sizes: tuple[int, ...] | None = None
    truncate: bool = False
    every_class: bool = False
    test_size: int | None = None


# Which options each split reads, with their defaults; any other option is an error, never ignored.
SPLITS: dict[str, dict[str, Any]] = {
    'iid': {'num_clients': 10},
    'dirichlet': {'num_clients': 10, 'alpha': 0.5},
    'capped_dirichlet': {'num_clients': 10, 'alpha': 0.5},
    'classes': {'num_clients': 10, 'classes_per_client': 2},
    'quantity': {'num_clients': 10, 'alpha': 0.5},
    'power_law': {'num_clients': 10, 'alpha': 1.0},
    'domain': {'num_clients': None, 'clients_per_domain': None, 'client_sizes': None},
    'site': {},
}
GROUPED = ('domain', 'site')
NEEDED = 'every site or domain needs one'
JOINING = '(--join_sites makes one of all those that lack them)'


def federate(
    pool: Pool,
    name: str,
    split: Split,
    seed: int = 0,
    own_tests: int | None = None,
    description: str = '',
    partition_file: str | None = None,
) -> Federation:
    """The federation of a split of the examples, or of the partition that a file holds."""
    if partition_file:
        dealt = read_partition(partition_file, pool, shared=bool(split.every_class))
    else:
        dealt = deal(pool, name, split, seed, own_tests)
    sets = [(pool.x[rows], pool.targets[rows]) for rows in dealt.tests]
    tests = stack_tests(sets, dealt.test_of, dealt.test_names)
    made = assemble(name, pool, dealt.clients, tests, pool.num_classes, dealt.groups, dealt.group_of, description)
    return with_partition(made, dealt, pool)


def with_partition(made: Federation, dealt: Partition, pool: Pool) -> Federation:
    """The federation together with how the examples of a pool were dealt out for it."""
    return dataclasses.replace(made, partition=dealt._replace(examples=len(pool.y), examples_sha256=fingerprint(pool)))


def deal(pool: Pool, name: str, split: Split, seed: int = 0, own_tests: int | None = None) -> Partition:
    """Give the training examples to clients and cut the test sets.

    Clients of a domain or site share that group's test set, or all clients one that belongs to no group. Otherwise
    ``own_tests`` gives each client a test set of about that size with its own mix of classes; a split by classes cuts
    the test set like the training set; every other split shares one test set, 'test'. Examples of one slide or patient
    go to one client, see :mod:`fedjax_fair.data.clusters`, unless sites or domains divide them.
    """
    split = resolve(split, pool)
    train, test = np.flatnonzero(~pool.held_out), np.flatnonzero(kept_tests(pool, split.test_size, seed))
    if not len(test) or not len(train):
        raise ValueError(f'--scenario={name}: {len(train)} training and {len(test)} test examples; both are needed')
    dealt, own = _cut(pool, train, test[:0] if own_tests else test, split, seed)
    dealt = partition.truncate(dealt, seed) if split.truncate else dealt
    check_none_is_empty(dealt, f'--split_by={split.by}')
    clients = [train[client] for client in dealt]
    if split.by in GROUPED:
        group_of = np.array([pool.origin[client[0]] for client in clients], np.int32)
        if (pool.origin[test] < 0).all():
            _check_trained(pool.groups, group_of, f'--scenario={name}')  # which --join_sites could not mend
            return _client_tests(clients, test, None)._replace(groups=pool.groups, group_of=group_of)
        tests = _group_tests(pool, test, group_of, name)
        return Partition(clients, tests, group_of, pool.groups, pool.groups, group_of)
    if own_tests:
        own = partition.matched_tests(pool.strata[train], dealt, pool.strata[test], own_tests, seed)
    return _client_tests(clients, test, own)


def check_none_is_empty(clients: Clients, who: str) -> None:
    """Every client needs examples; ``who`` names the option that dealt them out."""
    if empty := [n for n, client in enumerate(clients) if not len(client)]:
        raise ValueError(f'{who} leaves clients {empty[:5]} of {len(clients)} without examples')


def assemble(
    name: str,
    train: Pool,
    clients: Clients,
    tests: Tests,
    num_classes: int,
    groups: tuple[str, ...] = (),
    group_of: np.ndarray | None = None,
    description: str = '',
) -> Federation:
    """The federation in which each client holds these training examples."""
    used, table, sizes = _compact(clients, len(train.y))
    train = train.take(used)
    facts = (num_classes, groups, group_of, train.class_names, description, train.task)
    labels = None if train.targets is train.y else train.y
    return Federation(name, train.x, train.targets, table, sizes, tests, *facts, labels, cluster_of=train.cluster_of)


def _compact(clients: Clients, total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which examples any client holds, and the table and sizes of their places among those."""
    used = np.zeros(total, bool)
    used[np.concatenate(clients)] = True
    place = np.cumsum(used) - 1
    return used, *index_table([place[client] for client in clients])


def resolve(split: Split, pool: Pool) -> Split:
    """Choose the split where none is named, reject options it does not read, and fill in its defaults."""
    by = split.by or _natural(split, pool)
    if by not in SPLITS:
        raise ValueError(f'--split_by={by} is unknown; choose one of {", ".join(SPLITS)}')
    if by in GROUPED and pool.group_of is None:
        choices = ', '.join(s for s in SPLITS if s not in GROUPED)
        raise ValueError(f'--split_by={by}: these examples have no sites or domains; choose one of {choices}')
    reads = SPLITS[by]
    given = {field: value for field, value in split._asdict().items() if value is not None}
    for option in given:
        if option not in ('by', 'truncate', 'every_class', 'test_size', *reads):
            takes = ', '.join('--' + r for r in reads) or 'none'
            raise ValueError(f'--{option}={given[option]} does not apply to --split_by={by}, which reads {takes}')
    return split._replace(by=by, **{option: given.get(option, default) for option, default in reads.items()})


def _natural(split: Split, pool: Pool) -> str:
    if split.classes_per_client is not None:
        return 'classes'
    if split.alpha is not None:
        return 'dirichlet'
    if pool.group_of is None:
        return 'iid'
    wants_domains = (split.num_clients, split.clients_per_domain, split.client_sizes) != (None, None, None)
    return 'domain' if wants_domains else 'site'


def _cut(pool: Pool, train: np.ndarray, test: np.ndarray, split: Split, seed: int) -> tuple[Clients, Clients | None]:
    """Training examples per client and, for a split by classes, test examples per client, as places among them."""
    options: Any = split  # resolved: what this split reads is set
    whole, n, alpha = clusters_of(pool, train, within_groups=split.by in GROUPED), options.num_clients, options.alpha
    labels, count = whole.strata, len(whole.strata)
    cuts = {
        'iid': lambda: partition.iid(count, n, seed),
        'dirichlet': lambda: partition.dirichlet(labels, n, alpha, seed),
        'capped_dirichlet': lambda: partition.capped_dirichlet(labels, n, alpha, seed),
        'quantity': lambda: partition.quantity_skew(count, n, alpha, seed),
        'power_law': lambda: partition.quantity_skew(count, n, alpha, seed, law='power'),
        'domain': lambda: _by_domain(whole, len(pool.groups), split, seed),
        'site': lambda: partition.by_site(whole.origin),
    }
    with whole.counted():
        if split.by == 'classes':
            tested = clusters_of(pool, test)
            cut = partition.k_classes_with_test(labels, tested.strata, n, options.classes_per_client, seed)
            return whole.examples(cut[0]), tested.examples(cut[1])
        return whole.examples(cuts[options.by]()), None


def _by_domain(whole: Clusters, domains: int, split: Split, seed: int) -> Clients:
    sizes = split.client_sizes
    per_domain = clients_of_each(domains, split.num_clients, split.clients_per_domain)
    sizes = sizes * domains if sizes is not None and len(sizes) == 1 else sizes
    clients = partition.by_domain(whole.origin, per_domain, seed, sizes, whole.sizes)
    return partition.with_every_class(clients, whole.strata, whole.origin, seed) if split.every_class else clients


def clients_of_each(domains: int, num_clients: int | None, clients_per_domain: int | None) -> int:
    """Clients of each domain, from whichever of the two counts is given; 5 without either."""
    per_domain = clients_per_domain
    if per_domain is None:
        per_domain = 5 if num_clients is None else max(1, num_clients // domains)
    if per_domain < 1:
        raise ValueError(f'--clients_per_domain must be at least 1, got {per_domain}')
    if num_clients not in (None, per_domain * domains):
        raise ValueError(
            f'--num_clients={num_clients} is not {domains} domains times {per_domain} clients; '
            f'choose {per_domain * domains}, or set --clients_per_domain alone'
        )
    return per_domain


def _group_tests(pool: Pool, test: np.ndarray, group_of: np.ndarray, name: str) -> Clients:
    chosen = [test[pool.origin[test] == g] for g in range(len(pool.groups))]
    if missing := [pool.groups[g] for g, rows in enumerate(chosen) if not len(rows)]:
        raise ValueError(f'--scenario={name}: no test example for {", ".join(missing)}; {NEEDED} {JOINING}')
    _check_trained(pool.groups, group_of, f'--scenario={name}', f' {JOINING}')
    return chosen


def _check_trained(groups: tuple[str, ...], group_of: np.ndarray, who: str, advice: str = '') -> None:
    if missing := [group for g, group in enumerate(groups) if g not in group_of]:
        raise ValueError(f'{who}: no training example for {", ".join(missing)}; {NEEDED}{advice}')


def _client_tests(clients: Clients, test: np.ndarray, own: Clients | None) -> Partition:
    """Each client's own test set, or one set shared by all where ``own`` is None."""
    if own is None:
        return Partition(clients, [test], np.zeros(len(clients), np.int32), ('test',))
    if empty := [n for n, rows in enumerate(own) if not len(rows)]:
        raise ValueError(f'--scenario: no test example of the classes of clients {empty[:5]}; take more test examples')
    names = tuple(f'client {n}' for n in range(len(own)))
    return Partition(clients, [test[rows] for rows in own], np.arange(len(own), dtype=np.int32), names)
