"""A split: the partition scheme that is asked for, and the options that are given for it."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import fedjax_fair.data.partition.schemes  # noqa: F401  (registers them)
from fedjax_fair.data.declarations import WHO, Truncate, WholeTests, merged, refuse_unread
from fedjax_fair.data.partition.patients import Patients
from fedjax_fair.data.partition.quantities import Clients
from fedjax_fair.data.pool import Pool
from fedjax_fair.errors import UserError
from fedjax_fair.options import Option, not_one_of, options_of, resolve
from fedjax_fair.registry import partitions


class Scheme(NamedTuple):
    """A partition scheme with its ``options`` filled in: ``deal(patients, seed)`` gives the patients of every client.

    ``by_site`` and ``tests_by_class`` are the notes of :mod:`~fedjax_fair.data.partition.schemes`.
    """

    name: str
    deal: Callable[[Patients, int], Clients]
    by_site: bool = False
    tests_by_class: bool = False
    options: Mapping[str, Any] = types.MappingProxyType({})


class Split(NamedTuple):
    """How examples are dealt to clients.

    ``by`` names a partition scheme and ``options`` are those that are given for it. Without ``by`` the scheme follows
    from the options and the data: classes where ``classes_per_client`` is given, dirichlet where ``alpha`` is, else
    iid for examples without sites; for examples with sites domain where a number of clients or their sizes are given,
    else site. ``truncate`` cuts all clients to the size of the smallest; with ``whole_tests`` every client is tested on
    all test examples of the classes it holds. ``defaults`` are a scenario's own defaults of options, for schemes that
    read them.
    """

    by: str | None = None
    options: Mapping[str, Any] = types.MappingProxyType({})
    truncate: bool = False
    whole_tests: bool = False
    defaults: Mapping[str, Any] = types.MappingProxyType({})

    def scheme(self, pool: Pool) -> Scheme:
        """The scheme that deals out these examples; an option that it does not read is an error."""
        by = self.by or self._natural(pool)
        if by not in partitions:
            raise UserError(f'`split_by`={by} {not_one_of(by, partitions)}')
        entry = partitions.entry(by)
        by_site = bool(entry.notes.get('by_site'))
        if by_site and pool.site_of is None:
            others = ', '.join(name for name in partitions if not partitions.entry(name).notes.get('by_site'))
            raise UserError(f'`split_by`={by}: these examples have no sites or domains; choose one of {others}')
        refuse_unread(self.options, entry.options, f'`split_by`={by}')
        defaults = {name: value for name, value in self.defaults.items() if name in entry.options}
        options = resolve(by, entry.options, {**defaults, **self.options})
        deal = functools.partial(entry.make, **options)
        return Scheme(by, deal, by_site, bool(entry.notes.get('tests_by_class')), options)

    def _natural(self, pool: Pool) -> str:
        if 'classes_per_client' in self.options:
            return 'classes'
        if 'alpha' in self.options:
            return 'dirichlet'
        if pool.site_of is None:
            return 'iid'
        return 'domain' if self.options else 'site'


def make_split(
    split_by: Annotated[str, 'partition scheme', WHO] | None = None,
    truncate: Truncate = False,
    whole_tests: WholeTests = False,
    **options: Any,
) -> Split:
    """A split from options as the command line names them."""
    return Split(split_by, options, truncate, whole_tests)


def _after(scheme: str) -> tuple[str, ...]:
    """The options of a split that change what a scheme has dealt; clients of one site have the tests of their site."""
    return ('truncate',) if partitions.entry(scheme).notes.get('by_site') else ('truncate', 'whole_tests')


def split_options(scheme: str | None = None) -> dict[str, Option]:
    """The options of a split: of one partition scheme, or of all of them and the choice between them."""
    own = options_of(make_split)
    if scheme is not None:
        return {**partitions.options(scheme), **{name: own[name] for name in _after(scheme)}}
    own['split_by'] = own['split_by']._replace(help=f'partition scheme: {", ".join(partitions)}')
    return {**own, **merged(partitions.options(name) for name in partitions)}
