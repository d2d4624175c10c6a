"""The Gaussian toys: counts, moments, outliers, seeds."""

import numpy as np
import pytest

from fedjax_fair.data import gaussian_toy
from fedjax_fair.data.scenarios import toys

# Centre and standard deviation of [client][class], written out independently of the module's table.
EXPECTED = {
    1: [[((0.5, 2.0), 0.5), ((2.5, 1.0), 0.5)], [((1.0, 2.2), 0.5), ((2.2, 0.8), 0.5)]],
    2: [[((0.5, 2.0), 0.35), ((2.0, 1.0), 0.25)], [((0.5, 2.0), 0.35), ((2.5, 1.8), 0.25)]],
    3: [[((1.0, 2.0), 1.0), ((2.5, 1.0), 0.3)], [((1.0, 2.0), 1.0), ((2.5, 1.0), 0.3)]],
}
COUNTS = {1: ((100, 100), (20, 20)), 2: ((150, 50), (30, 10)), 3: ((150, 50), (30, 10))}


@pytest.mark.parametrize('number', [1, 2, 3])
def test_counts_and_types(number):
    toy = gaussian_toy(number)
    train, test = COUNTS[number]
    assert toy.x.dtype == np.float32 and toy.x.shape == (2 * sum(train), 2) and toy.num_classes == 2
    for n in range(2):
        own = toy.y[toy.index[n, : toy.sizes[n]]]
        assert np.bincount(own).tolist() == list(train)
        assert np.bincount(toy.tests.y[n][toy.tests.mask[n]]).tolist() == list(test)
    assert toy.tests.test_of.tolist() == [0, 1]


@pytest.mark.parametrize('number', [1, 2, 3])
def test_moments_match_the_table(number):
    draws = [gaussian_toy(number, seed) for seed in range(60)]
    for n, client in enumerate(EXPECTED[number]):
        for label, (centre, std) in enumerate(client):
            rows = draws[0].index[n][draws[0].y[draws[0].index[n]] == label]
            points = np.concatenate([d.x[rows] for d in draws])
            if (number, label) == (3, 0):  # a tenth of the points carry extra noise
                std = np.sqrt(std**2 + 0.1 * 0.15**2)
            np.testing.assert_allclose(points.mean(0), centre, atol=4 * std / np.sqrt(len(points)))
            np.testing.assert_allclose(points.std(0), std, rtol=0.05)


def test_outliers_move_a_tenth_of_class_one_by_the_stated_noise(monkeypatch):
    monkeypatch.setitem(toys.TOYS, 3, toys.TOYS[3]._replace(test=(0, 0)))
    dirty = gaussian_toy(3, 5)
    monkeypatch.setattr(toys, 'OUTLIER_STD', 0.0)
    clean = gaussian_toy(3, 5)
    moved = (dirty.x != clean.x).any(1)
    for n in range(2):
        own = dirty.index[n]
        assert moved[own].sum() == 15 and not moved[own][dirty.y[own] == 1].any()
    assert 0.08 < (dirty.x - clean.x)[moved].std() < 0.22


def test_seed_decides():
    np.testing.assert_array_equal(gaussian_toy(1, 4).x, gaussian_toy(1, 4).x)
    assert not np.array_equal(gaussian_toy(1, 4).x, gaussian_toy(1, 5).x)
