"""Partitions: which client holds which examples.

Every function is pure: it takes an explicit seed and returns one array of example indices per client. No example is
given to two clients unless a docstring says so; each says whether all of them are used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Clients = list[np.ndarray]

WHOLE_DRAWS = 1000  # how many whole Dirichlet partitions are drawn before only the sizes of their parts are
MAX_SHARES = 40_000_000  # how many shares are drawn for such sizes before giving up: some seconds
SHARES_AT_ONCE = 400_000


def _check_counts(num_examples: int, num_clients: int, min_size: int = 1) -> None:
    if num_clients < 1:
        raise ValueError(f'num_clients must be at least 1, got {num_clients}')
    if num_examples < num_clients * min_size:
        raise ValueError(
            f'num_clients={num_clients} with at least {min_size} each needs {num_clients * min_size} examples, '
            f'but there are {num_examples}'
        )


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < np.inf:
        raise ValueError(f'alpha must be a positive number, got {alpha}')


def iid(num_examples: int, num_clients: int, seed: int) -> Clients:
    """Shuffle all examples and cut them into near-equal parts; all are used.

    >>> sorted(len(client) for client in iid(10, 3, seed=0))
    [3, 3, 4]
    """
    _check_counts(num_examples, num_clients)
    return np.array_split(np.random.default_rng(seed).permutation(num_examples), num_clients)


# --- label skew ------------------------------------------------------------------------------------------------------


def dirichlet(labels: np.ndarray, num_clients: int, alpha: float, seed: int, min_size: int = 1) -> Clients:
    """Split every class over the clients in proportions drawn from Dir(alpha); all examples are used.

    ``alpha`` to infinity gives every client the same mix, ``alpha`` to 0 gives each class to one client. The whole
    draw is repeated until every client holds ``min_size`` examples.

    Reference: Yurochkin et al., "Bayesian nonparametric federated learning of neural networks", ICML 2019.
    """
    return _dirichlet_until(labels, num_clients, alpha, seed, min_size, cap=np.inf)


def capped_dirichlet(labels: np.ndarray, num_clients: int, alpha: float, seed: int, min_size: int = 10) -> Clients:
    """:func:`dirichlet` in which a client that already holds T/N examples gets no share of the classes that follow.

    Client sizes differ less than with :func:`dirichlet` while the mixes stay skewed; all examples are used.

    Reference: Yan et al., "Label-efficient self-supervised federated learning", IEEE TMI 2023.
    """
    return _dirichlet_until(labels, num_clients, alpha, seed, min_size, cap=len(labels) / max(1, num_clients))


def _dirichlet_until(labels, num_clients, alpha, seed, min_size, cap) -> Clients:
    """Draw until every client holds ``min_size`` examples.

    A draw shuffles every class and cuts it. Where good ones are rare (a small ``alpha``, many clients of few classes)
    the sizes of the pieces alone are drawn, thousands at once, and only those that will do are cut.
    """
    _check_counts(len(labels), num_clients, min_size)
    _check_alpha(alpha)
    rng = np.random.default_rng(seed)
    classes = [np.flatnonzero(np.asarray(labels) == label) for label in np.unique(labels)]
    for _ in range(WHOLE_DRAWS):
        clients = _dirichlet_draw(classes, num_clients, alpha, rng, cap)
        if min(map(len, clients)) >= min_size:
            return [rng.permutation(client) for client in clients]
    sizes = _dirichlet_sizes([len(rows) for rows in classes], num_clients, alpha, rng, min_size, cap)
    clients = _dealt([rng.permutation(rows) for rows in classes], sizes)
    return [rng.permutation(client) for client in clients]


def _dirichlet_draw(classes, num_clients, alpha, rng, cap) -> Clients:
    """One draw of a whole partition."""
    drawn = [(rng.permutation(rows), rng.dirichlet(np.full(num_clients, alpha))) for rows in classes]
    shuffled, shares = zip(*drawn, strict=True)
    sizes = _cut_sizes(np.stack(shares)[:, None], [len(rows) for rows in classes], cap)
    return _dealt(shuffled, sizes[:, 0])


def _dirichlet_sizes(counts, num_clients, alpha, rng, min_size, cap) -> np.ndarray:
    """``[K, N]``: how many examples of every class each client gets in the first draw that will do."""
    most = MAX_SHARES // (len(counts) * num_clients)
    at_once = max(1, SHARES_AT_ONCE // (len(counts) * num_clients))
    for _ in range(0, most, at_once):
        sizes = _cut_sizes(rng.dirichlet(np.full(num_clients, alpha), (len(counts), at_once)), counts, cap)
        good = np.flatnonzero(sizes.sum(0).min(1) >= min_size)
        if len(good):
            return sizes[:, good[0]]
    raise ValueError(
        f'alpha={alpha} over num_clients={num_clients} left a client with fewer than {min_size} examples in each of '
        f'{WHOLE_DRAWS + most} draws; take a larger alpha or fewer clients'
    )


def _cut_sizes(shares: np.ndarray, counts: Sequence[int], cap: float) -> np.ndarray:
    """Sizes ``[K, B, N]`` in which B draws of ``shares[K, B, N]`` cut K classes of ``counts`` examples.

    Clients that hold ``cap`` examples or more are closed to the next class.
    """
    sizes = np.zeros(shares.shape, int)
    for size, share, count in zip(sizes, shares, counts, strict=True):
        is_open = sizes.sum(0) < cap
        share = share * is_open
        share = np.where(share.sum(1, keepdims=True) > 0, share, is_open)  # a tiny alpha may favour closed clients only
        ends = np.cumsum(share / share.sum(1, keepdims=True), 1)[:, :-1] * count
        ends = np.floor(ends + 1e-9).astype(int)  # 1e-9: a sum of 1 - ulp still ends the class
        size[:] = np.diff(ends, axis=1, prepend=0, append=count)
    return sizes


def _dealt(classes: Sequence[np.ndarray], sizes: np.ndarray) -> Clients:
    """Every client's pieces of the classes, cut in ``sizes[K, N]``, together."""
    pieces = [np.split(rows, np.cumsum(size)[:-1]) for rows, size in zip(classes, sizes, strict=True)]
    return [np.concatenate(own) for own in zip(*pieces, strict=True)]


