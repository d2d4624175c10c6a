"""``build``: the only round there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_fair.core import check, client, round_log, server, tree
from fedjax_fair.core import cohort as cohorts
from fedjax_fair.core.client_map import ClientMap, map_clients, map_sum, replicate, resolve, within_memory
from fedjax_fair.core.cohort import OPTIMIZER_ROW, Own, Shared
from fedjax_fair.core.evaluate import make_evaluate, personalises, predict
from fedjax_fair.core.homes import Homes
from fedjax_fair.core.idle import Setting
from fedjax_fair.core.local import Local, checked_local, make_optimizer, rate
from fedjax_fair.core.method import Measured, Method, View
from fedjax_fair.core.passes import count_passes
from fedjax_fair.core.platform import current
from fedjax_fair.core.spec import EVAL_BATCH_SIZE, Spec
from fedjax_fair.core.types import (
    Algorithm,
    Array,
    Cohort,
    FedState,
    Model,
    Outliers,
    PyTree,
    Run,
    Task,
    default_float,
)
from fedjax_fair.errors import UserError
from fedjax_fair.options import at_least, between, with_checked_ranges


def as_float(x: Array) -> Array:
    """Images stored as uint8 become floats in [0, 1]; anything else is used as it is."""
    return x.astype(default_float()) / 255 if x.dtype == jnp.uint8 else x


@with_checked_ranges
def build(
    model: Model,
    task: Task,
    methods: Sequence[Method],
    *,
    sizes: Sequence[int] | np.ndarray,
    example: Any,
    local: Local = Local(),
    rounds: Annotated[int, 'rounds of federated training', between(1, 10**6)] = 1,
    server_opt: optax.GradientTransformation | None = None,
    client_map: str | ClientMap = 'auto',
    preprocess: Callable[[Array], Array] = as_float,
    augment: Callable[[Array, Array], Array] | None = None,
    outliers: Outliers | None = None,
    eval_batch_size: Annotated[
        int, 'most examples of a test set that go through the network at once', at_least(1)
    ] = EVAL_BATCH_SIZE,
    homes: Homes | None = None,
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
      eval_batch_size: the most examples that evaluations and passes over training data take at once.
      homes: where client rows and examples are, divided over the devices of ``client_map``; None: on all of them.

    Returns:
      Pure functions ``init(rng, start, rows)`` (``start``: some of the model's variables, such as pretrained ones;
      ``rows``: how many client rows the state holds), ``round(state, cohort, rng)``, ``evaluate(state, tests, ...)``,
      ``predict(state, x)``, the logits of the global model, and ``measure(state, cohort, fn, *more)``, what
      ``fn(ctx, *more)`` finds at every client that took the model home, by client number. ``passes(label)`` counts how
      often a client runs the network (``label``: of one example). ``round`` is to be jitted with the state donated.
    """
    around = {'augment': augment, 'outliers': outliers, 'eval_batch_size': eval_batch_size, 'homes': homes}
    spec, facts = _specify(model, task, methods, sizes, example, local, rounds, preprocess, **around)
    client_map = within_memory(resolve(client_map), facts['model_bytes'], spec.run.num_clients, current().memory)
    spec = dataclasses.replace(spec, seats=Homes.of(spec.run.sizes, facts['setting'].steps, client_map))
    owner = next((m for m in spec.methods if m.server_opt is not None), None)
    if owner is not None and server_opt is not None:
        raise UserError(f'server_opt is given, but {owner.name} brings its own')
    optimizer = owner.server_opt if owner is not None else server_opt or optax.scale(-1.0)
    facts |= {'client_map': client_map, 'stacked': needs_stack(spec.methods)} | _facts_of(spec.methods)
    return Algorithm(
        init=lambda rng, start=None, rows=None: _placed(spec, client_map, _init(spec, optimizer, rng, start, rows)),
        round=lambda state, cohort, rng: _round(spec, client_map, optimizer, state, cohort, rng),
        evaluate=make_evaluate(spec, client_map),
        predict=lambda state, x: predict(spec, state, x),
        measure=lambda state, cohort, fn, *more: _measure(spec, client_map, state, cohort, fn, more),
        run=spec.run,
        facts=facts,
        passes=lambda label: count_passes(spec, lambda: _init(spec, optimizer, jax.random.key(0), rows=1), label),
    )


