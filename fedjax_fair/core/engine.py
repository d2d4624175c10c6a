"""``build``: the only round there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_fair.core import check, client, server, tree
from fedjax_fair.core import client_map as mapping
from fedjax_fair.core import local as training
from fedjax_fair.core.evaluate import make_evaluate, predict
from fedjax_fair.core.spec import ClientData, Spec
from fedjax_fair.core.types import Algorithm, Array, Cohort, FedState, Method, Model, Outliers, PyTree, Run, Task

OPTIMIZER_ROW = 'local_optimizer'  # client rows of the engine itself: optimiser states that are kept


def as_float(x: Array) -> Array:
    """Images stored as uint8 become floats in [0, 1]; anything else is used as it is."""
    return x.astype(jnp.zeros(0).dtype) / 255 if x.dtype == jnp.uint8 else x


def build(
    model: Model,
    task: Task,
    methods: Sequence[Method],
    *,
    sizes: Sequence[int] | np.ndarray,
    example: Any,
    local: training.Local = training.Local(),
    rounds: int = 1,
    server_opt: optax.GradientTransformation | None = None,
    client_map: str | mapping.ClientMap = 'auto',
    preprocess: Callable[[Array], Array] = as_float,
    augment: Callable[[Array, Array], Array] | None = None,
    outliers: Outliers | None = None,
) -> Algorithm:
    """Compose a model, a task and a list of methods into a federated algorithm.

    Args:
      sizes: number of training examples of each client; also tells how many clients there are.
      example: one input, without batch axis, as stored in the data.
      local: how a client trains; methods may fix parts of it.
      rounds: the planned number of rounds, for methods whose schedules depend on it.
      server_opt: optax optimiser of the server; it receives minus the aggregated update. Default: add the update.
      client_map: how clients are spread, see :mod:`fedjax_fair.core.client_map`.
      preprocess: turns stored inputs into model inputs on device.
      augment: ``(key, x) -> x`` on every training batch.
      outliers: which training examples are spoiled, and how.

    Returns:
      Pure functions ``init(rng, start, rows)`` (``start``: some of the model's variables, such as pretrained ones;
      ``rows``: how many client rows the state holds, by default one for every client),
      ``round(state, cohort, rng)``, ``evaluate(state, tests, ...)``, ``predict(state, x)``, the logits of the global
      model, and ``measure(state, cohort, fn, *more)``, what ``fn(ctx, *more)`` finds at every client that took the
      model home, by client number. ``round`` is meant to be jitted with the state donated; it never leaves the device.
    """
    spec, facts = _specify(model, task, methods, sizes, example, local, rounds, preprocess, augment, outliers)
    spread = mapping.within_memory(
        mapping.resolve(client_map), facts['model_bytes'], spec.run.num_clients, mapping.device_memory()
    )
    owner = next((m for m in spec.methods if m.server_opt is not None), None)
    if owner is not None and server_opt is not None:
        raise ValueError(f'server_opt is given, but {owner.name} brings its own')
    optimizer = owner.server_opt if owner is not None else server_opt or optax.scale(-1.0)
    facts |= {'client_map': spread.describe(), 'stacked': needs_stack(spec.methods)}
    facts['serves'] = next((m.name for m in spec.methods if m.serve is not None), None)

    def round_(state: FedState, cohort: Cohort, rng: Array):
        return _round(spec, spread, optimizer, state, cohort, rng)

    return Algorithm(
        init=lambda rng, start=None, rows=None: mapping.replicate(
            spread, _init(spec, optimizer, rng, start or {}, spec.run.num_clients if rows is None else rows)
        ),
        round=round_,
        evaluate=make_evaluate(spec, spread, lambda *a: _arranged(spec, *a)),
        predict=lambda state, x: predict(spec, state, x),
        measure=lambda state, cohort, fn, *more: _measure(spec, spread, state, cohort, fn, more),
        run=spec.run,
        facts=facts,
    )


def needs_stack(methods: Sequence[Method]) -> bool:
    """Whether any method must see all updates at once."""
    return any(m.needs_all or m.revise is not None or m.reduce is not None for m in methods)


def _specify(model, task, methods, sizes, example, base, rounds, preprocess, augment, outliers) -> tuple[Spec, dict]:
    methods = check.checked_methods(methods)
    base, fixed_by = check.resolved_local(training.check(base), methods)
    lr = training.rate(base)
    one = jax.eval_shape(lambda: preprocess(jnp.asarray(example)[None]))
    key, flag = jax.ShapeDtypeStruct((2,), jnp.uint32), jax.ShapeDtypeStruct((1,), bool)
    shapes = jax.eval_shape(model.init, key, one)
    out = jax.eval_shape(lambda v, x, m, k: model.apply(v, x, m, False, k), shapes, one, flag, key)
    sizes = np.asarray(sizes, np.int64)
    run = Run(
        num_clients=len(sizes),
        sizes=sizes,
        num_classes=task.num_classes,
        feature_dim=int(np.prod(out.features.shape[1:])),
        example=np.asarray(example),
        rounds=rounds,
        lr=lr,
        momentum=base.momentum if base.optimizer == 'sgd' and not base.keep_optimizer else 0.0,
    )
    lengths = {int(n) for n in sizes if n > 0}
    spec = Spec(
        model=model,
        task=task,
        methods=methods,
        local=base,
        phases=check.resolved_phases(methods, base),
        run=run,
        preprocess=preprocess,
        augment=augment,
        outliers=outliers,
        only_size=lengths.pop() if len(lengths) == 1 else None,
    )
    return spec, {'score': task.score, 'fixed_by': fixed_by, 'local': base, 'model_bytes': tree.num_bytes(shapes)}


def _init(spec: Spec, optimizer: optax.GradientTransformation, rng: Array, start: dict, rows: int) -> FedState:
    example = spec.preprocess(jnp.asarray(spec.run.example)[None])
    variables = tree.replaced(spec.model.init(rng, example), start)
    servers, clients = server.initial_entries(spec.methods, variables, spec.run, rows)
    if spec.local.keep_optimizer:
        fresh = training.make_optimizer(spec.local, spec.run.lr(jnp.zeros((), jnp.int32))).init(variables['params'])
        clients[OPTIMIZER_ROW] = tree.repeat_row(fresh, rows)
    seen = jnp.zeros(spec.run.num_clients, jnp.int32)
    return FedState(jnp.zeros((), jnp.int32), variables, optimizer.init(variables['params']), servers, clients, seen)


def _arranged(spec: Spec, spread: mapping.ClientMap, cohort: Cohort):
    """Pad the cohort to whole chunks and deal it out by length; returns the fitted map, cohort, n and steps."""
    spread, slots = mapping.fit(spread, cohort.ids.shape[0])
    extra = slots - cohort.ids.shape[0]

    def pad(leaf, value):
        return jnp.pad(leaf, ((0, extra),) + ((0, 0),) * (leaf.ndim - 1), constant_values=value)

    cohort = cohort._replace(
        ids=pad(cohort.ids, spec.run.num_clients),
        mask=pad(cohort.mask, False),
        where=pad(cohort.where, 0),
        ex_mask=pad(cohort.ex_mask & cohort.mask[:, None], False),
        places=None if cohort.places is None else pad(cohort.places, spec.run.num_clients),
    )
    n = jnp.sum(cohort.ex_mask.astype(jnp.int32), 1)
    steps = sum(training.num_steps(spec.local, phase, n) for phase in spec.phases)
    if len({int(size) for size in spec.run.sizes}) > 1:
        order = mapping.deal(steps, spread)
        own = (cohort.ids, cohort.mask, cohort.where, cohort.ex_mask, cohort.places, n, steps)
        ids, mask, where, ex_mask, places, n, steps = jax.tree.map(lambda leaf: leaf[order], own)
        cohort = cohort._replace(ids=ids, mask=mask, where=where, ex_mask=ex_mask, places=places)
    # A client without examples has nothing to say: it counts as absent.
    return spread, cohort._replace(mask=cohort.mask & (n > 0)), n, steps.astype(jnp.zeros(0).dtype)


def _round(spec, spread, optimizer, state: FedState, cohort: Cohort, rng: Array) -> tuple[FedState, dict[str, Array]]:
    spread, cohort, n, steps = _arranged(spec, spread, cohort)
    key = jax.random.fold_in(rng, state.round)
    shared, clients = _inputs(state, cohort, key, n, steps)
    rows = clients[-1]
    reports: dict[str, Array] = {}
    if any(m.probe is not None for m in spec.methods):
        reports = mapping.map_clients(spread, lambda s, c: client.probe(_context(spec, s, c)), shared, clients)
    invited = cohort.mask & _rows_finite(reports, cohort.mask)
    view = server.View(
        run=spec.run,
        round=state.round,
        key=jax.random.fold_in(key, spec.run.num_clients),
        servers=state.server,
        all_rows=rows,
        ids=cohort.ids,
        mask=invited,
        n=n.astype(jnp.zeros(0).dtype),
        steps=steps,
        reports=server.Reports(tree.keep_rows(invited, reports)),
        variables=state.variables,
    )
    stacked = needs_stack(spec.methods)
    weights = None if stacked else server.weights_of(spec.methods, view, server.weigh(spec.methods, view, None))
    result, sent, ok = _train(spec, spread, view, weights, shared, clients)
    done = server.step(spec.methods, result, optimizer, state.opt)
    state = _commit(spec, state, cohort, ok & done.alive, done, sent)
    return state, _metrics(spec.methods, view, cohort, done, sent, ok) | _work(spec, spread, n, steps, sent)


def _measure(spec, spread, state: FedState, cohort: Cohort, fn: Callable[..., PyTree], more: tuple) -> PyTree:
    """``[num_clients, ...]``; zero for clients that are not in the cohort."""
    spread, cohort, n, steps = _arranged(spec, spread, cohort)
    shared, clients = _inputs(state, cohort, jax.random.key(0), n, steps)

    def ask(shared: PyTree, one: PyTree) -> PyTree:
        everybodys, more = shared
        return fn(client.download(_context(spec, everybodys, one)), *more)

    found = mapping.map_clients(spread, ask, (shared, more), clients)
    target = jnp.where(cohort.mask, cohort.ids, spec.run.num_clients)
    return jax.tree.map(
        lambda leaf: tree.put_rows(jnp.zeros((spec.run.num_clients, *leaf.shape[1:]), leaf.dtype), target, leaf), found
    )


def _inputs(state: FedState, cohort: Cohort, key: Array, n: Array, steps: Array) -> tuple[tuple, tuple]:
    """What all clients share and what each has of its own; see :func:`_context`."""
    rows = {name: tree.take_rows(table, cohort.rows_at) for name, table in state.clients.items()}
    shared = (state.round, key, state.variables, state.server, cohort.x, cohort.y)
    return shared, (cohort.ids, cohort.mask, cohort.where, cohort.ex_mask, n, steps, rows)


def _context(spec: Spec, shared: PyTree, one: PyTree) -> client.Context:
    round_, key, variables, servers, x, y = shared
    id_, _, where, ex_mask, n, steps, rows = one
    # Randomness belongs to the client, never to its slot.
    own = jax.random.fold_in(key, id_)
    data = spec.with_outliers(ClientData(x, y, where, ex_mask, n), own, id_)
    return client.Context(spec, round_, id_, own, servers, rows, variables, data, steps)


def _train(spec, spread, view: server.View, weights: dict[str, Array] | None, shared, clients):
    """Train the cohort and aggregate: chunk by chunk when the weights are known, else over stacked updates."""
    keeps = spec.local.keep_optimizer

    def one(shared, inputs):
        this, allowed, own, probed = inputs
        ctx = dataclasses.replace(_context(spec, shared, this), probe=probed)
        sent = client.train_and_send(ctx, ctx.rows.get(OPTIMIZER_ROW))
        ok = allowed & client.finite(sent)
        sent = sent._replace(opt=sent.opt if keeps else (), loss_sum=jnp.where(ok, sent.loss_sum, 0))
        if own is None:
            return (), (sent, ok)
        shares = {kind: jnp.where(ok, weight, 0) for kind, weight in own.items()}
        part = _by_kind(lambda u, share: jnp.where(ok, u * share, 0), sent.update, shares)
        return (part, shares), (sent._replace(update={}), ok)

    inputs = (clients, view.mask, weights, dict(view.reports))
    zero: PyTree = ()
    if weights is not None:
        zero = jax.tree.map(jnp.zeros_like, (view.variables, {kind: own[0] for kind, own in weights.items()}))
    sums, (sent, ok) = mapping.map_sum(spread, one, zero, shared, inputs)
    reports = server.Reports(tree.keep_rows(ok, {**view.reports, **sent.reports}))
    view = dataclasses.replace(view, mask=ok, reports=reports)
    if weights is None:
        return server.aggregate(spec.methods, view, sent.update), sent, ok
    total, masses = sums
    masses = {kind: jnp.maximum(mass, jnp.finfo(mass.dtype).tiny) for kind, mass in masses.items()}
    update = _by_kind(lambda leaf, mass: leaf / mass, total, masses)
    return server.Aggregate(jnp.where(ok, weights['params'], 0) / masses['params'], update, None, view), sent, ok


def _by_kind(fn: Callable[[Array, Array], Array], variables: PyTree, factors: dict[str, Array]) -> PyTree:
    """``fn(leaf, factor)`` of all leaves, with the factor of their kind of variables in their own precision."""
    return {
        kind: jax.tree.map(lambda leaf, factor=factors[kind]: fn(leaf, factor.astype(leaf.dtype)), part)
        for kind, part in variables.items()
    }


def _rows_finite(values: PyTree, mask: Array) -> Array:
    return jax.vmap(tree.all_finite)(values) if values else mask


def _commit(spec, state: FedState, cohort: Cohort, ok: Array, done: server.Committed, sent: client.Sent) -> FedState:
    """Write the rows of the clients that took part; everybody else's stay as they are, bit for bit."""
    places, ids = (jnp.where(ok, at, spec.run.num_clients) for at in (cohort.rows_at, cohort.ids))
    written = {name: row for name, row in sent.rows.items() if row is not None} | done.rows
    if spec.local.keep_optimizer:
        written[OPTIMIZER_ROW] = sent.opt
    clients = {
        name: tree.put_rows(table, places, written[name]) if name in written else table
        for name, table in state.clients.items()
    }
    seen = state.seen.at[ids].add(1, mode='drop')
    return FedState(state.round + 1, done.variables, done.opt, done.servers, clients, seen)