def class_slots(classes: Sequence[int], num_clients: int, k: int, seed: int) -> np.ndarray:
    """Choose ``k`` distinct classes for every client, ``[N, k]``; how often two classes are held differs by at most 1.

    Clients take, one after another, the classes held least so far, ties broken at random: the N*k slots are dealt like
    cards from freshly shuffled decks.

    >>> class_slots([0, 1, 2, 3], num_clients=2, k=2, seed=0).shape
    (2, 2)
    """
    if not 1 <= k <= len(classes):
        raise ValueError(f'classes_per_client must be between 1 and the {len(classes)} classes present, got {k}')
    rng = np.random.default_rng(seed)
    held = np.zeros(len(classes), int)
    slots = np.zeros((num_clients, k), int)
    for row in slots:
        chosen = np.lexsort((rng.random(len(classes)), held))[:k]
        held[chosen] += 1
        row[:] = np.sort(np.asarray(classes)[chosen])
    return slots


def cut_by_slots(labels: np.ndarray, slots: np.ndarray, seed: int, what: str = 'training') -> Clients:
    """Cut each class into one near-equal shard per client that holds it; all examples of the held classes are used."""
    rng = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[] for _ in slots]
    for label in np.unique(slots):
        holders = rng.permutation(np.flatnonzero((slots == label).any(1)))
        chosen = rng.permutation(np.flatnonzero(np.asarray(labels) == label))
        if len(chosen) < len(holders):
            raise ValueError(
                f'num_clients={len(slots)} with classes_per_client={slots.shape[1]} gives class {label} to '
                f'{len(holders)} clients, but it has {len(chosen)} {what} examples; take fewer clients'
            )
        for holder, shard in zip(holders, np.array_split(chosen, len(holders)), strict=True):
            parts[holder].append(shard)
    return [np.concatenate(part) for part in parts]


def two_pools(labels: np.ndarray, num_clients: int, num_last: int, alpha: float, seed: int) -> Clients:
    """Set ``num_last / num_clients`` of every class aside for the last clients, then deal out each pool by Dir(alpha).

    Every example of a pool goes to one of its clients by a draw of its own, with the class's Dirichlet shares; all are
    used, and nothing is redrawn. With ``alpha = 1`` and ``seed = 2024`` it is the partition of wnn2000/FFL4MIA, whose
    random numbers come from NumPy's legacy generator.
    """
    _check_counts(len(labels), num_clients)
    _check_alpha(alpha)
    rng, first = np.random.RandomState(seed), num_clients - num_last
    owner = np.zeros(len(labels), int)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        cut = round(first / num_clients * len(rows))
        pools = [(0, first, rows[:cut]), (first, num_last, rows[cut:])]
        shares = [rng.dirichlet(np.full(count, alpha)) for _, count, _ in pools]
        for (start, count, pool), share in zip(pools, shares, strict=True):
            owner[pool] = start + rng.choice(count, len(pool), p=share)
    return [np.flatnonzero(owner == client) for client in range(num_clients)]


def k_classes(labels: np.ndarray, num_clients: int, k: int, seed: int) -> Clients:
    """Give every client one shard of each of exactly ``k`` classes; all are used once N*k reaches the class count.

    Unlike sorting by label and dealing out shards, no client ends up with more or fewer than ``k`` classes.
    """
    return k_classes_with_test(labels, np.zeros(0, int), num_clients, k, seed)[0]


def k_classes_with_test(
    labels: np.ndarray, test_labels: np.ndarray, num_clients: int, k: int, seed: int
) -> tuple[Clients, Clients]:
    """:func:`k_classes` that also cuts a test set with the same classes per client (skipped when it is empty)."""
    _check_counts(len(labels), num_clients)
    slots = class_slots(np.unique(labels).tolist(), num_clients, k, seed)
    train = cut_by_slots(labels, slots, seed)
    empty = [np.zeros(0, int) for _ in slots]
    return train, cut_by_slots(test_labels, slots, seed, 'test') if len(test_labels) else empty


