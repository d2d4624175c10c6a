"""The server's half of a round: revise, weigh, reduce, finish, step and commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core import tree
from fedjax_fair.core.masking import masked_softmax
from fedjax_fair.core.method import Method, View, pair
from fedjax_fair.core.types import Array, PyTree, Run, Variables


def weigh(methods: Sequence[Method], view: View, updates: PyTree) -> dict[str, Array]:
    """The weights of the clients for every kind of variables: ``softmax`` of the sum of all log-scores.

    No score at all means ``log n``. Batch statistics have scores of their own where a method says so.
    """
    scores = {m.name: m.score(view.of(m), updates) for m in methods if m.score is not None}
    others = {m.name: m.statistics(view.of(m), updates) for m in methods if m.statistics is not None}
    weights = _softmax_of_sum(scores, view)
    rest = _softmax_of_sum({**scores, **others}, view) if others else weights
    return {kind: weights if kind == 'params' else rest for kind in view.variables}


def _softmax_of_sum(scores: dict[str, Array], view: View) -> Array:
    first, *others = scores.values() if scores else [jnp.log(view.n)]
    return masked_softmax(sum(others, first), view.mask)


def initial_entries(methods: Sequence[Method], variables: Variables, run: Run, rows: int) -> tuple[dict, dict]:
    """Every method's server entry, and a table of equal rows for those that keep rows."""
    servers: dict[str, PyTree] = {}
    clients: dict[str, PyTree] = {}
    for m in methods:
        entry, row = map(tree.strong, pair(m, 'init', m.init(variables, run))) if m.init is not None else (None, None)
        servers |= {} if entry is None else {m.name: entry}
        clients |= {} if row is None else {m.name: tree.repeat_row(row, rows)}
    return servers, clients


class Aggregate(NamedTuple):
    """One round's aggregate: weights, update of all variables, revised updates (None if accumulated), and the view."""

    weights: Array
    update: Variables
    updates: PyTree
    view: View


def _params(method: Method, variables: Variables) -> PyTree:
    return variables if method.whole else variables['params']


def _with_params(method: Method, variables: Variables, changed: PyTree) -> Variables:
    return changed if method.whole else {**variables, 'params': changed}


def aggregate(methods: Sequence[Method], view: View, updates: Variables) -> Aggregate:
    """Revise, weigh and reduce stacked updates ``[C, ...]``."""
    updates = tree.keep_rows(view.mask, updates)
    view = dataclasses.replace(view, sent=updates['params'])
    for m in methods:
        if m.revise is not None:
            changed, report = pair(m, 'revise', m.revise(view.of(m), _params(m, updates)))
            updates = _with_params(m, updates, changed)
            view = view.with_reports(m, report)
    shares = weigh(methods, view, updates['params'])
    weights = shares['params']
    update = {kind: tree.weighted_sum(shares[kind], stacked) for kind, stacked in updates.items()}
    for m in methods:
        if m.reduce is not None:
            update = _with_params(m, update, m.reduce(view.of(m), _params(m, updates), weights))
    return Aggregate(weights, update, updates['params'], view)


def _scaled(methods: Sequence[Method], result: Aggregate) -> PyTree:
    """The aggregate of the parameters times the factors of all methods."""
    factors = [jnp.asarray(m.scale(result.view.of(m), result.weights)) for m in methods if m.scale is not None]
    update = result.update['params']
    for factor in factors:
        update = jax.tree.map(lambda leaf, factor=factor: factor.astype(leaf.dtype) * leaf, update)
    return update


class Committed(NamedTuple):
    """The server after a round: ``rows`` the server wrote for the cohort, ``alive`` False if nothing may change."""

    variables: Variables
    opt: PyTree
    servers: dict[str, PyTree]
    rows: dict[str, PyTree]
    alive: Array


def step(methods: Sequence[Method], result: Aggregate, optimizer: Any, opt: PyTree) -> Committed:
    """Finish the update, take the server optimiser's step and let every method commit its state.

    An update that is not finite, or a round in which nobody took part, changes nothing.
    """
    view, update = result.view, _scaled(methods, result)
    for m in methods:
        if m.finish is not None:
            update = m.finish(view.of(m), result.updates, result.weights, update)
    alive = (view.count > 0) & tree.all_finite((update, result.update))
    before = view.variables
    downhill = jax.tree.map(jnp.negative, update)
    moves, new_opt = optimizer.update(downhill, opt, before['params'])
    after = {k: optax.apply_updates(before[k], result.update[k]) for k in before if k != 'params'}
    after['params'] = optax.apply_updates(before['params'], moves)
    servers, rows = dict(view.servers), dict[str, PyTree]()
    for m in methods:
        if m.commit is not None:
            entry, own = pair(m, 'commit', m.commit(view.of(m), result.updates, result.weights, update))
            servers |= {} if entry is None else {m.name: entry}
            rows |= {} if own is None else {m.name: own}
    before_all = (dict(before), opt, dict(view.servers))
    variables, opt, servers = tree.select(alive, (after, new_opt, servers), before_all)
    return Committed(variables, opt, servers, rows, alive)
