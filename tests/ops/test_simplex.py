"""The simplex: known projections, the conditions that define projections and minima, masks."""

import jax
import jax.numpy as jnp
import numpy as np
from lab import GOLDEN

from fedjax_fair.ops import minimize_on_simplex, project_simplex


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


def test_the_smallest_quadratic_meets_the_conditions_of_a_minimum():
    """On the simplex, and the slope is nowhere below the value: equal to it where there is weight."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(1, 13))
        root = rng.normal(size=(size, size)) * 10 ** rng.uniform(-3, 3)
        q = (root @ root.T + np.diag(rng.uniform(0, 1, size))).astype(np.float32)
        found = np.asarray(jax.jit(minimize_on_simplex)(q))
        assert found.min() >= 0 and abs(found.sum() - 1) < 1e-5
        slope = q @ found
        assert (found @ slope - slope).max() <= 3e-6 * np.abs(q).max()


def test_a_diagonal_quadratic_shares_by_inverses_and_skips_the_masked():
    mask = jnp.array([True, False, True])
    found = minimize_on_simplex(jnp.diag(jnp.array([1.0, 0.1, 3.0])), mask)
    np.testing.assert_allclose(found, [0.75, 0, 0.25], rtol=1e-5)
    np.testing.assert_array_equal(minimize_on_simplex(jnp.eye(2), jnp.zeros(2, bool)), 0)
    np.testing.assert_allclose(minimize_on_simplex(jnp.diag(jnp.array([0.0, 1.0]))), [1, 0], atol=1e-5)