def matched_tests(labels: np.ndarray, clients: Clients, test_labels: np.ndarray, size: int, seed: int) -> Clients:
    """For each client about ``size`` test examples with the class mix of its training examples.

    Drawn without replacement within a client, but two clients may share test examples: with many small clients this
    measures each far more precisely than cutting the test set into tiny pieces.
    """
    rng = np.random.default_rng(seed)
    pools = {label: np.flatnonzero(test_labels == label) for label in np.unique(labels)}
    chosen = []
    for client in clients:
        present, counts = np.unique(np.asarray(labels)[client], return_counts=True)
        wanted = np.maximum(1, np.round(size * counts / counts.sum())).astype(int)
        drawn = [rng.permutation(pools[c])[:n] for c, n in zip(present.tolist(), wanted.tolist(), strict=True)]
        chosen.append(np.concatenate(drawn))
    return chosen


# --- domains, sites and quantities -----------------------------------------------------------------------------------


def by_domain(
    domain_of: np.ndarray,
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
        raise ValueError(f'clients_per_domain must be at least 1, got {clients_per_domain}')
    domains = np.unique(domain_of)
    weights = np.ones(len(domain_of), int) if weights is None else weights
    if sizes is not None and len(sizes) != len(domains):
        raise ValueError(f'client_sizes must have one number for each of the {len(domains)} domains, got {list(sizes)}')
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.repeat(domains, clients_per_domain))
    clients: list = [None] * len(order)
    for position, domain in enumerate(domains):
        chosen = rng.permutation(np.flatnonzero(domain_of == domain))
        needed = clients_per_domain * (1 if sizes is None else sizes[position])
        held = int(weights[chosen].sum()) if sizes is not None else len(chosen)
        if not clients_per_domain <= needed <= held:
            raise ValueError(
                f'domain {domain} has {held} examples, but clients_per_domain={clients_per_domain} with '
                f'client_sizes={None if sizes is None else list(sizes)} asks for {needed}'
            )
        parts = np.array_split(chosen, clients_per_domain)
        if sizes is not None:
            parts = _filled(chosen, weights, clients_per_domain, sizes[position])
        for client, part in zip(np.flatnonzero(order == domain), parts, strict=True):
            clients[client] = part
    return clients


def _filled(rows: np.ndarray, weights: np.ndarray, count: int, size: int) -> Clients:
    """``count`` parts, each of the first rows still there that fit into ``size`` together."""
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


def with_every_class(clients: Clients, labels: np.ndarray, domain_of: np.ndarray, seed: int) -> Clients:
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
        own = np.flatnonzero(domain_of == domain_of[client[0]])
        held = rng.permutation(own[free[own]])[: len(client)]
        for label in np.setdiff1d(labels[own], labels[held]):
            found, counts = np.unique(labels[held], return_counts=True)
            if not (counts > 1).any():
                break
            given = rng.choice(np.flatnonzero(labels[held] == rng.choice(found[counts > 1])))
            held = np.append(np.delete(held, given), rng.choice(own[labels[own] == label]))
        free[held] = False
        filled.append(held)
    return filled


def by_site(site_of: np.ndarray) -> Clients:
    """One client per site, in the order of the site numbers; all examples are used."""
    return [np.flatnonzero(site_of == site) for site in np.unique(site_of)]


def quantity_skew(
    num_examples: int, num_clients: int, alpha: float, seed: int, law: str = 'dirichlet', min_size: int = 1
) -> Clients:
    """Clients of very different sizes with the same mix of labels; all examples are used.

    ``law='dirichlet'`` draws the shares from Dir(alpha) (equal sizes as alpha grows); ``law='power'`` makes the share
    of the client of rank r proportional to r^-alpha. Every client gets ``min_size`` first, the rest by shares.
    """
    _check_counts(num_examples, num_clients, min_size)
    _check_alpha(alpha)
    if law not in ('dirichlet', 'power'):
        raise ValueError(f"law must be 'dirichlet' or 'power', got {law!r}")
    rng = np.random.default_rng(seed)
    ranked = np.arange(1, num_clients + 1) ** -float(alpha)
    shares = (
        rng.dirichlet(np.full(num_clients, alpha)) if law == 'dirichlet' else rng.permutation(ranked / ranked.sum())
    )
    free = num_examples - num_clients * min_size
    ends = np.round(np.cumsum(shares)[:-1] * free).astype(int)
    sizes = min_size + np.diff(ends, prepend=0, append=free)
    return np.split(rng.permutation(num_examples), np.cumsum(sizes)[:-1])


def truncate(clients: Clients, seed: int) -> Clients:
    """Keep of every client as many examples, drawn at random, as the smallest client has."""
    rng = np.random.default_rng(seed)
    size = min(map(len, clients))
    return [rng.permutation(client)[:size] for client in clients]
