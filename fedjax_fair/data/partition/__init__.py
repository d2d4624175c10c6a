"""Partitions: which client holds which examples.

Every function is pure: it takes an explicit seed and returns one array of example indices per client. No example is
given to two clients unless a docstring says so; each says whether all of them are used.
"""

from fedjax_fair.data.partition.label_skew import (
    capped_dirichlet,
    class_slots,
    cut_by_slots,
    dirichlet,
    fixed_slots,
    k_classes,
    matched_tests,
    tests_by_class,
    two_pools,
    whole_tests,
)
from fedjax_fair.data.partition.quantities import Clients, iid, quantity_skew, truncate
from fedjax_fair.data.partition.sites import by_domain, by_site, with_every_class

__all__ = [
    'Clients',
    'by_domain',
    'by_site',
    'capped_dirichlet',
    'class_slots',
    'cut_by_slots',
    'dirichlet',
    'fixed_slots',
    'iid',
    'k_classes',
    'matched_tests',
    'quantity_skew',
    'tests_by_class',
    'truncate',
    'two_pools',
    'whole_tests',
    'with_every_class',
]
