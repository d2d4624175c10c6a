"""How unequally far the new global model is from the clients' models: the objective of FedHEAL's weights, exactly.

Reference: Chen et al., Fair Federated Learning under Domain Skew with Local Consistency and Domain Diversity,
CVPR 2024, Eq. 10: ``min_p Var_m ||U - w_m||^2`` with ``U = sum_m p_m w_m`` over the simplex. FedHEAL itself takes
Eq. 11 and 12 in its place, which need no minimisation.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core import tree
from fedjax_fair.core.method import Method, View
from fedjax_fair.core.types import Array, PyTree, Run, Variables
from fedjax_fair.ops import gram, minimize_on_simplex
from fedjax_fair.ops.products import precise
from fedjax_fair.registry import register

VARIANCES = ('aggregated', 'by_examples', 'by_votes', 'least')


def variance_objective(inner: Array, mask: Array) -> Array:
    """``Q[C, C]`` with ``p^T Q p`` the variance of ``||U(p) - w_m||^2`` over the clients in ``mask``, Eq. 10.

    ``inner`` are the inner products ``G`` of the updates. ``||U(p) - w_m||^2 = p^T G p - 2 (G p)_m + G_mm``, where the
    first term is the same for all ``m``; as ``p`` sums to 1 the others are ``E p`` with ``E_mj = G_mm - 2 G_mj``, and
    ``Q = E^T C E / M`` with ``C`` the projection that takes off the mean over clients.

    >>> apart = variance_objective(jnp.diag(jnp.array([0.0, 4.0])), jnp.ones(2, bool))  # updates of 0 and of 2
    >>> [float(p @ apart @ p) for p in (jnp.array([1.0, 0.0]), jnp.array([0.5, 0.5]))]
    [4.0, 0.0]
    """
    count = jnp.maximum(jnp.sum(mask.astype(inner.dtype)), 1)
    terms = jnp.diagonal(inner)[:, None] - 2 * inner
    terms = jnp.where(mask[:, None], terms, 0)
    terms = jnp.where(mask[:, None] & mask[None, :], terms - jnp.sum(terms, 0)[None] / count, 0)
    return terms.T @ terms / count


def squared_distances(updates: PyTree, update: PyTree) -> Array:
    """``||U - w_m||^2`` of every client, ``[C]``, from the updates (leaves ``[C, ...]``) and the global model's."""

    def of_leaf(own: Array, common: Array) -> Array:
        return jnp.sum((own - common[None]) ** 2, tuple(range(1, own.ndim)))

    return jax.tree.reduce(jnp.add, jax.tree.map(of_leaf, updates, update))


@register.diagnostic
def watch_distances() -> list[Method]:
    """Watches how unequally far the global model of every round is from the clients' models: FedHEAL's objective.

    The server entry ``watch_distances`` holds, over the planned rounds, the variance over clients of the squared
    distance between their models and the new global model (Eq. 10 of FedHEAL): ``aggregated[T]`` of the model that the
    recipe made, and what the same clients' models would have given with weights by examples (``by_examples``), with
    equal ones (``by_votes``) and with the best ones (``least``, the minimum of Eq. 10); and ``distances[T, N]`` of the
    recipe's model. Distances are those of trainable parameters, updates as sent. Training is not changed.

    >>> [method.name for method in watch_distances()]
    ['watch_distances']
    """

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        shapes = {**dict.fromkeys(VARIANCES, (run.rounds,)), 'distances': (run.rounds, run.num_clients)}
        return {name: jnp.full(shape, jnp.nan) for name, shape in shapes.items()}, None

    @precise
    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        far = jnp.where(view.mask, squared_distances(view.sent, update), 0)
        mean = jnp.sum(far) / jnp.maximum(view.count, 1)
        actual = jnp.sum(jnp.where(view.mask, (far - mean) ** 2, 0)) / jnp.maximum(view.count, 1)
        objective = variance_objective(gram(tree.keep_rows(view.mask, view.sent)), view.mask)
        choices = view.shares(), view.shares(jnp.ones_like(view.n)), minimize_on_simplex(objective, view.mask)
        variances = [actual, *(p @ objective @ p for p in (choice.astype(objective.dtype) for choice in choices))]
        seen, kind = view.server, view.server['distances'].dtype
        found = {
            name: seen[name].at[view.round].set(value.astype(kind), mode='drop')
            for name, value in zip(VARIANCES, variances, strict=True)
        }
        places = view.round, view.places
        return {**found, 'distances': seen['distances'].at[places].set(far.astype(kind), mode='drop')}, None

    return [Method('watch_distances', needs_all=True, init=init, commit=commit)]
