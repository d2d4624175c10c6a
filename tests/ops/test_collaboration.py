"""FedPAC's statistics against their definitions, and classifiers shared as a general solver would share them."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from fedjax_fair.ops import class_means, collaboration_matrices, collaboration_weights, feature_statistics

RNG = np.random.default_rng(0)
SIZES = (14, 9, 20, 11, 6)
FEATURES = [RNG.normal(size=(n, 6)) + 0.4 * i for i, n in enumerate(SIZES)]
LABELS = [RNG.integers(0, 2 if i == 4 else 3, n) for i, n in enumerate(SIZES)]  # the last client lacks class 2


def test_statistics_of_a_client_by_their_definition():
    with jax.enable_x64(True):
        for x, y in zip(FEATURES, LABELS, strict=True):
            padded, mask = np.concatenate([x, np.full((3, 6), 9.0)]), np.arange(len(x) + 3) < len(x)
            v, h = feature_statistics(jnp.asarray(padded), jnp.asarray(np.append(y, [0, 1, 2])), 3, jnp.asarray(mask))
            expected = 0.0
            for k in range(3):
                own, share = x[y == k], np.mean(y == k)
                mean = own.mean(0) if len(own) else np.zeros(6)
                np.testing.assert_allclose(h[k], share * mean, rtol=1e-10, atol=1e-14)
                if len(own):
                    expected += share * np.mean(np.sum(own**2, 1)) - share**2 * mean @ mean
            np.testing.assert_allclose(v, expected / len(x), rtol=1e-10)


def test_shares_are_those_of_a_general_solver():
    with jax.enable_x64(True):
        found = [feature_statistics(jnp.asarray(x), jnp.asarray(y), 3) for x, y in zip(FEATURES, LABELS, strict=True)]
        v, h = jnp.stack([one[0] for one in found]), jnp.stack([one[1] for one in found])
        matrices = np.asarray(collaboration_matrices(v, h))
        shares = np.asarray(collaboration_weights(v, h))
        v, h = np.asarray(v), np.asarray(h)
    single = collaboration_weights(jnp.asarray(v, jnp.float32), jnp.asarray(h, jnp.float32))
    used = 0
    for i, p in enumerate(matrices):
        for a in range(5):
            for b in range(5):
                away = np.sum((h[i] - h[a]) * (h[i] - h[b])) + (v[a] if a == b else 0)
                np.testing.assert_allclose(p[a, b], away, atol=1e-12)
        best = minimize(
            lambda x, p=p: x @ p @ x / p.max(),
            np.full(5, 0.2),
            bounds=[(0, 1)] * 5,
            constraints={'type': 'eq', 'fun': lambda x: x.sum() - 1},
            options={'ftol': 1e-16, 'maxiter': 1000},
        ).x
        np.testing.assert_allclose(shares[i], np.where(best < 1e-3, 0, best), atol=1e-5)
        used += int((shares[i] > 0).sum())
    assert 5 < used < 25  # neither everybody for himself nor all for all
    np.testing.assert_allclose(single, shares, atol=1e-5)


def test_a_masked_client_gives_and_takes_nothing():
    v, h = jnp.array([0.3, 0.1, 0.2, 0.5]), jnp.asarray(RNG.normal(size=(4, 2, 3)) * 0.3, jnp.float32)
    mask = jnp.array([True, False, True, True])
    rest = jnp.array([0, 2, 3])
    found = collaboration_weights(v.at[1].set(jnp.nan), h.at[1].set(jnp.nan), mask)
    np.testing.assert_array_equal(found[1], 0)
    np.testing.assert_array_equal(found[:, 1], 0)
    np.testing.assert_allclose(found[rest][:, rest], collaboration_weights(v[rest], h[rest]), atol=1e-5)


def test_means_of_absent_classes_are_zero():
    means, counts = class_means(jnp.ones((3, 2)), jnp.array([1, 1, 0]), 3, jnp.array([True, True, False]))
    np.testing.assert_array_equal(counts, [0, 2, 0])
    np.testing.assert_array_equal(means, [[0, 0], [1, 1], [0, 0]])
