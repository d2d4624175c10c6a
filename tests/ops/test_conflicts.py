"""Reconciled updates: published numbers, no pair left in conflict, absent clients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import GOLDEN

from fedjax_fair.ops import gram, harmonized_coefficients, hierarchical_coefficients


@pytest.mark.parametrize('x64', [True, False])
@pytest.mark.parametrize('rule', ['seq', 'frozen'])
def test_pairwise_harmony_of_the_paper(rule, x64):
    z = np.load(GOLDEN / 'fedgh_m5_d20.npz')
    with jax.enable_x64(x64):
        close = {'rtol': 1e-10, 'atol': 1e-12} if x64 else {'rtol': 2e-5, 'atol': 5e-6}
        g = jnp.asarray(z['grads'][1], float)
        found = harmonized_coefficients(gram(g), rule) @ g
        np.testing.assert_allclose(found, z[f'ref_paper_{rule}_grads_r1'], **close)


@pytest.mark.parametrize('x64', [True, False])
def test_hierarchy_of_the_code(x64):
    z = np.load(GOLDEN / 'fedgh_m5_d20.npz')
    with jax.enable_x64(x64):
        close = {'rtol': 1e-10, 'atol': 1e-12} if x64 else {'rtol': 2e-5, 'atol': 5e-6}
        for number in (1, 2):
            g, history = jnp.asarray(z['grads'][number], float), jnp.asarray(z['authors_hist'][number - 1], float)
            found = hierarchical_coefficients(gram(g), g @ history) @ g
            np.testing.assert_allclose(found, z['authors_out'][number], **close)


def conflicting(clients, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(clients, 9)).astype(np.float32), rng.normal(size=9).astype(np.float32)


def by_hand(g, history):
    """The hierarchy written out over lists of vectors."""
    left = list(g.astype(np.float64))
    while len(left) > 2:
        left = [left[k] for k in np.argsort([-(v @ history) for v in left], kind='stable')]
        pairs = [(left[k], left[-1 - k]) for k in range(len(left) // 2)]
        middle = left[len(left) // 2 : len(left) // 2 + len(left) % 2]
        left = []
        for a, b in pairs:
            inner = min(a @ b, 0)
            left.append(a - inner / (b @ b + 1e-7) * b + b - inner / (a @ a + 1e-7) * a)
        left += middle
    if len(left) == 2:
        a, b = left
        inner = min(a @ b, 0)
        a = a - inner / (b @ b + 1e-7) * b
        left = [a + b - inner / (a @ a + 1e-7) * a]
    return left[0] / len(g)


@pytest.mark.parametrize('clients', [1, 2, 3, 4, 6, 7])
def test_hierarchies_of_all_sizes_with_and_without_gaps(clients):
    g, history = conflicting(clients, seed=clients)
    expected = by_hand(g, history)
    np.testing.assert_allclose(hierarchical_coefficients(gram(g), g @ history) @ g, expected, rtol=1e-4, atol=1e-5)
    mask = np.arange(8) % 8 < clients
    mask = np.roll(mask, 3)
    order = np.flatnonzero(mask)
    gaps = np.full((8, 9), 3.0, np.float32)
    gaps[order] = g
    found = hierarchical_coefficients(gram(gaps, jnp.asarray(mask)), gaps @ history, jnp.asarray(mask))
    np.testing.assert_array_equal(np.asarray(found)[~mask], 0)
    np.testing.assert_allclose(found @ gaps, by_hand(g, history), rtol=1e-4, atol=1e-5)


def test_two_updates_end_up_without_conflict_and_friends_stay_as_they_are():
    g, _ = conflicting(2, seed=3)
    g[1] -= g[0] * (g[0] @ g[1] + 1) / (g[0] @ g[0])  # <g_0, g_1> = -1
    for rule in ('seq', 'frozen'):
        new = harmonized_coefficients(gram(g), rule) @ g
        np.testing.assert_allclose([new[0] @ g[1], new[1] @ g[0]], 0, atol=1e-5)
        friends = jnp.abs(jnp.asarray(conflicting(4)[0]))
        np.testing.assert_array_equal(harmonized_coefficients(gram(friends), rule), np.eye(4))


def test_zeros_conflict_with_nobody():
    g = conflicting(4)[0]
    g[2] = 0
    found = harmonized_coefficients(gram(g))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[2], [0, 0, 1, 0])
    with pytest.raises(ValueError, match="rule='all' is not one of 'seq', 'frozen'"):
        harmonized_coefficients(jnp.eye(2), 'all')
