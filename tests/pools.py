"""Pools compared."""

import numpy as np

from fedjax_fair.data.pool import Pool


def assert_same_pool(one: Pool, other: Pool) -> None:
    """The same arrays, facts and names."""
    assert [one.name(k) for k in range(len(one.y))] == [other.name(k) for k in range(len(other.y))]
    for a, b in zip(one._replace(example_names=()), other._replace(example_names=()), strict=True):
        np.testing.assert_array_equal(a, b)
