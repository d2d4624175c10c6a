"""The clients of one round: arranged for the devices, each with its context, and as the server sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core import tree
from fedjax_fair.core.client_map import ClientMap, deal, fit
from fedjax_fair.core.method import Context, Measured, View
from fedjax_fair.core.spec import ClientData, Spec
from fedjax_fair.core.types import Array, Cohort, FedState, PyTree, Run, Variables, default_float

OPTIMIZER_ROW = 'local_optimizer'  # client rows of the engine itself: optimiser states that are kept


class Arranged(NamedTuple):
    """A cohort padded to whole chunks and dealt out by length, with each client's examples and steps."""

    client_map: ClientMap
    cohort: Cohort
    n: Array
    steps: Array


class Shared(NamedTuple):
    """What all clients of a round have in common."""

    round: Array
    key: Array
    variables: Variables
    servers: Mapping[str, PyTree]
    x: Array
    y: Array


class Own(NamedTuple):
    """What one client has of its own; of a whole cohort with a leading axis ``[C]``.

    ``seen`` counts the rounds it took part in before; None where nothing depends on it, so that programs are the same.
    """

    id: Array
    indices: Array
    ex_mask: Array
    n: Array
    steps: Array
    rows: Mapping[str, PyTree]
    seen: Array | None = None


def arrange(spec: Spec, client_map: ClientMap, cohort: Cohort) -> Arranged:
    """Pad the cohort to whole chunks and deal it out by length; a client without examples counts as absent."""
    client_map, slots = fit(client_map, cohort.ids.shape[0])
    extra = slots - cohort.ids.shape[0]

    def pad(leaf: Array, value: int | bool) -> Array:
        return jnp.pad(leaf, ((0, extra),) + ((0, 0),) * (leaf.ndim - 1), constant_values=value)

    cohort = cohort._replace(
        ids=pad(cohort.ids, spec.run.num_clients),
        mask=pad(cohort.mask, False),
        index=pad(cohort.index, 0),
        ex_mask=pad(cohort.ex_mask & cohort.mask[:, None], False),
        places=None if cohort.places is None else pad(cohort.places, spec.run.num_clients),
    )
    n = jnp.sum(cohort.ex_mask.astype(jnp.int32), 1)
    steps = spec.steps(n)
    if len({int(size) for size in spec.run.sizes}) > 1:
        order = deal(steps, client_map)
        of_slots = {name: leaf for name, leaf in cohort._asdict().items() if name not in ('x', 'y')}
        of_slots, n, steps = jax.tree.map(lambda leaf: leaf[order], (of_slots, n, steps))
        cohort = cohort._replace(**of_slots)
    return Arranged(client_map, cohort._replace(mask=cohort.mask & (n > 0)), n, steps.astype(default_float()))


def inputs(spec: Spec, state: FedState, arranged: Arranged, key: Array) -> tuple[Shared, Own]:
    """What the clients of an arranged cohort share, and what each has of its own."""
    cohort = arranged.cohort
    rows = {name: tree.take_rows(table, cohort.rows_at) for name, table in state.clients.items()}
    shared = Shared(state.round, key, state.variables, state.server, cohort.x, cohort.y)
    piles_up = spec.outliers is not None and spec.outliers.cumulative
    seen = jnp.take(state.seen, cohort.ids, mode='clip') if piles_up else None
    return shared, Own(cohort.ids, cohort.index, cohort.ex_mask, arranged.n, arranged.steps, rows, seen)


def context(spec: Spec, shared: Shared, own: Own) -> Context:
    """The context of one client in training. Randomness belongs to the client, never to its slot."""
    key = jax.random.fold_in(shared.key, own.id)
    data = ClientData(shared.x, shared.y, own.indices, own.ex_mask, own.n)
    data = spec.with_outliers(data, key, own.id, own.seen)
    return Context(
        spec, shared.round, own.id, key, shared.servers, own.rows, shared.variables, data=data, steps=own.steps
    )


def without_data(
    spec: Spec, shared: Shared, client: Array, rows: Mapping[str, PyTree], n: Array | None = None
) -> Context:
    """The context of a client that does not train: it has no examples and no randomness."""
    none = jnp.zeros((1,), jnp.int32)
    data = ClientData(none, none, none, none > 0, jnp.zeros((), jnp.int32) if n is None else n)
    return Context(spec, shared.round, client, jax.random.key(0), shared.servers, rows, shared.variables, data)


def shared_of(state: FedState, variables: Variables | None = None) -> Shared:
    """What clients share that only evaluate, with the model they evaluate."""
    none = jnp.zeros((1,), jnp.int32)
    model = state.variables if variables is None else variables
    return Shared(state.round, jax.random.key(0), model, state.server, none, none)


def view(
    run: Run,
    shared: Shared,
    own: Own,
    mask: Array,
    measured: Mapping[str, Array] | None = None,
    reports: Mapping | None = None,
) -> View:
    """The clients of a round as the server sees them; ``mask`` marks those that take part."""
    n = own.n if jnp.issubdtype(own.n.dtype, jnp.floating) else own.n.astype(default_float())
    return View(
        run=run,
        round=shared.round,
        key=jax.random.fold_in(shared.key, run.num_clients),
        servers=shared.servers,
        all_rows=own.rows,
        ids=own.id,
        mask=mask,
        n=n,
        steps=own.steps,
        variables=shared.variables,
        measured=Measured(measured),
        all_reports=reports or {},
    )


def view_of_everybody(spec: Spec, state: FedState) -> View:
    """All clients that have taken part so far, for a method that serves a model made of their rows."""
    count = spec.run.num_clients
    sizes = jnp.asarray(spec.run.sizes, default_float())
    none = jnp.zeros((count, 1), jnp.int32)
    own = Own(jnp.arange(count), none, none > 0, sizes, jnp.zeros(count, default_float()), state.clients)
    return view(spec.run, shared_of(state), own, state.seen > 0)


def with_rows(tables: dict[str, PyTree], places: Array, rows: dict[str, PyTree]) -> dict[str, PyTree]:
    """The tables of all clients' rows with new rows at these places; None and a place beyond the end write nothing."""
    new = {name: row for name, row in rows.items() if row is not None}
    return {name: tree.put_rows(table, places, new[name]) if name in new else table for name, table in tables.items()}