def needs_stack(methods: Sequence[Method]) -> bool:
    """Whether any method must see all updates at once."""
    return any(m.needs_all or m.revise is not None or m.reduce is not None for m in methods)


def _facts_of(methods: Sequence[Method]) -> dict[str, Any]:
    return {
        'serves': next((m.name for m in methods if m.serve is not None), None),
        'methods': tuple(m.name for m in methods),
        'headline': 'deployed' if personalises(methods) else 'global',
    }


def _specify(
    model: Model,
    task: Task,
    methods: Sequence[Method],
    sizes: Sequence[int] | np.ndarray,
    example: Any,
    local: Local,
    rounds: int,
    preprocess: Callable[[Array], Array],
    **around: Any,
) -> tuple[Spec, dict]:
    """All that is fixed before the first round, and what there is to tell about it; ``around`` is for Spec alone."""
    methods = check.in_order(methods)
    local, fixed_by = check.resolved_local(checked_local(local), methods)
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
        lr=rate(local),
        momentum=local.momentum if local.optimizer == 'sgd' and not local.keep_optimizer else 0.0,
    )
    lengths = {int(n) for n in sizes if n > 0}
    spec = Spec(
        model=model,
        task=task,
        methods=methods,
        local=local,
        phases=check.resolved_phases(methods, local, fixed_by),
        run=run,
        preprocess=preprocess,
        only_size=lengths.pop() if len(lengths) == 1 else None,
        **around,
    )
    told = {'score': task.score, 'fixed_by': fixed_by, 'local': local, 'setting': _setting(spec, shapes)}
    return spec, {**told, 'turns': spec.turns(), 'model_bytes': tree.num_bytes(shapes)}


def _setting(spec: Spec, shapes: PyTree) -> Setting:
    """What methods are asked about before a run, see :mod:`fedjax_fair.core.idle`."""
    sizes, where = np.unique(spec.run.sizes, return_inverse=True)
    steps = np.array([int(spec.steps(int(n))) for n in sizes])
    return Setting(spec.run, shapes, spec.local, steps[where])


def _init(
    spec: Spec,
    optimizer: optax.GradientTransformation,
    rng: Array,
    start: dict | None = None,
    rows: int | None = None,
) -> FedState:
    rows = (spec.run.num_clients if spec.homes is None else spec.homes.slots) if rows is None else rows
    example = spec.preprocess(jnp.asarray(spec.run.example)[None])
    variables = tree.replaced(spec.model.init(rng, example), start or {})
    servers, clients = server.initial_entries(spec.methods, variables, spec.run, rows)
    if spec.local.keep_optimizer:
        fresh = make_optimizer(spec.local, spec.run.lr(jnp.zeros((), jnp.int32))).init(variables['params'])
        clients[OPTIMIZER_ROW] = tree.repeat_row(fresh, rows)
    seen = jnp.zeros(spec.run.num_clients, jnp.int32)
    return FedState(jnp.zeros((), jnp.int32), variables, optimizer.init(variables['params']), servers, clients, seen)


def _placed(spec: Spec, client_map: ClientMap, state: FedState) -> FedState:
    """The state where rounds leave it, so that the first one is compiled as all later ones are."""
    if spec.homes is None:
        return replicate(client_map, state)
    rows = jax.lax.with_sharding_constraint(state.clients, spec.homes.divided)
    return replicate(client_map, state._replace(clients={}))._replace(clients=rows)


def _round(
    spec: Spec,
    client_map: ClientMap,
    optimizer: optax.GradientTransformation,
    state: FedState,
    cohort: Cohort,
    rng: Array,
) -> tuple[FedState, dict[str, Array]]:
    arranged = cohorts.arrange(spec, client_map, cohort)
    client_map, cohort = arranged.client_map, arranged.cohort
    shared, own = cohorts.inputs(spec, state, arranged, jax.random.fold_in(rng, state.round))
    probed = client.Findings()
    if spec.probes:
        probed = map_clients(client_map, lambda s, o: client.probe(cohorts.context(spec, s, o)), shared, own)
    invited = cohort.mask & _rows_finite(probed, cohort.mask)
    probed = tree.keep_rows(invited, probed)
    view = cohorts.view(spec.run, shared, own, invited, probed.measured, probed.reports)
    weights = None if needs_stack(spec.methods) else server.weigh(spec.methods, view, None)
    result, sent, ok = _train(spec, client_map, view, weights, shared, own, probed)
    done = server.step(spec.methods, result, optimizer, state.opt)
    state = _commit(spec, state, arranged, ok & done.alive, done, sent)
    said = round_log.metrics(spec.methods, view, cohort, done, sent, ok, tree.num_bytes((probed, sent.findings)))
    return state, said | round_log.work(spec, client_map, arranged, sent)


