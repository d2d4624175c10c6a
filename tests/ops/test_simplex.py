"""Projection onto the simplex: known points, the conditions that define it, masks."""

import jax
import jax.numpy as jnp
import numpy as np
from lab import GOLDEN

from fedjax_fair.ops import project_simplex


def test_known_projections():
    z = np.load(GOLDEN / 'simplex_projection.npz')
    found = jax.vmap(project_simplex)(z['points'])
    np.testing.assert_allclose(found, z['projected'], atol=2e-6)


def test_optimality_on_random_points():
    """The nearest point: on the simplex, and no entry with weight lies further below its point than any other."""
    points = jax.random.normal(jax.random.key(0), (50, 7)) * 2
    found = np.asarray(jax.vmap(project_simplex)(points))
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)
    assert found.min() >= 0
    shift = np.asarray(points) - found
    for row, moved in zip(found, shift, strict=True):
        assert np.ptp(moved[row > 0]) < 1e-5
        assert np.all(moved[row == 0] <= moved[row > 0].max() + 1e-5)


def test_masked_entries_get_nothing_and_change_nothing():
    v = jnp.array([0.2, 9.0, 0.5, -9.0])
    mask = jnp.array([True, False, True, False])
    found = project_simplex(v, mask)
    np.testing.assert_allclose(found[jnp.array([0, 2])], project_simplex(v[jnp.array([0, 2])]), atol=1e-6)
    assert found[1] == 0 and found[3] == 0
