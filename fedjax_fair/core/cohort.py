"""The clients of one round: arranged for the devices, each with its context, and as the server sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core import tree
from fedjax_fair.core.client_map import ClientMap, Divided, deal, fit
from fedjax_fair.core.homes import Homes
from fedjax_fair.core.method import Context, Measured, View
from fedjax_fair.core.spec import ClientData, Spec
from fedjax_fair.core.types import Array, Cohort, FedState, PyTree, Run, Variables, default_float

OPTIMIZER_ROW = 'local_optimizer'  # client rows of the engine itself: optimiser states that are kept


class Arranged(NamedTuple):
    """A cohort padded to whole chunks and dealt out by length, with each client's examples and steps.

    ``at_home``: whether every client trains where its home is, if it has one.
    """

    client_map: ClientMap
    cohort: Cohort
    n: Array
    steps: Array
    at_home: bool = False


class Shared(NamedTuple):
    """What all clients of a round have in common; ``examples`` are inputs and labels."""

    round: Array
    key: Array
    variables: Variables
    servers: Mapping[str, PyTree]
    examples: tuple[Array, Array] | Divided


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
    order, at_home = None, False
    if spec.seats is not None and slots == spec.seats.slots:
        order, at_home = _seated(spec.seats, cohort.ids), True
    elif len({int(size) for size in spec.run.sizes}) > 1:
        order = deal(steps, client_map)
    if order is not None:
        of_slots = {name: leaf for name, leaf in cohort._asdict().items() if name not in ('x', 'y')}
        of_slots, n, steps = jax.tree.map(lambda leaf: leaf[order], (of_slots, n, steps))
        cohort = cohort._replace(**of_slots)
    cohort = cohort._replace(mask=cohort.mask & (n > 0))
    return Arranged(client_map, cohort, n, steps.astype(default_float()), at_home)


def _seated(homes: Homes, ids: Array) -> Array:
    """The order of a cohort's slots in which every client has its own; absent clients leave empty slots.

    By sorting, because a compiler for TPU fails at the scatter that would be shorter.
    """
    order = jnp.argsort(ids, stable=True)  # empty slots last
    sorted_ids, wanted = ids[order], jnp.asarray(homes.clients_at, ids.dtype)
    place = jnp.minimum(jnp.searchsorted(sorted_ids, wanted), ids.shape[0] - 1)
    here = (sorted_ids[place] == wanted) & (wanted < len(homes.places))
    clients = jnp.sum(ids < len(homes.places), dtype=place.dtype)
    return order[jnp.where(here, place, clients + jnp.cumsum(~here, dtype=place.dtype) - 1)]


def inputs(spec: Spec, state: FedState, arranged: Arranged, key: Array) -> tuple[Shared, Own]:
    """What the clients of an arranged cohort share, and what each has of its own."""
    cohort = arranged.cohort
    rows = _rows(spec, state, arranged)
    examples, index = _examples(spec, arranged)
    shared = Shared(state.round, key, state.variables, state.server, examples)
    piles_up = spec.outliers is not None and spec.outliers.cumulative
    seen = jnp.take(state.seen, cohort.ids, mode='clip') if piles_up else None
    return shared, Own(cohort.ids, index, cohort.ex_mask, arranged.n, arranged.steps, rows, seen)


def _rows(spec: Spec, state: FedState, arranged: Arranged) -> dict[str, PyTree]:
    """The rows of the clients in every slot."""
    if spec.homes is None:
        return {name: tree.take_rows(table, arranged.cohort.rows_at) for name, table in state.clients.items()}
    if arranged.at_home or not jax.tree.leaves(state.clients):
        return state.clients
    return spec.homes.fetched(state.clients, spec.homes.request(arranged.cohort.ids))


def _examples(spec: Spec, arranged: Arranged) -> tuple[tuple[Array, Array] | Divided, Array]:
    """Inputs and labels as clients find them, and where each slot's are."""
    cohort = arranged.cohort
    examples = (cohort.x, cohort.y)
    if spec.homes is None:
        return examples, cohort.index
    if arranged.at_home:
        return Divided(examples), cohort.index
    slots = cohort.ids.shape[0] // spec.homes.devices
    room = int(np.sort(spec.run.sizes)[::-1][:slots].sum())
    brought, index = spec.homes.examples_of(examples, cohort.index, arranged.n, cohort.ids, max(1, room))
    return Divided(brought), index


def context(spec: Spec, shared: Shared, own: Own) -> Context:
    """The context of one client in training. Randomness belongs to the client, never to its slot."""
    key = jax.random.fold_in(shared.key, own.id)
    x, y = shared.examples.own if isinstance(shared.examples, Divided) else shared.examples
    data = ClientData(x, y, own.indices, own.ex_mask, own.n)
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
    return Shared(state.round, jax.random.key(0), model, state.server, (none, none))


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
    own = Own(jnp.arange(count), none, none > 0, sizes, jnp.zeros(count, default_float()), rows_of_all(spec, state))
    return view(spec.run, shared_of(state), own, state.seen > 0)


def rows_of_all(spec: Spec, state: FedState) -> dict[str, PyTree]:
    """The rows of all clients by their numbers."""
    return state.clients if spec.homes is None else spec.homes.listed(state.clients)


def with_rows(tables: dict[str, PyTree], places: Array, rows: dict[str, PyTree]) -> dict[str, PyTree]:
    """The tables of all clients' rows with new rows at these places; None and a place beyond the end write nothing."""
    return _with_new(tables, rows, lambda old, new: tree.put_rows(old, places, new))


def with_rows_of(
    spec: Spec, arranged: Arranged, tables: dict[str, PyTree], ok: Array, rows: dict[str, PyTree]
) -> dict[str, PyTree]:
    """The tables with the new rows of a cohort's clients, where these are ``ok``."""
    cohort, homes, count = arranged.cohort, spec.homes, spec.run.num_clients
    if homes is None:
        return with_rows(tables, jnp.where(ok, cohort.rows_at, count), rows)
    if arranged.at_home:
        return _with_new(tables, rows, lambda old, new: tree.select(ok, new, old))
    request = homes.request(jnp.where(ok, cohort.ids, count))
    return _with_new(tables, rows, lambda old, new: homes.delivered(old, request, new))


def _with_new(tables: dict[str, PyTree], rows: dict[str, PyTree], write: Callable) -> dict[str, PyTree]:
    """The tables, written where there are new rows and those have leaves."""
    new = {name: row for name, row in rows.items() if jax.tree.leaves(row)}
    return {name: write(table, new[name]) if name in new else table for name, table in tables.items()}
