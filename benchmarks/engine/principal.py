"""The server's step alone: the plain weighted mean of stacked updates, and their principal aggregate.

``python -m benchmarks.engine.principal``. 100 clients of a network of five million parameters; every rule is a process
of its own. Memory is what the compiled step needs beside the stacked updates, in models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.engine.points import Point, alone, results_folder
from benchmarks.engine.session import page, write
from benchmarks.peers.report import machine, table
from fedjax_fair.core.tree import num_bytes, weighted_sum
from fedjax_fair.core.types import Array, PyTree
from fedjax_fair.models import make_model
from fedjax_fair.ops import gram, principal_coefficients
from fedjax_fair.training.setup import use_host_devices

CLIENTS, TURNS = 100, 5


def principal(weights: Array, updates: PyTree) -> PyTree:
    """The aggregate along the principal axes."""
    return weighted_sum(principal_coefficients(gram(updates), weights), updates)


RULES: dict[str, Callable[[Array, PyTree], PyTree]] = {
    'weighted mean': weighted_sum,
    'principal, whole model': principal,
    'principal, tensor by tensor': lambda weights, updates: jax.tree.map(lambda u: principal(weights, u), updates),
}


def measure(rule: str, clients: int = CLIENTS, model: str = 'resnet10') -> Point:
    """Seconds of one step (the fastest), and memory beside its inputs."""
    use_host_devices(1)
    network = make_model(model, 10)
    shapes = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 32, 32, 3)))['params']
    keys = iter(jax.random.split(jax.random.key(1), len(jax.tree.leaves(shapes))))
    updates = jax.tree.map(lambda leaf: jax.random.normal(next(keys), (clients, *leaf.shape)), shapes)
    weights = jnp.full(clients, 1 / clients)
    step = jax.jit(RULES[rule]).lower(weights, updates).compile()
    seconds = []
    for _ in range(TURNS + 1):
        start = time.perf_counter()
        jax.block_until_ready(step(weights, updates))
        seconds.append(time.perf_counter() - start)
    facts: Any = step.memory_analysis()
    extra = facts.temp_size_in_bytes + facts.output_size_in_bytes
    return {
        'seconds': min(seconds[1:]),
        'parameters': sum(leaf.size for leaf in jax.tree.leaves(shapes)),
        'extra_models': extra / num_bytes(shapes),
    }


def as_markdown(found: Mapping[str, Any]) -> str:
    """One line per rule, beside the mean."""
    points = found['rules']
    base = points[0]['seconds']
    about = (
        f'One step of the server over the stacked updates of {CLIENTS} clients of a ResNet-10 '
        f'({points[0]["parameters"]:,} parameters), one device; the fastest of {TURNS}; memory '
        'beside the updates, the result included'
    )
    rows = [
        [p['rule'], f'{p["seconds"]:.3f}', f'{p["seconds"] / base:.2f}', f'{p["extra_models"]:.2f}'] for p in points
    ]
    return page('The principal step', about, found, table(('rule', 's', 'beside the mean', 'extra models'), rows))


def main() -> None:
    """Measure and write ``results/principal.json`` and ``.md``."""
    out = results_folder(__doc__, measure)
    rules = [alone('benchmarks.engine.principal', {'rule': rule}) for rule in RULES]
    found = {'machine': machine(), 'rules': rules}
    write(out, 'principal', found, as_markdown(found))


if __name__ == '__main__':
    main()
