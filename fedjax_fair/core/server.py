"""The server's half of a round: revise, weigh, reduce, finish, step and commit."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_fair.core import tree
from fedjax_fair.core.types import Array, Method, PyTree, Run, Variables


class Reports(dict):
    """What clients sent beside their updates; asking for what nobody sent names what there is."""

    def __missing__(self, name: str):
        raise KeyError(f'no client reported {name!r}; reported: {", ".join(sorted(self)) or "nothing"}')


@dataclasses.dataclass(frozen=True)
class View:
    """What a server hook may read.

    ``server`` and ``rows[C]`` are its own method's entries as they were before the round, ``n[C]`` and ``steps[C]`` the
    examples and optimisation steps of each client, ``sent`` the updates as uploaded, ``variables`` the model sent out.
    """

    run: Run
    round: Array
    key: Array
    servers: dict[str, PyTree]
    all_rows: dict[str, PyTree]
    ids: Array
    mask: Array
    n: Array
    steps: Array
    reports: Reports
    variables: Variables
    sent: PyTree = None
    me: str = ''

    def of(self, method: Method) -> View:
        """The same view as this method sees it."""
        return dataclasses.replace(self, me=method.name)

    @property
    def server(self) -> PyTree:
        return self.servers.get(self.me)

    @property
    def rows(self) -> PyTree:
        return self.all_rows.get(self.me)

    @property
    def count(self) -> Array:
        """Number of clients that take part, never the number of slots."""
        return jnp.sum(self.mask.astype(self.n.dtype))

    def shares(self, values: Array | None = None) -> Array:
        """``values[C]`` (the numbers of examples) over their sum, of the clients that take part; 0 for the others."""
        values = jnp.where(self.mask, self.n if values is None else values, 0)
        total = jnp.sum(values)
        return values / jnp.where(total == 0, 1, total)

    def mean(self, values: Array) -> Array:
        """Plain mean of ``values[C, ...]`` over the clients that take part."""
        weights = self.mask.astype(self.n.dtype) / jnp.maximum(self.count, 1)
        return tree.weighted_sum(weights, tree.keep_rows(self.mask, values))


def masked_softmax(scores: Array, mask: Array) -> Array:
    """``softmax(scores)`` over the mask; uniform over it when every score is ``-inf``; zero when the mask is empty."""
    scores = jnp.where(mask & ~jnp.isnan(scores), scores, -jnp.inf)
    top = jnp.max(scores)
    odds = jnp.exp(scores - jnp.where(jnp.isfinite(top), top, 0))
    odds = jnp.where(top > -jnp.inf, odds, mask.astype(odds.dtype))
    return odds / jnp.maximum(jnp.sum(odds), jnp.finfo(odds.dtype).tiny)


def weigh(methods: tuple[Method, ...], view: View, updates: PyTree) -> Array:
    """``softmax`` of the sum of all log-scores; ``log n`` when no method has an opinion."""
    scores = [m.score(view.of(m), updates) for m in methods if m.score is not None] or [jnp.log(view.n)]
    return masked_softmax(sum(scores[1:], scores[0]), view.mask)


def weights_of(methods: tuple[Method, ...], view: View, weights: Array) -> dict[str, Array]:
    """The weights of every kind of variables: those of parameters for all, unless a method has others for the rest."""
    others = weights
    for m in methods:
        if m.statistics is not None:
            others = m.statistics(view.of(m), others)
    return {kind: weights if kind == 'params' else others for kind in view.variables}


def initial_entries(methods: tuple[Method, ...], variables: Variables, run: Run, rows: int) -> tuple[dict, dict]:
    """Every method's server entry, and a table of equal rows for those that keep rows."""
    servers: dict[str, PyTree] = {}
    clients: dict[str, PyTree] = {}
    for m in methods:
        entry, row = m.init(variables, run) if m.init is not None else (None, None)
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


def _with_params(method: Method, variables: Variables, part: PyTree) -> Variables:
    return part if method.whole else {**variables, 'params': part}


def aggregate(methods: tuple[Method, ...], view: View, updates: Variables) -> Aggregate:
    """Revise, weigh and reduce stacked updates ``[C, ...]``."""
    updates = tree.keep_rows(view.mask, updates)
    view = dataclasses.replace(view, sent=updates['params'])
    for m in reversed(methods):
        if m.revise is not None:
            part, found = m.revise(view.of(m), _params(m, updates))
            updates = _with_params(m, updates, part)
            view = dataclasses.replace(view, reports=Reports(view.reports | found))
    weights = weigh(methods, view, updates['params'])
    shares = weights_of(methods, view, weights)
    update = {kind: tree.weighted_sum(shares[kind], part) for kind, part in updates.items()}
    for m in methods:
        if m.reduce is not None:
            update = _with_params(m, update, m.reduce(view.of(m), _params(m, updates), weights))
    return Aggregate(weights, update, updates['params'], view)


class Committed(NamedTuple):
    """The server after a round: ``rows`` the server wrote for the cohort, ``alive`` False if nothing may change."""

    variables: Variables
    opt: PyTree
    servers: dict[str, PyTree]
    rows: dict[str, PyTree]
    alive: Array


def step(methods: tuple[Method, ...], result: Aggregate, optimizer: Any, opt: PyTree) -> Committed:
    """Finish the update, take the server optimiser's step and let every method commit its state.

    An update that is not finite, or a round in which nobody took part, changes nothing.
    """
    view, update = result.view, result.update['params']
    for m in reversed(methods):
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
            entry, own = m.commit(view.of(m), result.updates, result.weights, update)
            servers |= {} if entry is None else {m.name: entry}
            rows |= {} if own is None else {m.name: own}
    before_all = (dict(before), opt, dict(view.servers))
    variables, opt, servers = tree.select(alive, (after, new_opt, servers), before_all)
    return Committed(variables, opt, servers, rows, alive)
