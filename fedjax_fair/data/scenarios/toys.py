"""Two clients with Gaussian points in the plane: the toy experiments of FedTilt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedjax_fair.data.federation import Federation, index_table, stack_tests
from fedjax_fair.registry import register

OUTLIER_SHARE, OUTLIER_STD = 0.1, 0.15


class Cloud(NamedTuple):
    """Points of one class: isotropic Gaussian with this centre and standard deviation."""

    centre: tuple[float, float]
    std: float


class Toy(NamedTuple):
    """One toy experiment: both classes' clouds of each client, points per class, and whether class 1 gets outliers."""

    clients: tuple[tuple[Cloud, Cloud], tuple[Cloud, Cloud]]
    train: tuple[int, int]
    test: tuple[int, int]
    outliers: bool = False


_WIDE = (Cloud((1.0, 2.0), 1.0), Cloud((2.5, 1.0), 0.3))
TOYS = {
    1: Toy(
        (
            (Cloud((0.5, 2.0), 0.5), Cloud((2.5, 1.0), 0.5)),
            (Cloud((1.0, 2.2), 0.5), Cloud((2.2, 0.8), 0.5)),
        ),
        train=(100, 100),
        test=(20, 20),
    ),
    2: Toy(
        (
            (Cloud((0.5, 2.0), 0.35), Cloud((2.0, 1.0), 0.25)),
            (Cloud((0.5, 2.0), 0.35), Cloud((2.5, 1.8), 0.25)),
        ),
        train=(150, 50),
        test=(30, 10),
    ),
    3: Toy((_WIDE, _WIDE), train=(150, 50), test=(30, 10), outliers=True),
}


def gaussian_toy(number: int, data_seed: int = 0) -> Federation:
    """Toy experiment 1 (clients differ), 2 (unequal classes too) or 3 (a wide class with outliers, equal clients).

    Points are float32 ``[T, 2]``; class 1 is label 0, class 2 label 1. Each client has its own test set. In
    experiment 3 a random 10 % of every client's class-1 training points get N(0, 0.15^2) noise on each coordinate.

    >>> gaussian_toy(2).sizes.tolist()
    [200, 200]

    Reference: Zhang et al., "FedTilt: Towards multi-level fairness-preserving and robust federated learning",
    arXiv:2503.13537, 2025, section IV-A and appendix.
    """
    toy = TOYS[number]
    rng = np.random.default_rng([data_seed, number])
    train = [_points(clouds, toy.train, rng, toy.outliers) for clouds in toy.clients]
    tests = [_points(clouds, toy.test, rng) for clouds in toy.clients]
    x, y = (np.concatenate([client[k] for client in train]) for k in (0, 1))
    index, sizes = index_table(np.split(np.arange(len(y)), len(train)))
    return Federation(
        f'gaussian_toy_{number}', x, y, index, sizes, stack_tests(tests, [0, 1], ['client 0', 'client 1']), 2,
        class_names=('class 1', 'class 2'), description=f'2-D Gaussian points, toy experiment {number} of FedTilt',
    )  # fmt: skip


def _points(clouds, counts, rng: np.random.Generator, outliers: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Points and labels of both classes, class 1 first."""
    parts = [rng.normal(cloud.centre, cloud.std, (n, 2)) for cloud, n in zip(clouds, counts, strict=True)]
    if outliers:
        chosen = rng.choice(counts[0], round(OUTLIER_SHARE * counts[0]), replace=False)
        parts[0][chosen] += rng.normal(0.0, OUTLIER_STD, (len(chosen), 2))
    return np.concatenate(parts).astype(np.float32), np.repeat(np.arange(2, dtype=np.int32), counts)


@register.scenario(about='two clients with different 2-D Gaussian classes')
def gaussian_toy_1(data_seed: int) -> Federation:
    """Toy experiment 1."""
    return gaussian_toy(1, data_seed)


@register.scenario(about='toy 1 with a common and a rare class')
def gaussian_toy_2(data_seed: int) -> Federation:
    """Toy experiment 2."""
    return gaussian_toy(2, data_seed)


@register.scenario(about='toy with a wide class, a rare one and outliers')
def gaussian_toy_3(data_seed: int) -> Federation:
    """Toy experiment 3."""
    return gaussian_toy(3, data_seed)
