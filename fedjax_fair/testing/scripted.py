"""Scripted rounds: the server half of any list of methods, driven by given updates and reports."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_fair.core import client, cohort, server, tree
from fedjax_fair.core.check import in_order
from fedjax_fair.core.cohort import Own, Shared
from fedjax_fair.core.local import Local
from fedjax_fair.core.method import Context, Method, Phase, Reports
from fedjax_fair.core.spec import Spec
from fedjax_fair.core.types import Array, Losses, PyTree, Run, Variables


class Scripted(NamedTuple):
    """State after every scripted round; each leaf has a leading axis of rounds."""

    variables: Variables
    server: dict[str, PyTree]
    clients: dict[str, PyTree]


def scripted_rounds(
    methods: Sequence[Method],
    variables: Variables,
    updates: PyTree,
    reports: Mapping[str, Any],
    n_examples: Any,
    *,
    num_clients: int | None = None,
    ids: Any = None,
    mask: Any = None,
    rounds: int | None = None,
    lr: Any = 1.0,
) -> Scripted:
    """Drive the server half of a list of methods with given updates, without any training.

    Args:
      methods: what :func:`~fedjax_fair.methods.make_methods` gives.
      variables: the model before the first round: ``{'params': ..., 'batch_stats': ...}`` or the parameters alone.
      updates: after - before, of the structure of ``variables``, each leaf ``[R, C, ...]``.
      reports: what clients would have measured, each ``[R, C, ...]``. Names are fixed: ``loss`` (mean plain
        cross-entropy of the incoming model on the client's training set), ``local_loss`` (of the trained model),
        ``balanced_accuracy``, ``sharpness``, ``steps``, ``class_counts``, ``prototypes``, ``amplitude``. They are given
        to every method that reads the name, in place of what its own hooks would report.
      n_examples: ``[C]`` or ``[R, C]`` training examples of the slots, or ``[N]`` of all clients when ``ids`` is given.
      num_clients: N; the number of slots by default.
      ids: ``[R, C]`` or ``[C]`` client of each slot; ``0..C-1`` by default.
      mask: ``[R, C]`` or ``[C]`` slots that take part; all by default.
      rounds: the planned number of rounds T, for schedules; ``R`` by default.
      lr: the clients' learning rate, for methods that use it.

    Returns:
      Variables, server entries and client rows after every round, in the form ``variables`` was given.

    >>> from fedjax_fair.methods import make_methods
    >>> out = scripted_rounds(make_methods('fedavg'), {'w': jnp.zeros(2)}, {'w': jnp.ones((1, 3, 2))}, {}, [1, 2, 3])
    >>> out.variables['w'].tolist()
    [[1.0, 1.0]]
    """
    bare = not (isinstance(variables, Mapping) and 'params' in variables)
    if bare:
        variables, updates = {'params': variables}, {'params': updates}
    variables = jax.tree.map(jnp.asarray, {'batch_stats': {}, **variables})
    still = jax.tree.map(lambda v: jnp.zeros((*_lead(updates), *v.shape), v.dtype), variables)
    updates = jax.tree.map(jnp.asarray, {**still, **updates})
    script = _Script.of(updates, reports, n_examples, num_clients, ids, mask)
    run = _run_of(script, rounds, lr)
    final = _play(in_order(methods), variables, run, script)
    return final._replace(variables=final.variables['params']) if bare else final


def _run_of(script: _Script, rounds: int | None, lr: Any) -> Run:
    """The facts of a run, as far as the script tells them."""
    reports = script.each.reports
    counted = reports.get('class_counts', reports.get('prototypes'))
    return Run(
        num_clients=script.num_clients,
        sizes=script.sizes,
        num_classes=0 if counted is None else counted.shape[2],
        feature_dim=reports['prototypes'].shape[3] if 'prototypes' in reports else 0,
        example=np.zeros(reports['amplitude'].shape[2:]) if 'amplitude' in reports else None,
        rounds=rounds or script.rounds,
        lr=lr if callable(lr) else lambda round: lr,
    )


def _lead(updates: PyTree) -> tuple[int, int]:
    return jax.tree.leaves(updates)[0].shape[:2]


class _Round(NamedTuple):
    """What the clients of one round send, who they are, who takes part and how many examples they have."""

    updates: PyTree
    reports: dict[str, Array]
    ids: Array
    mask: Array
    n: Array


class _Script(NamedTuple):
    """The arguments of scripted_rounds, all of shape [R, C, ...]."""

    num_clients: int
    sizes: np.ndarray
    rounds: int
    each: _Round

    @classmethod
    def of(cls, updates, reports, n_examples, num_clients, ids, mask) -> _Script:
        """Fill in what was left out and bring everything to shape."""
        r, c = _lead(updates)
        total = c if num_clients is None else num_clients
        n, by_client = np.asarray(n_examples), ids is not None
        ids = np.broadcast_to(np.arange(c) if ids is None else np.asarray(ids), (r, c))
        if by_client and n.shape == (total,):
            n = np.append(n, 0)[np.minimum(ids, total)]
        n = np.broadcast_to(n, (r, c))
        sizes = np.zeros(total + 1, n.dtype)
        sizes[np.minimum(ids, total)] = n
        mask = np.broadcast_to(True if mask is None else np.asarray(mask, bool), (r, c)) & (ids < total)
        floats = jax.tree.leaves(updates)[0].dtype
        given = {k: jnp.asarray(v) for k, v in reports.items()}
        each = _Round(updates, given, jnp.asarray(ids, jnp.int32), jnp.asarray(mask), jnp.asarray(n, floats))
        return cls(total, sizes[:total], r, each)


class _Carry(NamedTuple):
    """The state between two scripted rounds."""

    round: Array
    variables: Variables
    opt: PyTree
    servers: dict[str, PyTree]
    clients: dict[str, PyTree]


def _play(methods: tuple[Method, ...], variables: Variables, run: Run, script: _Script) -> Scripted:
    optimizer = next((m.server_opt for m in methods if m.server_opt is not None), optax.scale(-1.0))
    servers, clients = server.initial_entries(methods, variables, run, run.num_clients)

    def one_round(carry: _Carry, each: _Round) -> tuple[_Carry, Scripted]:
        """The server's half of a round, with updates and reports as given."""
        updates, given, ids, mask, n = each
        rows = {name: tree.take_rows(table, ids) for name, table in carry.clients.items()}
        steps = given.get('steps', jnp.ones_like(n)).astype(n.dtype)
        none = jnp.zeros((*ids.shape, 1), jnp.int32)
        shared = Shared(carry.round, jax.random.key(0), carry.variables, carry.servers, (none, none))
        own = Own(ids, none, none > 0, n, steps, rows)
        new_rows, findings = jax.vmap(functools.partial(_report, methods, run, shared))(own, updates, given)
        reports = {m.name: {**findings.reports.get(m.name, {}), **given} for m in methods}
        view = cohort.view(run, shared, own, mask, {**findings.measured, **given}, reports)
        done = server.step(methods, server.aggregate(methods, view, updates), optimizer, carry.opt)
        target = jnp.where(mask & done.alive, ids, run.num_clients)
        tables = cohort.with_rows(carry.clients, target, new_rows | done.rows)
        after = _Carry(carry.round + 1, done.variables, done.opt, done.servers, tables)
        return after, Scripted(done.variables, done.servers, tables)

    start = _Carry(jnp.zeros((), jnp.int32), variables, optimizer.init(variables['params']), servers, clients)
    return jax.lax.scan(one_round, start, script.each)[1]


@dataclasses.dataclass(frozen=True)
class _ScriptedContext(Context):
    """A client whose measurements are given instead of taken."""

    given: Mapping[str, Array] = dataclasses.field(default_factory=dict)

    def loss(self, variables: Variables, losses: Losses | None = None) -> Array:
        return self._said('loss' if variables is self.variables else 'local_loss')

    def balanced_accuracy(self, variables: Variables) -> Array:
        return self._said('balanced_accuracy')

    @property
    def label_counts(self) -> Array:
        return self._said('class_counts')

    def _said(self, name: str) -> Array:
        return Reports(self.given, 'the script has not')[name]


def _report(
    methods: tuple[Method, ...], run: Run, shared: Shared, own: Own, update: PyTree, given: Mapping[str, Array]
) -> tuple[dict[str, PyTree], client.Findings]:
    """What one client's report hooks write and send, as if it had trained."""
    unmeasured = tuple(m._replace(measures=()) for m in methods)
    nothing: Any = None  # a script has no network, task or data
    spec = Spec(nothing, nothing, unmeasured, Local(), (Phase('train'),), run, nothing, None, None, None)
    plain = cohort.without_data(spec, shared, own.id, own.rows, own.n)
    fields = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
    probes = {m.name: given for m in methods}
    ctx = _ScriptedContext(**{**fields, 'steps': own.steps, 'probes': probes}, given=given)
    after = jax.tree.map(jnp.add, shared.variables, update)
    return client.reported(ctx, spec.start_scratch(ctx), after)
