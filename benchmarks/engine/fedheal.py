"""What FedHEAL costs: its server step beside a round of the demo's job, and the memory of its counts.

``python -m benchmarks.engine.fedheal --rounds=15``
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.engine.session import Session, in_turn, page, program
from benchmarks.tables import table
from fedjax_fair.core import tree
from fedjax_fair.methods import make_methods
from fedjax_fair.testing import scripted_rounds
from fedjax_fair.training.config import Config
from fedjax_fair.training.devices import use_host_devices

# The demo's clients and local training, with its network and with the wider CNN; one seed.
DEMO = Config(scenario='digits_domains', local_epochs=2, batch_size=16, lr=0.1, checkpoint_every=0)
MODELS = ('lenet', 'cnn')
SHARE = 'server step of fedheal / round of fedavg'


def server_step(session: Session, recipe: str) -> Callable[[], Any]:
    """The server's half of one round with the session's model: given updates, nothing trained."""
    sizes = session.x.federation.sizes
    variables = jax.tree.map(lambda leaf: leaf[0], session.states.variables)
    keys = iter(jax.random.split(jax.random.key(0), len(jax.tree.leaves(variables))))
    updates = jax.tree.map(lambda v: jax.random.normal(next(keys), (1, len(sizes), *v.shape)) * 0.01, variables)
    methods = make_methods(recipe)
    step = jax.jit(lambda v, u: scripted_rounds(methods, v, u, {}, sizes))
    return lambda: jax.block_until_ready(step(variables, updates))


def measure(model: str, rounds: int) -> dict[str, Any]:
    """Seconds of rounds and of server steps, in turn; bytes that stay on the server."""
    sessions = {r: Session(dataclasses.replace(DEMO, model=model, recipe=r)) for r in ('fedavg', 'fedheal')}
    tasks: dict[str, Callable[[], Any]] = {f'round of {r}': session.round for r, session in sessions.items()}
    tasks |= {f'server step of {r}': server_step(sessions['fedavg'], r) for r in sessions}
    taken = in_turn(tasks, rounds)
    seconds = {name: {'min': min(t), 'median': statistics.median(t)} for name, t in taken.items()}
    state = jax.eval_shape(lambda s: jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], s), sessions['fedheal'].states)
    entries = sum(leaf.size for leaf in jax.tree.leaves(state.variables))
    clients = sessions['fedheal'].x.federation.num_clients
    return {
        'entries': entries,
        'clients': clients,
        'seconds': seconds,
        SHARE: {k: seconds['server step of fedheal'][k] / seconds['round of fedavg'][k] for k in ('min', 'median')},
        'bytes per client and entry': tree.num_bytes(state.clients) / (clients * entries),
    }


def measure_all(rounds: int) -> dict[str, Any]:
    """Every network."""
    use_host_devices(None)
    return {'models': {model: measure(model, rounds) for model in MODELS}}


def as_markdown(found: Mapping[str, Any]) -> str:
    """One table for all networks."""
    rows = []
    for model, one in found['models'].items():
        name = f'{model}, {one["entries"]:,} parameters, {one["clients"]} clients'
        rows += [
            [name, what, *(f'{s[k] * 1e3:.2f} ms' for k in ('min', 'median'))] for what, s in one['seconds'].items()
        ]
        rows.append([name, SHARE, *(f'{one[SHARE][k]:.3f}' for k in ('min', 'median'))])
        rows.append([name, 'bytes kept per client and parameter', f'{one["bytes per client and entry"]:.4f}', ''])
    about = f"FedHEAL on the demo's clients, {found['rounds']} of each in turn"
    return page('What FedHEAL costs', about, found, table(('job', 'what', 'min', 'median'), rows))


if __name__ == '__main__':
    program('fedheal', __doc__, measure_all, as_markdown, rounds=15)
