"""Clients that hold different mixes of classes, and test sets with the same mixes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedjax_fair.data.partition.quantities import Clients, check_alpha, check_counts
from fedjax_fair.errors import UserError

WHOLE_DRAWS = 1000  # how many whole Dirichlet partitions are drawn before only the sizes of their parts are
MAX_SHARES = 40_000_000  # how many shares are drawn for such sizes before giving up: some seconds
SHARES_AT_ONCE = 400_000


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

    A draw shuffles every class and cuts it. Where most draws leave a client with too
    little (a small ``alpha``, many clients of few classes), only the sizes of the pieces are drawn, thousands at once,
    and the first sizes that suffice are cut.
    """
    check_counts(len(labels), num_clients, min_size)
    check_alpha(alpha)
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
    """``[K, N]``: the examples of every class that each client gets, in the first draw in which all get enough."""
    most = MAX_SHARES // (len(counts) * num_clients)
    at_once = max(1, SHARES_AT_ONCE // (len(counts) * num_clients))
    for _ in range(0, most, at_once):
        sizes = _cut_sizes(rng.dirichlet(np.full(num_clients, alpha), (len(counts), at_once)), counts, cap)
        good = np.flatnonzero(sizes.sum(0).min(1) >= min_size)
        if len(good):
            return sizes[:, good[0]]
    raise UserError(
        f'`alpha`={alpha} over `num_clients`={num_clients} left a client with fewer than {min_size} examples in each '
        f'of {WHOLE_DRAWS + most} draws; take a larger `alpha` or fewer clients'
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
    _check_k(classes, k)
    rng = np.random.default_rng(seed)
    held = np.zeros(len(classes), int)
    slots = np.zeros((num_clients, k), int)
    for row in slots:
        chosen = np.lexsort((rng.random(len(classes)), held))[:k]
        held[chosen] += 1
        row[:] = np.sort(np.asarray(classes)[chosen])
    return slots


def fixed_slots(classes: Sequence[int], num_clients: int, k: int) -> np.ndarray:
    """``[N, k]``: client n holds ``k`` classes from place ``k n`` on; after the last class comes the first.

    >>> fixed_slots([0, 1, 2, 3, 4, 5], num_clients=4, k=2).tolist()
    [[0, 1], [2, 3], [4, 5], [0, 1]]
    """
    _check_k(classes, k)
    places = np.arange(num_clients * k).reshape(num_clients, k) % len(classes)
    return np.sort(np.asarray(classes)[places])


def _check_k(classes: Sequence[int], k: int) -> None:
    if not 1 <= k <= len(classes):
        raise UserError(f'`classes_per_client`={k} must be between 1 and the {len(classes)} classes present')


def cut_by_slots(
    labels: np.ndarray, slots: Sequence[np.ndarray], seed: int, what: str = 'training', size: int | None = None
) -> Clients:
    """Cut each class into one near-equal shard for each client that holds it; client n holds the classes ``slots[n]``.

    All examples of the classes that anybody holds are used, or the first ``size`` of every shard.
    """
    rng = np.random.default_rng(seed)
    shards: list[list[np.ndarray]] = [[] for _ in slots]
    for label in np.unique(np.concatenate(slots)):
        holders = rng.permutation(np.flatnonzero([label in held for held in slots]))
        chosen = rng.permutation(np.flatnonzero(np.asarray(labels) == label))
        if len(chosen) < len(holders):
            raise UserError(
                f'`num_clients`={len(slots)} with `classes_per_client`={max(map(len, slots))} gives class {label} to '
                f'{len(holders)} clients, but it has {len(chosen)} {what} examples; take fewer clients'
            )
        if size is not None and len(chosen) < size * len(holders):
            raise UserError(
                f'`examples_per_class`={size}: {len(holders)} clients hold class {label}, which has {len(chosen)} '
                f'{what} examples; choose at most {len(chosen) // len(holders)}'
            )
        for holder, shard in zip(holders, np.array_split(chosen, len(holders)), strict=True):
            shards[holder].append(shard[:size])
    return [np.concatenate(own) for own in shards]


def two_pools(labels: np.ndarray, num_clients: int, num_last: int, alpha: float, seed: int) -> Clients:
    """Set ``num_last / num_clients`` of every class aside for the last clients, then deal out each pool by Dir(alpha).

    Every example of a pool goes to one of its clients by a draw of its own, with the class's Dirichlet shares; all are
    used, and nothing is redrawn. With ``alpha = 1`` and ``seed = 2024`` it is the partition of wnn2000/FFL4MIA, whose
    random numbers come from NumPy's legacy generator.
    """
    check_counts(len(labels), num_clients)
    check_alpha(alpha)
    rng = np.random.RandomState(seed if seed < 2**32 else [seed % 2**32, seed // 2**32])
    first = num_clients - num_last
    owner = np.zeros(len(labels), int)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        cut = round(first / num_clients * len(rows))
        pools = [(0, first, rows[:cut]), (first, num_last, rows[cut:])]
        shares = [rng.dirichlet(np.full(count, alpha)) for _, count, _ in pools]
        if not np.isfinite(np.concatenate(shares)).all():
            raise UserError(f'`alpha`={alpha} is too small to draw shares of clients with it')
        for (start, count, pool), share in zip(pools, shares, strict=True):
            owner[pool] = start + rng.choice(count, len(pool), p=share)
    return [np.flatnonzero(owner == client) for client in range(num_clients)]


def k_classes(
    labels: np.ndarray, num_clients: int, k: int, seed: int, size: int | None = None, fixed: bool = False
) -> Clients:
    """Give every client one shard of each of exactly ``k`` classes; all are used once N*k reaches the class count.

    Unlike sorting by label and dealing out shards, no client ends up with more or fewer than ``k`` classes. ``size``
    examples of every shard are kept, by default all; ``fixed`` classes are those of :func:`fixed_slots`.
    """
    check_counts(len(labels), num_clients)
    classes = np.unique(labels).tolist()
    slots = fixed_slots(classes, num_clients, k) if fixed else class_slots(classes, num_clients, k, seed)
    return cut_by_slots(labels, list(slots), seed, size=size)


def tests_by_class(labels: np.ndarray, clients: Clients, test_labels: np.ndarray, seed: int) -> Clients:
    """Cut a test set in which every client has the classes of its training examples; an empty one stays empty."""
    if not len(test_labels):
        return [np.zeros(0, int) for _ in clients]
    return cut_by_slots(test_labels, [np.unique(labels[client]) for client in clients], seed, 'test')


def whole_tests(labels: np.ndarray, clients: Clients, test_labels: np.ndarray) -> Clients:
    """For each client all test examples of the classes of its training examples; clients share them.

    >>> clients = [np.array([0, 1]), np.array([2])]
    >>> [rows.tolist() for rows in whole_tests(np.array([0, 1, 2]), clients, np.array([2, 0]))]
    [[1], [0]]
    """
    return [np.flatnonzero(np.isin(test_labels, labels[client])) for client in clients]


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
