"""Points of a study, each measured in a process of its own, so that its peak memory is its own."""

from __future__ import annotations

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.engine.session import RESULTS
from fedjax_fair.core import Local, Method, Model, Task, build
from fedjax_fair.data.federation import Examples, cohort_of

Point = dict[str, Any]


def rounds_of(
    model: Model,
    task: Task,
    x: np.ndarray,
    y: np.ndarray,
    clients: int,
    batch: int,
    rounds: int,
    methods: Sequence[Method] = (),
) -> Point:
    """Seconds of a round (the fastest) and of the first one, parameters and peak memory.

    The examples are dealt out to ``clients`` of equal size, which all take part, for one epoch.
    """
    where = np.arange(len(x), dtype=np.int32).reshape(clients, -1)
    sizes = np.full(clients, where.shape[1], np.int32)
    data = Examples(*map(jnp.asarray, (x, y, where, sizes)))
    algorithm = build(model, task, methods, sizes=sizes, example=x[0], local=Local(batch_size=batch, lr=0.01))
    state = jax.jit(algorithm.init)(jax.random.key(0))
    everyone = jnp.arange(clients, dtype=jnp.int32)
    step = jax.jit(lambda s, d, key: algorithm.round(s, cohort_of(d, everyone), key)[0], donate_argnums=0)
    seconds = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        state = jax.block_until_ready(step(state, data, jax.random.key(1)))
        seconds.append(time.perf_counter() - start)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(state.variables['params']))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {'seconds': min(seconds[1:]), 'compile': seconds[0], 'parameters': parameters, 'peak_mib': peak}


def alone(module: str, point: Mapping[str, Any]) -> Point:
    """A point with what a process of its own, which calls :func:`results_folder`, measures of it."""
    words = [sys.executable, '-m', module, '--point', json.dumps(point)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    found = {**point, **json.loads(done.stdout)}
    print(found, file=sys.stderr)
    return found


def results_folder(about: str | None, measure: Callable[..., Point]) -> pathlib.Path:
    """Where results are asked for; in a process started by :func:`alone` measure its point, print it and end."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument('--point', help='measure one point, given as JSON, and print it')
    parser.add_argument('--out', type=pathlib.Path, default=RESULTS)
    args = parser.parse_args()
    if args.point:
        print(json.dumps(measure(**json.loads(args.point))))
        sys.exit()
    return args.out
