"""Evaluation: the global model on every test set, and each client's own model on its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core import client, tree
from fedjax_fair.core import cohort as cohorts
from fedjax_fair.core.batches import Cut, slots_of, whole
from fedjax_fair.core.client_map import ClientMap, Divided, fit, map_clients
from fedjax_fair.core.cohort import Shared
from fedjax_fair.core.method import Context, Method
from fedjax_fair.core.spec import Spec
from fedjax_fair.core.types import Array, Cohort, FedState, PyTree, Tests, Variables
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of


class ModelKind(NamedTuple):
    """A kind of model that is evaluated.

    ``own``: every client has one of its own, scored on its own test set. ``trained``: it takes another local training,
    so that it is seldom evaluated, and its last evaluation alone is reported.
    """

    own: bool = True
    trained: bool = False


MODEL_KINDS = {'global': ModelKind(own=False), 'deployed': ModelKind(), 'adapted': ModelKind(trained=True)}
WITHOUT_TRAINING = tuple(kind for kind, about in MODEL_KINDS.items() if not about.trained)
KEPT = 'each_'  # begins the names of what every test example got


def kept_name(record: str) -> str:
    """The name under which ``evaluate`` gives a record of every test example, besides the metrics of its set."""
    return KEPT + record


def personalises(methods: Sequence[Method]) -> bool:
    """Whether clients use anything but the global model."""
    return any(m.download is not None or m.deploy is not None for m in methods)


def make_evaluate(spec: Spec, client_map: ClientMap):
    """``evaluate(state, tests, kinds, cohort, rng)`` of one algorithm."""

    def evaluate(
        state: FedState,
        tests: Tests,
        kinds: tuple[str, ...] = ('global',),
        cohort: Cohort | None = None,
        rng: Array | None = None,
        keep: tuple[str, ...] = (),
    ) -> dict[str, dict[str, Array]]:
        """Metrics of the chosen kinds of model.

        ``global``: the served model on every test set (``[G]`` arrays). ``deployed``: the model each client would use,
        on its own test set (``[N]`` arrays); a client never sampled uses the global model. ``adapted``: the model it
        receives after one ordinary local training on its data in ``cohort``, also ``[N]``. Clients whose rows the state
        does not hold, and those whose data is not there, have NaN.

        ``keep`` names records of the task (``prediction``, ...) that are given of every example of a test set too, by
        :func:`kept_name`: ``[G, M, ...]``, or ``[N, M, ...]`` of every client's own set.
        """
        for kind in kinds:
            if kind not in MODEL_KINDS:
                raise UserError(f'kind {kind!r} {not_one_of(kind, MODEL_KINDS)}')
        served = _served(spec, state)
        by_kind = {}
        if 'global' in kinds:
            by_kind['global'] = _global(spec, client_map, state, served, tests, keep)
        if 'deployed' in kinds and personalises(spec.methods):
            by_kind['deployed'] = _deployed(spec, client_map, state, served, tests, cohort, keep)
        elif 'deployed' in kinds:  # everybody uses the global model
            metrics = by_kind.get('global') or _global(spec, client_map, state, served, tests, keep)
            by_kind['deployed'] = jax.tree.map(lambda leaf: jnp.take(leaf, jnp.asarray(tests.test_of), axis=0), metrics)
        if 'adapted' in kinds:
            if cohort is None or rng is None:
                raise ValueError("kind 'adapted' needs the clients' training data: pass cohort= and rng=")
            by_kind['adapted'] = _adapted(spec, client_map, state, tests, cohort, rng, keep)
        return by_kind

    return evaluate


def _served(spec: Spec, state: FedState) -> Variables:
    owner = next((m for m in spec.methods if m.serve is not None), None)
    if owner is None or owner.serve is None:
        return state.variables
    everybody = cohorts.view_of_everybody(spec, state)
    return owner.serve(everybody.of(owner), everybody.all_rows.get(owner.name))


def _first_rows(state: FedState) -> dict[str, PyTree]:
    return {name: jax.tree.map(lambda leaf: leaf[0], table) for name, table in state.clients.items()}


def _logits(spec: Spec, ctx: Context, variables: Variables, x: Array, mask: Array) -> Array:
    x, _ = spec.transform(ctx, spec.start_scratch(ctx), spec.preprocess(x))
    return ctx.apply(variables, x, mask, False).logits


def _records(spec: Spec, ctx: Context, variables: Variables, x: Array, y: Array, mask: Array):
    """Per-example facts of one batch."""
    return spec.task.record(_logits(spec, ctx, variables, x, mask), y)


def predict(spec: Spec, state: FedState, x: Array) -> Array:
    """Logits of the served global model for stored inputs ``x[B, ...]``."""
    served = _served(spec, state)
    nobody = jnp.array(spec.run.num_clients)
    ctx = cohorts.without_data(spec, cohorts.shared_of(state, served), nobody, _first_rows(state))
    return _logits(spec, ctx, served, x, jnp.ones(x.shape[0], bool))


def _global(
    spec: Spec, client_map: ClientMap, state: FedState, served: Variables, tests: Tests, keep: tuple[str, ...]
) -> dict[str, Array]:
    sets, width = tests.mask.shape
    cut = Cut.of(width, spec.eval_batch_size)
    client_map, slots = fit(client_map, sets * cut.number)

    def batches(leaf: Array | Divided) -> Array:
        return leaf.own if isinstance(leaf, Divided) else slots_of(cut.batches(jnp.asarray(leaf), 1), slots)

    nobody = jnp.array(spec.run.num_clients)

    def one(given: tuple[Shared, dict[str, PyTree]], batch: tuple[Array, Array, Array]) -> PyTree:
        shared, rows = given
        ctx = cohorts.without_data(spec, shared, nobody, rows)
        return _records(spec, ctx, shared.variables, *batch)

    given = (cohorts.shared_of(state, served), _first_rows(state))
    records = map_clients(client_map, one, given, tuple(map(batches, (tests.x, tests.y, tests.mask))))
    records = jax.tree.map(lambda leaf: cut.sets(leaf, sets), records)
    metrics = jax.vmap(spec.task.metrics)(records, jnp.asarray(tests.y), jnp.asarray(tests.mask))
    return _without_diverged(spec, metrics) | _kept(records, keep)


def _kept(records: dict[str, Array], keep: tuple[str, ...]) -> dict[str, Array]:
    return {kept_name(record): records[record] for record in keep}


def _set_metrics(
    spec: Spec, ctx: Context, variables: Variables, tests: Tests, which: Array, keep: tuple[str, ...]
) -> dict[str, Array]:
    """Metrics of one model on one test set, batch by batch."""
    chosen = tuple(jnp.take(jnp.asarray(leaf), which, axis=0) for leaf in (tests.x, tests.y, tests.mask))
    cut = Cut.of(chosen[2].shape[0], spec.eval_batch_size)
    records = jax.lax.map(lambda batch: _records(spec, ctx, variables, *batch), tuple(map(cut.batches, chosen)))
    records = jax.tree.map(cut.joined, records)
    return _without_diverged(spec, spec.task.metrics(records, chosen[1], chosen[2])) | _kept(records, keep)


def _without_diverged(spec: Spec, metrics: dict[str, Array]) -> dict[str, Array]:
    """The metrics of test sets, of which a model that has diverged has none.

    It has if its mean loss is not finite or absurd, see :class:`~fedjax_fair.core.types.Task`. Then its loss is
    infinite, all its other metrics are NaN, and its counts, such as a confusion matrix, are 0; ``count`` stays.
    """
    if 'loss' not in metrics:
        return metrics
    loss = metrics['loss']
    sane = jnp.isfinite(loss) & (loss <= spec.task.absurd_loss)
    diverged = ~sane & (metrics['count'] > 0)

    def kept(name: str, value: Array) -> Array:
        if name == 'count':
            return value
        nothing = jnp.inf if name == 'loss' else jnp.nan if value.dtype.kind == 'f' else 0
        where = diverged.reshape(diverged.shape + (1,) * (value.ndim - diverged.ndim))
        return jnp.where(where, jnp.asarray(nothing, value.dtype), value)

    return {name: kept(name, value) for name, value in metrics.items()}


class _Owner(NamedTuple):
    """A client whose own model is evaluated; ``seen`` counts the rounds it took part in."""

    id: Array
    rows: dict[str, PyTree]
    seen: Array
    test_set: Array


def _owners(
    spec: Spec, client_map: ClientMap, state: FedState, cohort: Cohort | None
) -> tuple[ClientMap, Array, dict[str, PyTree]]:
    """The clients in every slot and their rows, and the map with as many slots."""
    if spec.homes is not None:
        return fit(client_map, spec.homes.slots)[0], jnp.asarray(spec.homes.clients_at), state.clients
    everyone = jnp.arange(spec.run.num_clients)
    ids, at = (everyone, everyone) if cohort is None or cohort.places is None else (cohort.ids, cohort.places)
    client_map, slots = fit(client_map, ids.shape[0])
    slot = jnp.minimum(jnp.arange(slots), ids.shape[0] - 1)
    return client_map, ids[slot], {name: tree.take_rows(table, at[slot]) for name, table in state.clients.items()}


def _deployed(
    spec: Spec,
    client_map: ClientMap,
    state: FedState,
    served: Variables,
    tests: Tests,
    cohort: Cohort | None,
    keep: tuple[str, ...],
) -> dict[str, Array]:
    """Of all clients, or of those in the cohort where the state holds only their rows."""
    client_map, ids, rows = _owners(spec, client_map, state, cohort)
    which = jnp.take(jnp.asarray(tests.test_of), ids, mode='clip')
    seen = jnp.take(state.seen, ids, mode='clip')

    def one(given: tuple[Shared, Variables, Tests], owner: _Owner) -> dict[str, Array]:
        shared, served, tests = given
        ctx = cohorts.without_data(spec, shared, owner.id, owner.rows)
        variables = tree.select(owner.seen > 0, client.deploy(ctx), served)
        return _set_metrics(spec, ctx, variables, tests, owner.test_set, keep)

    given = (cohorts.shared_of(state), served, whole(tests, spec.eval_batch_size))
    return _in_order(spec, map_clients(client_map, one, given, _Owner(ids, rows, seen, which)), ids)


def _adapted(
    spec: Spec,
    client_map: ClientMap,
    state: FedState,
    tests: Tests,
    cohort: Cohort,
    rng: Array,
    keep: tuple[str, ...],
) -> dict[str, Array]:
    arranged = cohorts.arrange(spec, client_map, cohort)
    shared, own = cohorts.inputs(spec, state, arranged, rng)
    which = jnp.take(jnp.asarray(tests.test_of), own.id, mode='clip')

    def one(given: tuple[Shared, Tests], inputs: tuple[cohorts.Own, Array]) -> dict[str, Array]:
        (shared, tests), (own, which) = given, inputs
        ctx = client.download(cohorts.context(spec, shared, own))
        trained = client.fit(ctx, None)
        return _set_metrics(spec, ctx, trained.variables, tests, which, keep)

    given = (shared, whole(tests, spec.eval_batch_size))
    metrics = map_clients(arranged.client_map, one, given, (own, which))
    return _in_order(spec, metrics, own.id)


def _in_order(spec: Spec, metrics: PyTree, ids: Array) -> PyTree:
    """``[N, ...]`` by the clients' numbers; NaN, or 0 among integers, where a client is not among ``ids``."""

    def table(leaf: Array) -> Array:
        empty = jnp.nan if leaf.dtype.kind == 'f' else 0
        return jnp.full((spec.run.num_clients, *leaf.shape[1:]), empty, leaf.dtype).at[ids].set(leaf, mode='drop')

    return jax.tree.map(table, metrics)
