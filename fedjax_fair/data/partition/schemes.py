"""Partition schemes by name, as ``split_by`` names them.

A scheme is a function of the patients that are to be dealt out, and a seed; its other parameters are its options. It
returns one array of numbers of patients for each client. To add a scheme, register such a function::

    @register.partition
    def halves(patients: Patients, seed: int) -> Clients:
        return np.array_split(np.arange(len(patients.labels)), 2)

Notes of a scheme: ``by_site`` says that each client holds examples of one site, so that the sites are the groups on
which fairness is measured, and their test sets the test sets; ``tests_by_class`` says that the test set is cut like the
training set, so that a client is tested on the classes that it holds.
"""

from __future__ import annotations

import numpy as np

from fedjax_fair.data.declarations import (
    Alpha,
    ClassesPerClient,
    ClientSizes,
    ClientsPerDomain,
    ExamplesPerClass,
    FixedClasses,
    NumClients,
)
from fedjax_fair.data.partition import label_skew, quantities, sites
from fedjax_fair.data.partition.patients import Patients
from fedjax_fair.data.partition.quantities import Clients
from fedjax_fair.errors import UserError
from fedjax_fair.registry import register

PER_DOMAIN = 5  # clients of every domain


@register.partition
def iid(patients: Patients, seed: int, num_clients: NumClients = 10) -> Clients:
    """Near-equal parts, drawn at random."""
    return quantities.iid(len(patients.labels), num_clients, seed)


@register.partition
def dirichlet(patients: Patients, seed: int, num_clients: NumClients = 10, alpha: Alpha = 0.5) -> Clients:
    """Every class is split over the clients in shares drawn from Dir(alpha)."""
    return label_skew.dirichlet(patients.labels, num_clients, alpha, seed)


@register.partition
def capped_dirichlet(patients: Patients, seed: int, num_clients: NumClients = 10, alpha: Alpha = 0.5) -> Clients:
    """Dirichlet shares in which a client with its fair share of examples gets no further class."""
    return label_skew.capped_dirichlet(patients.labels, num_clients, alpha, seed)


@register.partition(tests_by_class=True)
def classes(
    patients: Patients,
    seed: int,
    num_clients: NumClients = 10,
    classes_per_client: ClassesPerClient = 2,
    examples_per_class: ExamplesPerClass | None = None,
    fixed_classes: FixedClasses = False,
) -> Clients:
    """Every client holds exactly so many classes, and is tested on these."""
    size, most = examples_per_class, patients.sizes.max(initial=1)
    if size is not None and most > 1:
        why = f'a patient has up to {most} training examples'
        raise UserError(f'`examples_per_class`={size} cannot be kept where {why}')
    return label_skew.k_classes(patients.labels, num_clients, classes_per_client, seed, size, fixed_classes)


@register.partition
def quantity(patients: Patients, seed: int, num_clients: NumClients = 10, alpha: Alpha = 0.5) -> Clients:
    """Clients of different sizes, in shares drawn from Dir(alpha), with the same mix of classes."""
    return quantities.quantity_skew(len(patients.labels), num_clients, alpha, seed)


@register.partition
def power_law(patients: Patients, seed: int, num_clients: NumClients = 10, alpha: Alpha = 1.0) -> Clients:
    """Clients of different sizes: the client of rank r has a share proportional to r^-alpha."""
    return quantities.quantity_skew(len(patients.labels), num_clients, alpha, seed, law='power')


@register.partition(by_site=True)
def domain(
    patients: Patients,
    seed: int,
    num_clients: NumClients | None = None,
    clients_per_domain: ClientsPerDomain | None = None,
    client_sizes: ClientSizes | None = None,
) -> Clients:
    """Several clients of each site or domain, five where no number is given."""
    domains = len(np.unique(patients.site_of))
    per_domain = clients_of_each(domains, num_clients, clients_per_domain)
    sizes = client_sizes * domains if client_sizes is not None and len(client_sizes) == 1 else client_sizes
    return sites.by_domain(patients.site_of, per_domain, seed, sizes, patients.sizes)


@register.partition(by_site=True)
def site(patients: Patients, seed: int) -> Clients:
    """One client for each site."""
    return sites.by_site(patients.site_of)


def clients_of_each(domains: int, num_clients: int | None, clients_per_domain: int | None) -> int:
    """Clients of each domain, from whichever of the two counts is given."""
    per_domain = clients_per_domain
    if per_domain is None:
        per_domain = PER_DOMAIN if num_clients is None else max(1, num_clients // domains)
    if num_clients not in (None, per_domain * domains):
        raise UserError(
            f'`num_clients`={num_clients} is not {domains} domains times {per_domain} clients; '
            f'choose {per_domain * domains}, or set `clients_per_domain` alone'
        )
    return per_domain
