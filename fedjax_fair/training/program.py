"""The compiled programs of an experiment: lanes of (seed, hyper-parameters) that all run the same algorithm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core import client_map, tree
from fedjax_fair.core.platform import Platform, made_for, on_cpu
from fedjax_fair.core.types import Algorithm, Array, Cohort, FedState, PyTree, Tests, default_float
from fedjax_fair.data.federation import Examples, cohort_of
from fedjax_fair.data.samplers import Sampler, survivors
from fedjax_fair.data.stream import Streamed, streamed_cohort

INIT, ORDER, SAMPLE, ADAPT = range(4)  # independent streams of one seed


class Lane(NamedTuple):
    """One run: its seed and the float hyper-parameters in which it differs from the others."""

    seed: Array
    hyper: dict[str, Array]


class Program(NamedTuple):
    """Jitted functions over all lanes at once.

    ``init(lanes)``, and ``shapes(lanes)`` of what it would give; ``advance(lanes, states, data, n)`` runs up to
    ``horizon`` rounds on device and returns the states (the old ones are donated) with every round's metrics
    ``[lanes, horizon]``; ``evaluate(lanes, states, tests, data)`` takes the kinds of model as a keyword, and the
    records to ``keep`` of every test example. Where data is
    :class:`~fedjax_fair.data.stream.Streamed`, one cohort of every lane, ``n`` is 1, and evaluation is of its clients;
    ``init(lanes, rows)`` then makes states that hold the rows of one cohort. ``sample(lanes, rounds)`` tells who takes
    part: ``[rounds, lanes, C]``.
    """

    init: Callable
    shapes: Callable
    advance: jax.stages.Wrapped
    evaluate: jax.stages.Wrapped
    sample: Callable
    horizon: int


def make_lanes(points: Sequence[Mapping[str, float]], seeds: Sequence[int]) -> Lane:
    """Every point times every seed, stacked; points vary slowest."""
    pairs = list(itertools.product(points, seeds))
    floats = default_float()
    hyper = {name: jnp.asarray([point[name] for point, _ in pairs], floats) for name in points[0]}
    return Lane(jnp.asarray([seed for _, seed in pairs], jnp.uint32), hyper)


def key_of(seed: Array, stream: int) -> Array:
    """The key of one stream of a seed: the two words of a Threefry key, which need no hashing to be distinct."""
    return jax.random.wrap_key_data(jnp.stack([jnp.asarray(stream, jnp.uint32), seed]), impl='threefry2x32')


def make_program(
    factory: Callable[[dict[str, Array]], Algorithm],
    sampler: Sampler,
    *,
    dropout: float = 0.0,
    horizon: int = 1,
    lane_map: client_map.ClientMap = client_map.ClientMap(1),
    placement: Any = None,
    start: Mapping[str, PyTree] = MappingProxyType({}),
    platform: Platform | None = None,
) -> Program:
    """Compile an algorithm factory into programs over lanes.

    ``factory(hyper)`` builds the algorithm for one lane's (traced) hyper-parameters. How many rounds ``advance`` runs
    is an argument, not a constant: evaluations, checkpoints and progress never cause a second compilation. For the same
    reason states always stay where ``placement`` puts them. ``start`` are variables to begin with, in place of drawn
    ones. Programs are made for a ``platform``, by default the machine.
    """

    def over_lanes(fn: Callable, shared: PyTree, lanes: PyTree) -> PyTree:
        count = jax.tree.leaves(lanes)[0].shape[0]
        fitted, slots = client_map.fit(lane_map, count)
        padded = lanes if slots == count else tree.take_rows(lanes, jnp.arange(slots))
        out = client_map.map_clients(fitted, lambda shared, lane: fn(shared, *lane), shared, padded)
        return jax.tree.map(lambda leaf: leaf[:count], out)

    def init(lanes: Lane, start: PyTree, rows: int | None) -> FedState:
        return jax.vmap(lambda lane: factory(lane.hyper).init(key_of(lane.seed, INIT), start, rows))(lanes)

    def with_data(fn: Callable, shared: PyTree, data: Examples | Streamed | None, lanes: PyTree) -> PyTree:
        """Examples are shared by all lanes, but each lane has a cohort of its own."""
        if isinstance(data, Streamed):
            return over_lanes(fn, (shared, None), (*lanes, data))
        return over_lanes(fn, (shared, data), lanes)

    def advance(lanes: Lane, states: FedState, data: Examples | Streamed, n: Array):
        return with_data(partial(_rounds, factory, sampler, dropout, horizon), n, data, (lanes, states))

    def evaluate(
        lanes: Lane,
        states: FedState,
        tests: Tests,
        data: Examples | Streamed | None,
        kinds: tuple[str, ...],
        keep: tuple[str, ...] = (),
    ):
        return with_data(partial(_evaluate, factory, kinds, keep), tests, data, (lanes, states))

    drawn = jax.jit(_for(platform, init), static_argnums=2, out_shardings=placement, compiler_options=_quick(platform))
    return Program(
        lambda lanes, rows=None: drawn(lanes, dict(start), rows),
        lambda lanes: drawn.eval_shape(lanes, dict(start), None),
        jax.jit(_for(platform, advance), donate_argnums=1, out_shardings=(placement, None)),
        jax.jit(_for(platform, evaluate), static_argnames=('kinds', 'keep')),
        jax.jit(partial(_sample, sampler)),
        horizon,
    )


def sampling_key(seed: Array, round: Array) -> Array:
    """The key that decides who takes part in a round."""
    return jax.random.fold_in(key_of(seed, SAMPLE), round)


def _sample(sampler: Sampler, lanes: Lane, rounds: Array) -> Array:
    one = jax.vmap(lambda seed, round: sampler(sampling_key(seed, round), round), (0, None))
    return jax.lax.map(lambda round: one(lanes.seed, round), rounds)


def _for(platform: Platform | None, fn: Callable) -> Callable:
    """A function that is traced for a platform wherever it is traced."""

    @wraps(fn)
    def traced(*args, **kwargs):
        with made_for(platform):
            return fn(*args, **kwargs)

    return traced


def _quick(platform: Platform | None) -> dict[str, str] | None:
    """On CPU, little optimisation for what runs once: drawing every parameter compiles slower than it runs."""
    with made_for(platform):
        return {'xla_backend_optimization_level': '1'} if on_cpu() else None


def _cohort(algorithm: Algorithm, data: Examples | Streamed, ids: Array, mask: Array | None) -> Cohort:
    if isinstance(data, Examples):
        return cohort_of(data, ids, mask)
    return streamed_cohort(data, mask, algorithm.run.num_clients)


def _rounds(factory, sampler: Sampler, dropout, horizon: int, shared, lane: Lane, state: FedState, own=None):
    n, data = shared
    algorithm = factory(lane.hyper)
    data = data if own is None else own

    @jax.jit  # traced once, for the shapes and for the loop
    def one(state):
        key = sampling_key(lane.seed, state.round)
        ids = sampler(key, state.round) if own is None else own.ids
        mask = survivors(jax.random.fold_in(key, 1), ids, dropout)
        cohort = _cohort(algorithm, data, ids, mask)
        state, metrics = algorithm.round(state, cohort, key_of(lane.seed, ORDER))
        dropped = ~mask & (ids < algorithm.run.num_clients)
        return state, metrics | {'dropped': jnp.sum(dropped.astype(metrics['clients'].dtype))}

    def body(i, carry):
        state, log = carry
        state, metrics = one(state)
        return state, jax.tree.map(lambda line, value: line.at[i].set(value), log, metrics)

    shapes = jax.eval_shape(one, state)[1]
    empty = jax.tree.map(lambda leaf: jnp.zeros((horizon, *leaf.shape), leaf.dtype), shapes)
    return jax.lax.fori_loop(0, n, body, (state, empty))


def _evaluate(factory, kinds: tuple[str, ...], keep: tuple[str, ...], shared, lane: Lane, state: FedState, own=None):
    tests, data = shared
    algorithm, data = factory(lane.hyper), data if own is None else own
    cohort: Any = None
    if data is not None:
        everyone = jnp.arange(algorithm.run.num_clients, dtype=jnp.int32)
        cohort = _cohort(algorithm, data, everyone, None)
    return algorithm.evaluate(state, tests, kinds, cohort, key_of(lane.seed, ADAPT), keep)
