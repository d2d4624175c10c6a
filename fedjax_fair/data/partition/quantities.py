"""How many examples clients hold: near-equal parts, skewed sizes, equal sizes."""

from __future__ import annotations

import numpy as np

from fedjax_fair.errors import UserError

Clients = list[np.ndarray]  # the places of every client's examples


def check_counts(num_examples: int, num_clients: int, min_size: int = 1) -> None:
    if num_clients < 1:
        raise UserError(f'`num_clients`={num_clients} must be at least 1')
    if num_examples < num_clients * min_size:
        raise UserError(
            f'`num_clients`={num_clients} with at least {min_size} each needs {num_clients * min_size} examples, '
            f'but there are {num_examples}'
        )


def check_alpha(alpha: float) -> None:
    if not 0 < alpha < np.inf:
        raise UserError(f'`alpha`={alpha} must be a positive number')


def iid(num_examples: int, num_clients: int, seed: int) -> Clients:
    """Shuffle all examples and cut them into near-equal parts; all are used.

    >>> sorted(len(client) for client in iid(10, 3, seed=0))
    [3, 3, 4]
    """
    check_counts(num_examples, num_clients)
    return np.array_split(np.random.default_rng(seed).permutation(num_examples), num_clients)


def quantity_skew(
    num_examples: int, num_clients: int, alpha: float, seed: int, law: str = 'dirichlet', min_size: int = 1
) -> Clients:
    """Clients of very different sizes with the same mix of labels; all examples are used.

    ``law='dirichlet'`` draws the shares from Dir(alpha) (equal sizes as alpha grows); ``law='power'`` makes the share
    of the client of rank r proportional to r^-alpha. Every client gets ``min_size`` first, the rest by shares.
    """
    check_counts(num_examples, num_clients, min_size)
    check_alpha(alpha)
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