def _work(spec: Spec, spread: mapping.ClientMap, n: Array, steps: Array, sent: client.Sent) -> dict[str, Array]:
    """Steps and examples trained on, and examples paid for: a chunk costs as much as its longest client."""
    chunk = spread.chunk or n.shape[0]
    longest = jnp.max(n.reshape(-1, chunk), 1)
    paid = sum(
        training.num_examples(spec.local, phase, longest, training.last_batch(spec.local, phase, spec.only_size))
        for phase in spec.phases
    )
    return {
        'steps': jnp.sum(steps),
        'examples': jnp.sum(sent.examples),
        'examples_paid': chunk * jnp.sum(paid).astype(steps.dtype),
    }


def _metrics(methods, view, cohort: Cohort, done, sent: client.Sent, ok: Array) -> dict[str, Array]:
    """What a round says of itself."""
    down = tree.num_bytes(view.variables)
    down += sum(tree.num_bytes(view.servers[m.name]) for m in methods if m.broadcasts)
    up = tree.num_bytes(view.variables) + tree.num_bytes((dict(view.reports), sent.reports)) // len(ok)
    taking_part = jnp.sum(ok.astype(jnp.float32))
    return {
        'train_loss': jnp.sum(sent.loss_sum) / jnp.maximum(jnp.sum(jnp.where(ok, sent.examples, 0)), 1),
        'clients': taking_part,
        'failed': jnp.sum((cohort.mask & ~ok).astype(jnp.float32)),
        'empty': 1 - done.alive.astype(jnp.float32),
        'bytes_up': taking_part * float(up),
        'bytes_down': jnp.sum(view.mask.astype(jnp.float32)) * float(down),
    }