def _measure(
    spec: Spec, client_map: ClientMap, state: FedState, cohort: Cohort, fn: Callable[..., PyTree], more: tuple
) -> PyTree:
    """``[num_clients, ...]``; zero for clients that are not in the cohort."""
    arranged = cohorts.arrange(spec, client_map, cohort)
    shared, own = cohorts.inputs(spec, state, arranged, jax.random.key(0))

    def ask(shared: PyTree, one: Own) -> PyTree:
        everybodys, more = shared
        return fn(client.download(cohorts.context(spec, everybodys, one)), *more)

    measured = map_clients(arranged.client_map, ask, (shared, more), own)
    target = jnp.where(arranged.cohort.mask, own.id, spec.run.num_clients)
    return jax.tree.map(
        lambda leaf: tree.put_rows(jnp.zeros((spec.run.num_clients, *leaf.shape[1:]), leaf.dtype), target, leaf),
        measured,
    )


class _Inputs(NamedTuple):
    """What training one client takes; of a whole cohort with a leading axis ``[C]``."""

    own: Own
    invited: Array
    weights: dict[str, Array] | None
    probed: client.Findings


def _train(
    spec: Spec,
    client_map: ClientMap,
    view: View,
    weights: dict[str, Array] | None,
    shared: Shared,
    own: Own,
    probed: client.Findings,
) -> tuple[server.Aggregate, client.Sent, Array]:
    """Train the cohort and aggregate: chunk by chunk when the weights are known, else over stacked updates."""
    keeps = spec.local.keep_optimizer

    def one(shared: Shared, inputs: _Inputs) -> tuple[PyTree, tuple[client.Sent, Array]]:
        ctx = cohorts.context(spec, shared, inputs.own)
        ctx = dataclasses.replace(ctx, probes=inputs.probed.reports, measured=inputs.probed.measured)
        sent = client.train_and_send(ctx, ctx.rows.get(OPTIMIZER_ROW))
        ok = inputs.invited & client.finite(sent)
        sent = sent._replace(opt=sent.opt if keeps else (), loss_sum=jnp.where(ok, sent.loss_sum, 0))
        if inputs.weights is None:
            return (), (sent, ok)
        shares = {kind: jnp.where(ok, weight, 0) for kind, weight in inputs.weights.items()}
        part = _by_kind(lambda u, share: jnp.where(ok, u * share, 0), sent.update, shares)
        return (part, shares), (sent._replace(update={}), ok)

    zero: PyTree = ()
    if weights is not None:
        zero = jax.tree.map(jnp.zeros_like, (view.variables, {kind: own[0] for kind, own in weights.items()}))
    sums, (sent, ok) = map_sum(client_map, one, zero, shared, _Inputs(own, view.mask, weights, probed))
    findings = tree.keep_rows(ok, probed.joined(sent.findings))
    view = dataclasses.replace(view, mask=ok, measured=Measured(findings.measured), all_reports=findings.reports)
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
    return jax.vmap(tree.all_finite)(values) if jax.tree.leaves(values) else mask


def _commit(
    spec: Spec, state: FedState, arranged: cohorts.Arranged, ok: Array, done: server.Committed, sent: client.Sent
) -> FedState:
    """Write the rows of the clients that took part; everybody else's stay as they are, bit for bit."""
    optimizers = {OPTIMIZER_ROW: sent.opt} if spec.local.keep_optimizer else {}
    clients = cohorts.with_rows_of(spec, arranged, state.clients, ok, sent.rows | done.rows | optimizers)
    seen = state.seen.at[jnp.where(ok, arranged.cohort.ids, spec.run.num_clients)].add(1, mode='drop')
    return FedState(state.round + 1, done.variables, done.opt, done.servers, clients, seen)
