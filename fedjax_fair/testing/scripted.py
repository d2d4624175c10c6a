"""Scripted rounds: the server half of any list of methods, driven by given updates and reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_fair.core import client, local, server, tree
from fedjax_fair.core.check import checked_methods
from fedjax_fair.core.spec import ClientData, Spec
from fedjax_fair.core.types import Array, Losses, Method, Phase, PyTree, Run, Variables


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
        ``balanced_accuracy``, ``sharpness``, ``steps``, ``class_counts``, ``prototypes``, ``amplitude``. They replace
        what the methods' own hooks would report.
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
    final = _play(checked_methods(methods), variables, run, script)
    return final._replace(variables=final.variables['params']) if bare else final


def _run_of(script: _Script, rounds: int | None, lr: Any) -> Run:
    """The facts of a run, as far as the script tells them."""
    reports = script.each[1]
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


class _Script(NamedTuple):
    """The arguments of scripted_rounds, all of shape [R, C, ...]."""

    num_clients: int
    sizes: np.ndarray
    rounds: int
    each: tuple

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
        each = (updates, given, jnp.asarray(ids, jnp.int32), jnp.asarray(mask), jnp.asarray(n, floats))
        return cls(total, sizes[:total], r, each)


def _play(methods: tuple[Method, ...], variables: Variables, run: Run, script: _Script) -> Scripted:
    optimizer = next((m.server_opt for m in methods if m.server_opt is not None), optax.scale(-1.0))
    servers, clients = server.initial_entries(methods, variables, run, run.num_clients)

    def one_round(carry, each):
        """The server's half of a round, with updates and reports as given."""
        number, variables, opt, servers, clients = carry
        updates, given, ids, mask, n = each
        rows = {name: tree.take_rows(table, ids) for name, table in clients.items()}
        steps = given.get('steps', jnp.ones_like(n)).astype(n.dtype)
        shared = (number, servers, variables)
        new_rows, found = jax.vmap(lambda *own: _report(methods, run, shared, *own))(
            ids, n, rows, updates, steps, given
        )
        view = server.View(
            run=run,
            round=number,
            key=jax.random.key(0),
            servers=servers,
            all_rows=rows,
            ids=ids,
            mask=mask,
            n=n,
            steps=steps,
            reports=server.Reports({**found, **given}),
            variables=variables,
        )
        done = server.step(methods, server.aggregate(methods, view, updates), optimizer, opt)
        target = jnp.where(mask & done.alive, ids, run.num_clients)
        written = {k: row for k, row in new_rows.items() if row is not None} | done.rows
        clients = {k: tree.put_rows(t, target, written[k]) if k in written else t for k, t in clients.items()}
        carry = (number + 1, done.variables, done.opt, done.servers, clients)
        return carry, Scripted(done.variables, done.servers, clients)

    start = (jnp.zeros((), jnp.int32), variables, optimizer.init(variables['params']), servers, clients)
    return jax.lax.scan(one_round, start, script.each)[1]


@dataclasses.dataclass(frozen=True)
class _ScriptedContext(client.Context):
    """A client whose measurements are given instead of taken."""

    given: dict[str, Array] = dataclasses.field(default_factory=dict)

    def loss(self, variables: Variables, losses: Losses | None = None) -> Array:
        return self._said('loss' if variables is self.variables else 'local_loss')

    def balanced_accuracy(self, variables: Variables) -> Array:
        return self._said('balanced_accuracy')

    @property
    def label_counts(self) -> Array:
        return self._said('class_counts')

    def _said(self, name: str) -> Array:
        return server.Reports(self.given)[name]


def _report(methods, run: Run, shared, id_, n, rows, update, steps, given):
    """What one client's report hooks write and send, as if it had trained."""
    number, servers, variables = shared
    spec = Spec(None, None, methods, local.Local(), (Phase('train'),), run, None, None, None, None)  # type: ignore[arg-type]
    none = jnp.zeros((1,), jnp.int32)
    data = ClientData(none, none, none, none > 0, n)
    ctx = _ScriptedContext(
        spec, number, id_, jax.random.key(0), servers, rows, variables, data, steps, probe=given, given=given
    )
    after = jax.tree.map(jnp.add, variables, update)
    new_rows: dict[str, PyTree] = {}
    found: dict[str, Array] = {}
    for m in methods:
        if m.report is not None:
            new_rows[m.name], said = m.report(ctx.of(m), client.start_scratch(ctx)[m.name], variables, after)
            found |= said
    return new_rows, found
