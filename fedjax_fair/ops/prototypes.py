"""Class prototypes: mean features of every class, at a client and over clients."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array


def class_sums(features: Array, labels: Array, mask: Array, num_classes: int) -> tuple[Array, Array]:
    """``[K, F]`` sums of the features of every class and ``[K]`` how many, over the mask.

    >>> features, labels = jnp.array([[1.0], [3.0], [9.0]]), jnp.array([0, 0, 1])
    >>> class_sums(features, labels, jnp.array([True, True, False]), 2)[0].tolist()
    [[4.0], [0.0]]
    """
    own = jax.nn.one_hot(labels, num_classes, dtype=features.dtype) * mask[:, None].astype(features.dtype)
    return jnp.matmul(own.T, features, precision=jax.lax.Precision.HIGHEST), own.sum(0)


def class_means(features: Array, labels: Array, num_classes: int, mask: Array | None = None) -> tuple[Array, Array]:
    """``(means[K, F], counts[K])`` of ``features[M, F]`` by class; a class that is not there has mean 0."""
    mask = jnp.ones(labels.shape, bool) if mask is None else mask
    sums, counts = class_sums(features, labels, mask, num_classes)
    return sums / jnp.maximum(counts, 1)[:, None], counts


def mean_prototypes(prototypes: Array, counts: Array, mask: Array) -> tuple[Array, Array]:
    """Plain mean ``[K, F]`` of ``prototypes[C, K, F]`` over the clients that hold a class, and ``[K]`` if any does.

    >>> prototypes, counts = jnp.array([[[1.0]], [[3.0]], [[8.0]]]), jnp.array([[5], [1], [0]])
    >>> mean_prototypes(prototypes, counts, jnp.ones(3, bool))[0].tolist()
    [[2.0]]
    """
    holds = (counts > 0) & mask[:, None]
    total = jnp.sum(jnp.where(holds[..., None], prototypes, 0), 0)
    holders = jnp.sum(holds.astype(prototypes.dtype), 0)
    return total / jnp.maximum(holders, 1)[:, None], holders > 0


def prototype_distance(features: Array, labels: Array, prototypes: Array, known: Array) -> Array:
    """``[B]`` mean squared distance of features to the prototype of their class; 0 where it has none."""
    away = jnp.mean((features - prototypes[labels]) ** 2, -1)
    return jnp.where(known[labels], away, 0)


def prototype_contrast(features: Array, labels: Array, prototypes: Array, known: Array) -> Array:
    """``[B]`` cross-entropy of the cosines to all known prototypes; 0 for a class that has none."""
    unit_features, unit_prototypes = (
        v / jnp.sqrt(jnp.maximum(jnp.sum(v**2, -1, keepdims=True), 1e-16)) for v in (features, prototypes)
    )
    cosine = jnp.matmul(unit_features, unit_prototypes.T, precision=jax.lax.Precision.HIGHEST)
    open_ = jnp.where(known.any(), known, True)  # nothing to contrast with: any finite number will do
    total = jax.nn.logsumexp(jnp.where(open_[None], cosine, -jnp.inf), -1)
    own = jnp.take_along_axis(cosine, labels[:, None], -1)[:, 0]
    return jnp.where(known[labels], total - own, 0)
