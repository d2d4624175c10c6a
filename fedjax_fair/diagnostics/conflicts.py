"""How clients pull: cosines and conflicts of updates or gradients, the spectrum they span, and how far they drift.

Reference: Jiang et al., HarmoFL: Harmonizing Local and Global Drifts in Federated Learning on Heterogeneous Medical
Images, AAAI 2022, for dissimilarity (Eq. 8) and drift (Eq. 9).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core import tree
from fedjax_fair.core.hooks import LossFn, Reported
from fedjax_fair.core.method import Aux, Context, Method, View
from fedjax_fair.core.types import Algorithm, Array, Batch, Cohort, FedState, PyTree, Run, Variables
from fedjax_fair.ops import gram, principal_axes
from fedjax_fair.registry import register

DRIFT = 'track_drift'


class Conflicts(NamedTuple):
    """Of stacked vectors ``[C]``; masked clients have zeros everywhere.

    ``cosines[C, C]`` (0 where a vector is zero), ``rate`` the share of pairs whose cosine is negative,
    ``spectrum[C]`` the eigenvalues of the Gram matrix, largest first, ``distances[C, C]`` and ``dissimilarity``, the
    largest of them: the smallest ``epsilon`` that bounds all differences.
    """

    cosines: Array
    rate: Array
    spectrum: Array
    distances: Array
    dissimilarity: Array


def conflicts(vectors: PyTree, mask: Array | None = None) -> Conflicts:
    """Pairwise facts about stacked updates or gradients (leaves ``[C, ...]``), all from their Gram matrix.

    >>> facts = conflicts(jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0]]))
    >>> round(float(facts.rate), 3), facts.spectrum.round(3).tolist(), round(float(facts.dissimilarity), 3)
    (0.333, [4.0, 2.0, 0.0], 2.236)
    """
    leaf = jax.tree.leaves(vectors)[0]
    mask = jnp.ones(leaf.shape[0], bool) if mask is None else mask
    inner = gram(tree.keep_rows(mask, vectors))
    square = jnp.diagonal(inner)
    norm = jnp.sqrt(square)
    cosines = inner / jnp.where(norm > 0, norm, 1)[:, None] / jnp.where(norm > 0, norm, 1)[None, :]
    pairs = jnp.triu(mask[:, None] & mask[None, :], 1)
    count = jnp.maximum(jnp.sum(pairs.astype(inner.dtype)), 1)
    apart = jnp.sqrt(jnp.maximum(square[:, None] + square[None, :] - 2 * inner, 0))
    apart = jnp.where(pairs | pairs.T, apart, 0)
    return Conflicts(
        cosines=cosines,
        rate=jnp.sum((pairs & (cosines < 0)).astype(inner.dtype)) / count,
        spectrum=principal_axes(inner, 1.0, mask).values,
        distances=apart,
        dissimilarity=jnp.max(apart),
    )


@register.diagnostic
def watch_conflicts() -> list[Method]:
    """Watches how clients' updates pull against each other in every round.

    The server entry ``watch_conflicts`` holds ``rate[T]``, ``spectrum[T, N]`` (0 past the clients that took part) and
    ``cosines[T, N, N]`` of :func:`conflicts` of the updates as sent, over the planned rounds and clients; NaN where a
    round or a client was absent. Training is not changed.

    >>> [method.name for method in watch_conflicts()]
    ['watch_conflicts']
    """

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        rounds, clients = run.rounds, run.num_clients
        shapes = {'rate': (rounds,), 'spectrum': (rounds, clients), 'cosines': (rounds, clients, clients)}
        return {name: jnp.full(shape, jnp.nan) for name, shape in shapes.items()}, None

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        facts, seen = conflicts(view.sent, view.mask), view.server
        places = view.places
        slots = jnp.arange(len(places))
        axes = jnp.zeros(view.run.num_clients, facts.spectrum.dtype).at[slots].set(facts.spectrum, mode='drop')
        pairs = view.round, places[:, None], places[None, :]
        return {
            'rate': seen['rate'].at[view.round].set(facts.rate.astype(seen['rate'].dtype), mode='drop'),
            'spectrum': seen['spectrum'].at[view.round].set(axes.astype(seen['spectrum'].dtype), mode='drop'),
            'cosines': seen['cosines'].at[pairs].set(facts.cosines.astype(seen['cosines'].dtype), mode='drop'),
        }, None

    return [Method('watch_conflicts', needs_all=True, init=init, commit=commit)]


def client_gradients(algorithm: Algorithm, state: FedState, cohort: Cohort) -> PyTree:
    """``[C, ...]``: each client's gradient of its mean plain loss over its training set at the model it is sent."""
    gradients = algorithm.measure(state, cohort, lambda ctx: ctx.loss_and_gradient(ctx.variables)[1])
    return tree.take_rows(gradients, cohort.ids)


@register.diagnostic
def track_drift() -> list[Method]:
    """Measures how far clients stray from the global model in local training.

    Row ``track_drift`` is ``(1/K) sum_k ||w_k - W||^2`` over the ``K`` steps of the client's last round, over trainable
    parameters. The server entry ``track_drift`` is ``[T]``, the mean of them over the clients of every planned round
    (Gamma, Eq. 9), NaN where none has been. Training is not changed.
    """

    def squared(variables: Variables, start: Variables) -> Array:
        return optax.tree.norm(optax.tree.sub(variables['params'], start['params']), squared=True)

    def init(variables: Variables, run: Run) -> tuple[PyTree, PyTree]:
        return jnp.full(run.rounds, jnp.nan), jnp.zeros(())

    def start(ctx: Context) -> PyTree:
        return jnp.zeros(())

    def observe(ctx: Context, scratch: PyTree, batch: Batch, aux: Aux, last: Array) -> PyTree:
        return scratch + ctx.noted(aux)

    def loss(inner: LossFn) -> LossFn:
        def watched(ctx: Context, variables: Variables, batch: Batch) -> tuple[Array, Aux]:
            value, aux = inner(ctx, variables, batch)
            here = jax.lax.stop_gradient(squared(variables, ctx.variables))
            return value, ctx.note(aux, here)

        return watched

    def report(ctx: Context, scratch: PyTree, before: Variables, after: Variables) -> tuple[PyTree, Reported]:
        # Where a step starts the one before has ended; only the last one's end is missing.
        steps = jnp.maximum(ctx.steps, 1)
        drift = (scratch + squared(after, before)) / steps.astype(scratch.dtype)
        return drift, {'drift': drift}

    def commit(view: View, updates: PyTree, weights: Array, update: PyTree) -> tuple[PyTree, PyTree]:
        gamma = view.mean(view.reports['drift']).astype(view.server.dtype)
        return view.server.at[view.round].set(gamma, mode='drop'), None

    return [
        Method(
            DRIFT,
            init=init,
            start=start,
            loss=loss,
            observe=observe,
            report=report,
            commit=commit,
        )
    ]


def mean_drift(state: FedState, cohort: Cohort) -> Array:
    """Gamma of the round just finished: the mean drift of the cohort, of an algorithm built with track_drift."""
    if DRIFT not in state.clients:
        raise ValueError('mean_drift needs track_drift() among the methods of the algorithm')
    own = tree.take_rows(state.clients[DRIFT], cohort.ids)
    here = cohort.mask & jnp.any(cohort.ex_mask, 1)
    return jnp.sum(jnp.where(here, own, 0)) / jnp.maximum(jnp.sum(here.astype(own.dtype)), 1)
