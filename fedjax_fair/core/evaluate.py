"""Evaluation: the global model on every test set, and each client's own model on its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_fair.core import client, client_map, server, tree
from fedjax_fair.core.spec import ClientData, Spec
from fedjax_fair.core.types import Array, Cohort, FedState, PyTree, Tests, Variables

KINDS = ('global', 'deployed', 'adapted')


def personalises(methods) -> bool:
    """Whether clients use anything but the global model."""
    return any(m.download is not None or m.deploy is not None for m in methods)


def make_evaluate(spec: Spec, spread: client_map.ClientMap, arrange: Callable):
    """``evaluate(state, tests, kinds, cohort, rng)`` of one algorithm."""

    def evaluate(
        state: FedState,
        tests: Tests,
        kinds: tuple[str, ...] = ('global',),
        cohort: Cohort | None = None,
        rng: Array | None = None,
    ) -> dict[str, dict[str, Array]]:
        """Metrics of the chosen kinds of model.

        ``global``: the served model on every test set (``[G]`` arrays). ``deployed``: the model each client would use,
        on its own test set (``[N]`` arrays); a client never sampled uses the global model. ``adapted``: the model it
        receives after one ordinary local training on its data in ``cohort``, also ``[N]``. Clients whose rows the state
        does not hold, and those whose data is not there, have NaN.
        """
        for kind in kinds:
            if kind not in KINDS:
                raise ValueError(f'kind {kind!r} is not one of {", ".join(KINDS)}')
        served = _served(spec, state)
        found = {}
        if 'global' in kinds:
            found['global'] = _global(spec, spread, state, served, tests)
        if 'deployed' in kinds and personalises(spec.methods):
            found['deployed'] = _deployed(spec, spread, state, served, tests, cohort)
        elif 'deployed' in kinds:  # everybody uses the global model
            metrics = found.get('global') or _global(spec, spread, state, served, tests)
            found['deployed'] = jax.tree.map(lambda leaf: jnp.take(leaf, jnp.asarray(tests.test_of), axis=0), metrics)
        if 'adapted' in kinds:
            if cohort is None or rng is None:
                raise ValueError("kind 'adapted' needs the clients' training data: pass cohort= and rng=")
            found['adapted'] = _adapted(spec, spread, arrange, state, tests, cohort, rng)
        return found

    return evaluate


def _served(spec: Spec, state: FedState) -> Variables:
    owner = next((m for m in spec.methods if m.serve is not None), None)
    if owner is None or owner.serve is None:
        return state.variables
    everyone = jnp.arange(spec.run.num_clients)
    floats = jnp.zeros(0).dtype
    view = server.View(
        run=spec.run,
        round=state.round,
        key=jax.random.key(0),
        servers=state.server,
        all_rows=state.clients,
        ids=everyone,
        mask=state.seen > 0,
        n=jnp.asarray(spec.run.sizes, floats),
        steps=jnp.zeros(spec.run.num_clients, floats),
        reports=server.Reports(),
        variables=state.variables,
        me=owner.name,
    )
    return owner.serve(view, state.clients.get(owner.name))


def _context(spec: Spec, state_parts, id_: Array, rows) -> client.Context:
    """The context of a client that is only evaluated: no data, no randomness."""
    round_, servers, variables = state_parts
    none = jnp.zeros((1,), jnp.int32)
    data = ClientData(none, none, none, none > 0, jnp.zeros((), jnp.int32))
    return client.Context(spec, round_, id_, jax.random.key(0), servers, rows, variables, data)


def _first_rows(state: FedState):
    return {name: jax.tree.map(lambda leaf: leaf[0], table) for name, table in state.clients.items()}


def _logits(spec: Spec, ctx: client.Context, variables: Variables, x: Array, mask: Array) -> Array:
    x, _ = spec.transform(ctx, client.start_scratch(ctx), spec.preprocess(x))
    return ctx.apply(variables, x, mask, False).logits


def _records(spec: Spec, ctx: client.Context, variables: Variables, x: Array, y: Array, mask: Array):
    """Per-example facts of one batch."""
    return spec.task.record(_logits(spec, ctx, variables, x, mask), y)


def predict(spec: Spec, state: FedState, x: Array) -> Array:
    """Logits of the served global model for stored inputs ``x[B, ...]``."""
    served = _served(spec, state)
    ctx = _context(spec, (state.round, state.server, served), jnp.array(spec.run.num_clients), _first_rows(state))
    return _logits(spec, ctx, served, x, jnp.ones(x.shape[0], bool))


def _in_batches(spec: Spec, tests_xym):
    """Cut ``[..., M]`` test sets into equal batches ``[..., b, B]``."""
    width = tests_xym[2].shape[-1]
    count = -(-width // spec.eval_batch_size)
    size = -(-width // count)

    def cut(leaf, lead):
        pads = [(0, 0)] * leaf.ndim
        pads[lead] = (0, count * size - width)
        leaf = jnp.pad(leaf, pads)
        return leaf.reshape(*leaf.shape[:lead], count, size, *leaf.shape[lead + 1 :])

    lead = tests_xym[2].ndim - 1
    return tuple(cut(leaf, lead) for leaf in tests_xym), (count, size, width)


def _global(spec, spread, state: FedState, served: Variables, tests: Tests) -> dict[str, Array]:
    (x, y, mask), (count, size, width) = _in_batches(spec, (tests.x, tests.y, tests.mask))
    sets = mask.shape[0]
    batches = jax.tree.map(lambda leaf: leaf.reshape(sets * count, *leaf.shape[2:]), (x, y, mask))
    spread, slots = client_map.fit(spread, sets * count)
    batches = jax.tree.map(
        lambda leaf: jnp.pad(leaf, ((0, slots - sets * count),) + ((0, 0),) * (leaf.ndim - 1)), batches
    )
    nobody = jnp.array(spec.run.num_clients)
    parts = (state.round, state.server, served)

    def one(shared, batch):
        parts, rows = shared
        return _records(spec, _context(spec, parts, nobody, rows), parts[2], *batch)

    records = client_map.map_clients(spread, one, (parts, _first_rows(state)), batches)
    records = jax.tree.map(
        lambda leaf: leaf[: sets * count].reshape(sets, count * size, *leaf.shape[2:])[:, :width], records
    )
    return jax.vmap(spec.task.metrics)(records, jnp.asarray(tests.y), jnp.asarray(tests.mask))


def _set_metrics(spec, ctx, variables, tests: Tests, which: Array) -> dict[str, Array]:
    """Metrics of one model on one test set, batch by batch."""
    chosen = tuple(jnp.take(jnp.asarray(leaf), which, axis=0) for leaf in (tests.x, tests.y, tests.mask))
    batches, (_, _, width) = _in_batches(spec, chosen)
    records = jax.lax.map(lambda batch: _records(spec, ctx, variables, *batch), batches)
    records = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:width], records)
    return spec.task.metrics(records, chosen[1], chosen[2])


def _deployed(spec, spread, state: FedState, served: Variables, tests: Tests, cohort: Cohort | None):
    """Of all clients, or of those in the cohort where the state holds only their rows."""
    everyone = jnp.arange(spec.run.num_clients)
    ids, at = (everyone, everyone) if cohort is None or cohort.places is None else (cohort.ids, cohort.places)
    spread, slots = client_map.fit(spread, ids.shape[0])
    slot = jnp.minimum(jnp.arange(slots), ids.shape[0] - 1)
    rows = {name: tree.take_rows(table, at[slot]) for name, table in state.clients.items()}
    ids = ids[slot]
    which = jnp.take(jnp.asarray(tests.test_of), ids, mode='clip')

    def one(shared, inputs):
        parts, served, tests = shared
        id_, rows, seen, which = inputs
        ctx = _context(spec, parts, id_, rows)
        variables = tree.select(seen > 0, client.deploy(ctx), served)
        return _set_metrics(spec, ctx, variables, tests, which)

    shared = ((state.round, state.server, state.variables), served, tests)
    seen = jnp.take(state.seen, ids, mode='clip')
    return _in_order(spec, client_map.map_clients(spread, one, shared, (ids, rows, seen, which)), ids)


def _adapted(spec, spread, arrange, state: FedState, tests: Tests, cohort: Cohort, rng: Array) -> dict[str, Array]:
    spread, cohort, n, steps = arrange(spread, cohort)
    rows = {name: tree.take_rows(table, cohort.rows_at) for name, table in state.clients.items()}
    which = jnp.take(jnp.asarray(tests.test_of), cohort.ids, mode='clip')
    parts = (state.round, state.server, state.variables)

    def one(shared, inputs):
        parts, x, y, tests, rng = shared
        id_, where, ex_mask, n, steps, rows, which = inputs
        own = jax.random.fold_in(rng, id_)
        data = spec.with_outliers(ClientData(x, y, where, ex_mask, n), own, id_)
        ctx = dataclasses.replace(_context(spec, parts, id_, rows), data=data, steps=steps)
        ctx = client.download(dataclasses.replace(ctx, key=own))
        trained = client.fit(ctx, None)
        return _set_metrics(spec, ctx, trained.variables, tests, which)

    inputs = (cohort.ids, cohort.where, cohort.ex_mask, n, steps, rows, which)
    found = client_map.map_clients(spread, one, (parts, cohort.x, cohort.y, tests, rng), inputs)
    return _in_order(spec, found, cohort.ids)


def _in_order(spec: Spec, found: PyTree, ids: Array) -> PyTree:
    """``[N, ...]`` by the clients' numbers; NaN, or 0 among integers, where a client is not among ``ids``."""

    def table(leaf: Array) -> Array:
        empty = jnp.nan if leaf.dtype.kind == 'f' else 0
        return jnp.full((spec.run.num_clients, *leaf.shape[1:]), empty, leaf.dtype).at[ids].set(leaf, mode='drop')

    return jax.tree.map(table, found)
