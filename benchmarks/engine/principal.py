"""The server's step alone: the plain weighted mean of stacked updates, and their principal aggregate.

``python -m benchmarks.engine.principal``. 100 clients of a network of five million parameters; every rule on one, two
and four devices is a process of its own. Memory is what the compiled step needs beside the stacked updates, in models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.engine.points import Point, alone, results_folder
from benchmarks.engine.session import page, write
from benchmarks.tables import machine, table
from fedjax_fair.core.client_map import AXIS, client_mesh
from fedjax_fair.core.tree import num_bytes, weighted_sum
from fedjax_fair.core.types import Array, PyTree
from fedjax_fair.models import make_model
from fedjax_fair.ops import gram, principal_coefficients

CLIENTS, TURNS, DEVICES = 100, 5, (1, 2, 4)


def principal(weights: Array, updates: PyTree) -> PyTree:
    """The aggregate along the principal axes."""
    return weighted_sum(principal_coefficients(gram(updates), weights), updates)


RULES: dict[str, Callable[[Array, PyTree], PyTree]] = {
    'weighted mean': weighted_sum,
    'principal, whole model': principal,
    'principal, tensor by tensor': lambda weights, updates: jax.tree.map(lambda u: principal(weights, u), updates),
}


def measure(rule: str, devices: int = 1, clients: int = CLIENTS, model: str = 'resnet10') -> Point:
    """Seconds of one step (the fastest), memory beside its inputs, and how far it is from the step on one device."""
    jax.config.update('jax_num_cpu_devices', devices)
    network = make_model(model, 10)
    shapes = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 32, 32, 3)))['params']
    keys = iter(jax.random.split(jax.random.key(1), len(jax.tree.leaves(shapes))))
    updates = jax.tree.map(lambda leaf: jax.random.normal(next(keys), (clients, *leaf.shape)), shapes)
    weights = jnp.full(clients, 1 / clients)
    spread = jax.device_put(updates, NamedSharding(client_mesh(devices), P(AXIS))) if devices > 1 else updates
    step = jax.jit(RULES[rule]).lower(weights, spread).compile()
    seconds = fastest(lambda: step(weights, spread))
    facts: Any = step.memory_analysis()
    extra = facts.temp_size_in_bytes + facts.output_size_in_bytes
    point = {
        'seconds': seconds,
        'parameters': sum(leaf.size for leaf in jax.tree.leaves(shapes)),
        'extra_models': extra / num_bytes(shapes),
        'peak_gflops': peak(),
    }
    if devices == 1:
        return point
    alone, found = jax.jit(RULES[rule])(weights, updates), step(weights, spread)
    gap = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - jax.device_put(b, a.sharding))), alone, found)
    return point | {'difference': float(max(jax.tree.leaves(gap)))}


def fastest(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of some turns, after one that does not count."""
    seconds = []
    for _ in range(TURNS + 1):
        start = time.perf_counter()
        jax.block_until_ready(work())
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def peak(side: int = 2048) -> float:
    """GFLOP/s of a square product on one device."""
    square = jnp.ones((side, side))
    multiply = jax.jit(jnp.matmul)
    return 2 * side**3 / fastest(lambda: multiply(square, square)) / 1e9


def as_markdown(found: Mapping[str, Any]) -> str:
    """One line per rule and number of devices, beside the mean on as many."""
    points = found['rules']
    base = {p['devices']: p['seconds'] for p in points if p['rule'] == 'weighted mean'}
    parameters, top = points[0]['parameters'], max(p['peak_gflops'] for p in points)
    work = 2 * CLIENTS**2 * parameters / 1e9
    about = (
        f'One step of the server over the stacked updates of {CLIENTS} clients of a ResNet-10 ({parameters:,} '
        f'parameters); on several devices clients are spread over them; the fastest of {TURNS}; memory of a device '
        'beside the updates, the result included, in models; the largest difference to one device, of aggregates '
        f'of order 0.1. Inner products of all pairs are {work:.0f} GFLOP, the mean {work / CLIENTS:.0f}; a large '
        f'product reached {top:.0f} GFLOP/s in the same run, which bounds the principal step from below by '
        f'{work / top / base[1]:.1f} of the mean, whose time is that of reading the updates once'
    )
    rows = [
        [
            p['rule'],
            str(p['devices']),
            f'{p["seconds"]:.3f}',
            f'{p["seconds"] / base[p["devices"]]:.1f}',
            f'{p["extra_models"]:.2f}',
            f'{p["difference"]:.1e}' if 'difference' in p else '',
        ]
        for p in points
    ]
    head = ('rule', 'devices', 's', 'beside the mean', 'extra models', 'difference to one device')
    return page('The principal step', about, found, table(head, rows))


def main() -> None:
    """Measure and write ``results/principal.json`` and ``.md``."""
    out = results_folder(__doc__, measure)
    host = machine()
    asked = [{'rule': rule, 'devices': devices} for devices in DEVICES for rule in RULES]
    found = {'machine': host, 'rules': [alone('benchmarks.engine.principal', point) for point in asked]}
    write(out, 'principal', found, as_markdown(found))


if __name__ == '__main__':
    main()
