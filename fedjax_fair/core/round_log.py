"""What a round says of itself: its loss, who took part, how much was computed and sent."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from fedjax_fair.core import client, server, tree
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.core.cohort import Arranged
from fedjax_fair.core.local import examples_paid
from fedjax_fair.core.method import Method, View
from fedjax_fair.core.spec import Spec
from fedjax_fair.core.types import Array, Cohort, Variables


def work(spec: Spec, client_map: ClientMap, arranged: Arranged, sent: client.Sent) -> dict[str, Array]:
    """Steps, examples trained on and held, and examples paid for: a chunk costs as much as its longest client."""
    n, steps = arranged.n, arranged.steps
    chunk = client_map.chunk or n.shape[0]
    longest = jnp.max(n.reshape(-1, chunk), 1)
    paid = examples_paid(spec.local, spec.phases, longest, spec.only_size)
    return {
        'steps': jnp.sum(steps),
        'examples': jnp.sum(sent.examples),
        'examples_held': jnp.sum(n).astype(steps.dtype),
        'examples_paid': chunk * jnp.sum(paid).astype(steps.dtype),
    }


def metrics(
    methods: Sequence[Method],
    view: View,
    cohort: Cohort,
    done: server.Committed,
    sent: client.Sent,
    ok: Array,
    report_bytes: int,
) -> dict[str, Array]:
    """What a round says of itself."""
    model = _bytes_sent(methods, view.variables)
    down = model + sum(tree.num_bytes(view.servers[m.name]) for m in methods if m.broadcasts)
    up = model + report_bytes // len(ok)
    taking_part = jnp.sum(ok.astype(jnp.float32))
    return {
        'train_loss': jnp.sum(sent.loss_sum) / jnp.maximum(jnp.sum(jnp.where(ok, sent.examples, 0)), 1),
        'clients': taking_part,
        'failed': jnp.sum((cohort.mask & ~ok).astype(jnp.float32)),
        'empty': 1 - done.alive.astype(jnp.float32),
        'bytes_up': taking_part * float(up),
        'bytes_down': jnp.sum(view.mask.astype(jnp.float32)) * float(down),
    }


def _bytes_sent(methods: Sequence[Method], variables: Variables) -> int:
    """Bytes of the model without the leaves that stay with their clients."""
    kept = {path for m in methods if m.keeps is not None for path in m.keeps(variables)}
    return tree.num_bytes(variables) - tree.num_bytes(tree.pick(variables, kept))
