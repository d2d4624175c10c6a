"""Clients of one site each: one client per site, or several per domain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedjax_fair.data.partition.quantities import Clients
from fedjax_fair.errors import UserError


def by_domain(
    site_of: np.ndarray,
    clients_per_domain: int,
    seed: int,
    sizes: Sequence[int] | None = None,
    weights: np.ndarray | None = None,
) -> Clients:
    """Give every domain the same number of clients, each holding a disjoint part of that domain alone.

    The list [d1, d1, ..., d2, d2, ...] of the clients' domains is shuffled, so a client's number says nothing about
    its domain. ``sizes[d]`` examples per client of domain ``d`` (the rest unused); without ``sizes`` each domain is
    cut into near-equal parts and all examples are used. Where an example stands for ``weights`` of them, a client gets
    those that fit into its size, one after another.

    Reference: Chen et al., "Fair federated learning under domain skew with local consistency and domain diversity",
    CVPR 2024 (FedHEAL).
    """
    if clients_per_domain < 1:
        raise UserError(f'`clients_per_domain`={clients_per_domain} must be at least 1')
    domains = np.unique(site_of)
    weights = np.ones(len(site_of), int) if weights is None else weights
    if sizes is not None and len(sizes) != len(domains):
        raise UserError(
            f'`client_sizes`={",".join(map(str, sizes))} must be one number for each of the {len(domains)} domains'
        )
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.repeat(domains, clients_per_domain))
    clients: list = [None] * len(order)
    for position, domain in enumerate(domains):
        chosen = rng.permutation(np.flatnonzero(site_of == domain))
        needed = clients_per_domain * (1 if sizes is None else sizes[position])
        held = int(weights[chosen].sum()) if sizes is not None else len(chosen)
        if not clients_per_domain <= needed <= held:
            raise UserError(
                f'domain {domain} has {held} examples, but `clients_per_domain`={clients_per_domain} with '
                f'client_sizes={None if sizes is None else list(sizes)} asks for {needed}'
            )
        parts = np.array_split(chosen, clients_per_domain)
        if sizes is not None:
            parts = _filled(chosen, weights, clients_per_domain, sizes[position])
        for client, part in zip(np.flatnonzero(order == domain), parts, strict=True):
            clients[client] = part
    return clients


def _filled(rows: np.ndarray, weights: np.ndarray, count: int, size: int) -> Clients:
    """``count`` parts: each takes, of the rows that are left, those that fit into ``size`` one after another."""
    parts = []
    for _ in range(count):
        taken, room = np.zeros(len(rows), bool), size
        for place, weight in enumerate(weights[rows].tolist()):
            if weight <= room:
                taken[place], room = True, room - weight
            if not room:
                break
        parts.append(rows[taken])
        rows = rows[~taken]
    return parts


def with_every_class(clients: Clients, labels: np.ndarray, site_of: np.ndarray, seed: int) -> Clients:
    """Deal anew, one client after another, so that each holds all classes of its domain and as many examples as before.

    A client draws from what those before it left of its domain. For each class it then lacks it receives a random
    example of the domain, which another client may hold as well, and gives up a random one of a random class of which
    it has two or more (where there is none, nothing is exchanged). What it holds in the end is gone for those after it;
    what it gave up is not.

    Reference: see :func:`by_domain`; the authors do this for Office-Caltech-10, whose clients are small.
    """
    rng = np.random.default_rng(seed)
    free, filled = np.ones(len(labels), bool), []
    for client in clients:
        own = np.flatnonzero(site_of == site_of[client[0]])
        held = rng.permutation(own[free[own]])[: len(client)]
        for label in np.setdiff1d(labels[own], labels[held]):
            classes, counts = np.unique(labels[held], return_counts=True)
            if not (counts > 1).any():
                break
            given = rng.choice(np.flatnonzero(labels[held] == rng.choice(classes[counts > 1])))
            held = np.append(np.delete(held, given), rng.choice(own[labels[own] == label]))
        free[held] = False
        filled.append(held)
    return filled


def by_site(site_of: np.ndarray) -> Clients:
    """One client per site, in the order of the site numbers; all examples are used."""
    return [np.flatnonzero(site_of == site) for site in np.unique(site_of)]
