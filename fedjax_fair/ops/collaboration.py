"""What FedPAC's clients tell of their features, and how their classifiers are combined.

Reference: Xu et al., Personalized Federated Learning with Feature Alignment and Classifier Collaboration, ICLR 2023.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array
from fedjax_fair.ops.prototypes import class_means
from fedjax_fair.ops.simplex import minimize_on_simplex

NEGLIGIBLE = 1e-3  # below which a share counts as none


def feature_statistics(
    features: Array, labels: Array, num_classes: int, mask: Array | None = None
) -> tuple[Array, Array]:
    """``(V, H[K, F])``: how uncertain a client's features are, and its class means times its class frequencies.

    ``H_k = pi_k mu_k`` and ``V = (1/n) sum_k (pi_k mean_k ||f||^2 - pi_k^2 ||mu_k||^2)`` over the classes it holds.
    """
    means, counts = class_means(features, labels, num_classes, mask)
    squares, _ = class_means(jnp.sum(features**2, 1, keepdims=True), labels, num_classes, mask)
    n = jnp.maximum(jnp.sum(counts), 1)
    share = counts / n
    spread = share * squares[:, 0] - share**2 * jnp.sum(means**2, 1)
    return jnp.sum(spread) / n, share[:, None] * means


def collaboration_matrices(v: Array, h: Array) -> Array:
    """``P[i, a, b] = V_a 1[a = b] + sum_k <H_i - H_a, H_i - H_b>`` from ``v[C]`` and ``h[C, K, F]``."""
    flat = h.reshape(h.shape[0], -1)

    def of_client(own: Array) -> Array:  # differences first: their products would cancel
        away = own[None, :] - flat
        return jnp.matmul(away, away.T, precision='highest') + jnp.diag(v)

    return jax.lax.map(of_client, flat)


def collaboration_weights(v: Array, h: Array, mask: Array | None = None) -> Array:
    """``[C, C]``, row ``i``: how much of each client's classifier client ``i`` takes, shares below 1e-3 set to 0.

    The minimiser of ``a^T P_i a`` (:func:`collaboration_matrices`) over the probability simplex. Rows do not quite sum
    to 1 where shares were set to 0; those of masked clients are 0.
    """
    mask = jnp.ones(v.shape, bool) if mask is None else mask
    v, h = jnp.where(mask, v, 0), jnp.where(mask[:, None, None], h, 0)
    shares = jax.vmap(minimize_on_simplex, (0, None))(collaboration_matrices(v, h), mask)
    return jnp.where(mask[:, None] & (shares >= NEGLIGIBLE), shares, 0)
