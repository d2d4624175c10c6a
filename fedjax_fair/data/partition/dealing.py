"""Dealing: training examples to clients by a split, and test sets that fit them."""

from __future__ import annotations

import numpy as np

from fedjax_fair.data.federation import Partition
from fedjax_fair.data.partition.label_skew import matched_tests, tests_by_class, whole_tests
from fedjax_fair.data.partition.patients import patients_of
from fedjax_fair.data.partition.quantities import Clients, truncate
from fedjax_fair.data.partition.split import Scheme, Split
from fedjax_fair.data.pool import Pool, kept_tests
from fedjax_fair.errors import UserError

NEEDED = 'every site or domain needs one'
JOINING = "(`join_sites` merges such sites into one client, 'other')"


def deal(
    pool: Pool,
    name: str,
    split: Split,
    seed: int = 0,
    own_tests: int | None = None,
    test_size: int | None = None,
) -> Partition:
    """Give the training examples to clients and cut the test sets; ``name`` is the scenario's, for error messages.

    Where each client holds examples of one site, it is tested on the test set of that site, or all clients on one test
    set that belongs to no site. Otherwise a split with whole tests tests each client on all test examples of its
    classes; ``own_tests`` gives each client a test set of about that size with its own mix of classes; a split by
    classes cuts the test set like the training set; every other split shares one test set, 'test'. At most
    ``test_size`` test examples of every site are kept.

    All examples of a patient go to one client, unless clients are those of sites and the patient has several.
    """
    scheme = split.scheme(pool)
    train, test = np.flatnonzero(~pool.held_out), np.flatnonzero(kept_tests(pool, test_size, seed))
    if not len(test) or not len(train):
        raise UserError(f'`scenario`={name}: {len(train)} training and {len(test)} test examples; both are needed')
    if split.whole_tests and scheme.by_site:
        raise UserError(
            f'`whole_tests`=True does not apply to `split_by`={scheme.name}: clients have tests of their site'
        )
    cut = test[:0] if own_tests or split.whole_tests else test
    dealt, own = _deal_patients(pool, train, cut, scheme, seed)
    dealt = truncate(dealt, seed) if split.truncate else dealt
    check_none_is_empty(dealt, f'`split_by`={scheme.name}')
    clients = [train[client] for client in dealt]
    how = {'split_by': scheme.name, **{option: value for option, value in scheme.options.items() if value is not None}}
    if scheme.by_site:
        return _of_sites(pool, clients, test, name)._replace(split=how, tests_drawn=pool.tests_drawn)
    if split.whole_tests:
        own = whole_tests(pool.strata[train], dealt, pool.strata[test])
    elif own_tests:
        own = matched_tests(pool.strata[train], dealt, pool.strata[test], own_tests, seed)
    return _of_clients(clients, test, own)._replace(split=how, tests_drawn=pool.tests_drawn)


def check_none_is_empty(clients: Clients, who: str) -> None:
    """Every client needs examples; ``who`` names the option that dealt them out."""
    if empty := [n for n, client in enumerate(clients) if not len(client)]:
        raise UserError(f'{who} leaves clients {empty[:5]} of {len(clients)} without examples')


def _deal_patients(
    pool: Pool, train: np.ndarray, test: np.ndarray, scheme: Scheme, seed: int
) -> tuple[Clients, Clients | None]:
    """Places in ``train`` of each client's examples and, where the scheme cuts the test set too, places in ``test``."""
    patients = patients_of(pool, train, within_sites=scheme.by_site)
    with patients.counted():
        clients = scheme.deal(patients, seed)
        if not scheme.tests_by_class:
            return patients.examples(clients), None
        tested = patients_of(pool, test)
        tests = tests_by_class(patients.labels, clients, tested.labels, seed)
        return patients.examples(clients), tested.examples(tests)


def _of_sites(pool: Pool, clients: Clients, test: np.ndarray, name: str) -> Partition:
    """Clients of one site each, with the test set of their site or one for all."""
    site_of = np.array([pool.site_index[client[0]] for client in clients], np.int32)
    if (pool.site_index[test] < 0).all():
        _check_trained(pool.sites, site_of, f'`scenario`={name}')  # joining sites would not help
        return _of_clients(clients, test, None)._replace(groups=pool.sites, group_of=site_of)
    tests = [test[pool.site_index[test] == s] for s in range(len(pool.sites))]
    if missing := [pool.sites[s] for s, rows in enumerate(tests) if not len(rows)]:
        raise UserError(f'`scenario`={name}: no test example for {", ".join(missing)}; {NEEDED} {JOINING}')
    _check_trained(pool.sites, site_of, f'`scenario`={name}', f' {JOINING}')
    return Partition(clients, tests, site_of, pool.sites, pool.sites, site_of)


def _check_trained(sites: tuple[str, ...], site_of: np.ndarray, who: str, advice: str = '') -> None:
    if missing := [site for s, site in enumerate(sites) if s not in site_of]:
        raise UserError(f'{who}: no training example for {", ".join(missing)}; {NEEDED}{advice}')


def _of_clients(clients: Clients, test: np.ndarray, own: Clients | None) -> Partition:
    """Each client's own test set, or one set shared by all where ``own`` is None."""
    if own is None:
        return Partition(clients, [test], np.zeros(len(clients), np.int32), ('test',))
    if empty := [n for n, rows in enumerate(own) if not len(rows)]:
        raise UserError(f'`scenario`: no test example of the classes of clients {empty[:5]}; take more test examples')
    names = tuple(f'client {n}' for n in range(len(own)))
    return Partition(clients, [test[rows] for rows in own], np.arange(len(own), dtype=np.int32), names)
