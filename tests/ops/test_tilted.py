"""Tilted means and what is built of them, against mpmath, limits and identities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import GOLDEN

from fedjax_fair.ops import tilted_consensus, tilted_mean, two_level_tilted_loss

TILTS = [-np.inf, -100.0, -10.0, -0.1, -1e-8, 0.0, 1e-8, 0.1, 1.0, 10.0, 100.0, np.inf]
X = np.array([0.3, 2.0, 0.0, 60.0, 1.5])


def reference(x, t, weights=None):
    """In double precision with logaddexp."""
    w = np.full(len(x), 1 / len(x)) if weights is None else np.asarray(weights) / np.sum(weights)
    if t == 0:
        return (w * x).sum()
    if np.isinf(t):
        return x[w > 0].max() if t > 0 else x[w > 0].min()
    return np.logaddexp.reduce(t * x[w > 0] + np.log(w[w > 0])) / t


@pytest.mark.parametrize('traced', [False, True])
@pytest.mark.parametrize('t', TILTS)
def test_value_and_gradient(t, traced):
    def fn(x, t):
        return tilted_mean(x, t)

    value_and_grad = jax.value_and_grad(fn)
    found = (
        jax.jit(value_and_grad)(jnp.asarray(X, jnp.float32), t)
        if traced
        else value_and_grad(jnp.asarray(X, jnp.float32), t)
    )
    np.testing.assert_allclose(found[0], reference(X, t), rtol=2e-6)
    if np.isfinite(t):
        odds = np.exp(t * X - (t * X).max())
        np.testing.assert_allclose(found[1], odds / odds.sum(), atol=2e-6)
    assert np.sum(found[1]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize('t', TILTS)
def test_weights_and_mask(t):
    weights, mask = np.array([1.0, 2.0, 0.0, 5.0, 4.0]), np.array([True, True, True, False, True])
    found = tilted_mean(jnp.asarray(X, jnp.float32), t, jnp.asarray(weights, jnp.float32), jnp.asarray(mask))
    np.testing.assert_allclose(found, reference(X, t, weights * mask), rtol=3e-6)


@pytest.mark.parametrize('t', TILTS)
def test_a_row_without_entries_is_zero_and_harmless(t):
    def total(x):
        return jnp.sum(tilted_mean(x, t, mask=jnp.array([[True, True], [False, False]])))

    x = jnp.array([[1.0, 60.0], [jnp.nan, 3.0]])
    value, slope = jax.value_and_grad(total)(x)
    assert np.isfinite(value) and np.isfinite(slope).all() and not slope[1].any()


def test_any_axis_and_ties():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 2)), jnp.float32)
    np.testing.assert_allclose(tilted_mean(x, 2.0, axis=1), tilted_mean(jnp.moveaxis(x, 1, -1), 2.0), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: tilted_mean(x, jnp.inf))(jnp.array([1.0, 3.0, 3.0])), [0, 0.5, 0.5])


@pytest.mark.parametrize('case', ['b10_2of10', 'b6_tinyspread'])
@pytest.mark.parametrize('double', [True, False])
def test_two_levels_against_mpmath(case, double):
    z = np.load(GOLDEN / f'fedtilt_loss_{case}.npz')
    with jax.enable_x64(double):
        kind = np.float64 if double else np.float32
        losses, labels = jnp.asarray(z['losses'].astype(kind)), jnp.asarray(z['labels'].astype(np.int32))
        grid = [jnp.asarray(np.array(g).ravel().astype(kind)) for g in np.meshgrid(z['taus'], z['lams'], indexing='ij')]

        def fn(losses, tau, lam):
            return two_level_tilted_loss(losses, labels, num_classes=int(z['num_classes']), tau=tau, lam=lam)

        value, slope = jax.jit(jax.vmap(jax.value_and_grad(fn), (None, 0, 0)))(losses, *grid)
        rtol, atol = (1e-10, 1e-12) if double else (2e-6, 5e-6)
        np.testing.assert_allclose(value, z['value'].ravel(), rtol=rtol)
        np.testing.assert_allclose(slope, z['grad'].reshape(slope.shape), rtol=0, atol=atol)


def test_equal_tilts_are_one_level_and_no_tilt_is_the_mean():
    rng = np.random.default_rng(1)
    losses, labels = jnp.asarray(rng.uniform(0, 5, 20), jnp.float32), jnp.asarray(rng.integers(4, size=20), jnp.int32)
    mask = jnp.asarray(rng.uniform(size=20) < 0.7)
    for t in (-3.0, 0.0, 2.0):
        both = two_level_tilted_loss(losses, labels, num_classes=6, tau=t, lam=t, mask=mask)
        np.testing.assert_allclose(both, tilted_mean(losses, t, mask=mask), rtol=1e-5)
    empty = two_level_tilted_loss(losses, labels, num_classes=6, tau=1.0, lam=1.0, mask=jnp.zeros(20, bool))
    assert empty == 0


@pytest.mark.parametrize('distance', ['sq', 'l2'])
@pytest.mark.parametrize('eta', [0.5, 0.1])
def test_the_server_against_mpmath(distance, eta):
    z = np.load(GOLDEN / 'fedtilt_server.npz')
    with jax.enable_x64(True):
        models = {
            'a': jnp.asarray(z['client_models'][:, :3]),
            'b': jnp.asarray(z['client_models'][:, 3:].reshape(5, 5, 1)),
        }
        start = {'a': jnp.asarray(z['w0'][:3]), 'b': jnp.asarray(z['w0'][3:].reshape(5, 1))}
        for steps in (1, 2, 5):

            def consensus(q, steps=steps):
                return tilted_consensus(models, start, q, steps=steps, step_size=eta, distance=distance)

            found = jax.vmap(consensus)(jnp.asarray(z['qs']))
            flat = np.concatenate([found['a'], found['b'].reshape(9, 5)], 1)
            np.testing.assert_allclose(flat, z[f'{distance}_traj_eta{eta}'][:, steps - 1], atol=1e-10)


def test_without_tilt_half_a_step_is_exactly_the_average():
    models = jnp.asarray(np.random.default_rng(0).normal(size=(4, 7)), jnp.float32)
    found = tilted_consensus(models, jnp.full(7, 9.0), 0.0)
    np.testing.assert_array_equal(found, jnp.full(4, 0.25) @ models)
    masked = tilted_consensus(models, jnp.full(7, 9.0), 0.0, mask=jnp.array([True, False, True, True]))
    np.testing.assert_allclose(masked, models[jnp.array([0, 2, 3])].mean(0), rtol=1e-6)
    weighted = tilted_consensus(models, jnp.zeros(7), 0.0, weights=jnp.array([0.5, 0.0, 0.25, 0.25]))
    np.testing.assert_allclose(weighted, jnp.array([0.5, 0.0, 0.25, 0.25]) @ models, rtol=1e-6)


def test_a_model_at_distance_zero_does_not_pull_and_an_unknown_distance_is_refused():
    models = jnp.array([[1.0, 1.0], [4.0, 5.0]])
    found = tilted_consensus(models, jnp.array([1.0, 1.0]), 0.0, distance='l2')
    np.testing.assert_allclose(found, [1 + 0.25 * 0.6, 1 + 0.25 * 0.8], rtol=1e-6)
    with pytest.raises(ValueError, match="distance='l1' is not one of 'sq', 'l2'"):
        tilted_consensus(models, models[0], 0.0, distance='l1')
    with pytest.raises(ValueError, match=r'^steps=-1 must be at least 1$'):
        tilted_consensus(models, models[0], 0.0, steps=-1)
    with pytest.raises(ValueError, match=r'^step_size=0.0 must be above 0$'):
        tilted_consensus(models, models[0], 0.0, step_size=0.0)
