"""The compiled programs of an experiment: lanes of (seed, hyper-parameters) that all run the same algorithm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core import client_map as mapping
from fedjax_fair.core.types import Algorithm, Array, FedState, PyTree, Tests
from fedjax_fair.data.federation import Examples, cohort_of
from fedjax_fair.data.samplers import Sampler, survivors

INIT, ORDER, SAMPLE, ADAPT = range(4)  # independent streams of one seed


class Lane(NamedTuple):
    """One run: its seed and the float hyper-parameters in which it differs from the others."""

    seed: Array
    hyper: dict[str, Array]


class Program(NamedTuple):
    """Jitted functions over all lanes at once.

    ``init(lanes)``, and ``shapes(lanes)`` of what it would give; ``advance(lanes, states, data, n)`` runs up to
    ``horizon`` rounds on device and returns the states (the old ones are donated) with every round's metrics
    ``[lanes, horizon]``; ``evaluate(lanes, states, tests, data)`` takes the kinds of model as a keyword.
    """

    init: Callable
    shapes: Callable
    advance: Callable
    evaluate: jax.stages.Wrapped
    horizon: int


def make_lanes(points: Sequence[Mapping[str, float]], seeds: Sequence[int]) -> Lane:
    """Every point times every seed, stacked; points vary slowest."""
    pairs = list(itertools.product(points, seeds))
    floats = jnp.zeros(0).dtype
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
    lane_map: mapping.ClientMap = mapping.ClientMap(1),
    placement: jax.sharding.Sharding | None = None,
    start: Mapping[str, PyTree] = MappingProxyType({}),
) -> Program:
    """Compile an algorithm factory into programs over lanes.

    ``factory(hyper)`` builds the algorithm for one lane's (traced) hyper-parameters. How many rounds ``advance`` runs
    is an argument, not a constant: evaluations, checkpoints and progress never cause a second compilation. For the same
    reason states always stay where ``placement`` puts them. ``start`` are variables to begin with, in place of drawn
    ones.
    """

    def over_lanes(fn: Callable, shared: PyTree, lanes: PyTree) -> PyTree:
        count = jax.tree.leaves(lanes)[0].shape[0]
        spread, slots = mapping.fit(lane_map, count)
        padded = jax.tree.map(lambda leaf: leaf[jnp.minimum(jnp.arange(slots), count - 1)], lanes)
        out = mapping.map_clients(spread, lambda shared, lane: fn(shared, *lane), shared, padded)
        return jax.tree.map(lambda leaf: leaf[:count], out)

    @partial(jax.jit, out_shardings=placement, compiler_options=_quick_to_compile())
    def init(lanes: Lane, start: PyTree) -> FedState:
        return jax.vmap(lambda lane: factory(lane.hyper).init(key_of(lane.seed, INIT), start))(lanes)

    def advance(lanes: Lane, states: FedState, data: Examples, n: Array):
        run = partial(_rounds, factory, sampler, dropout, horizon)
        return over_lanes(run, (data, n), (lanes, states))

    def evaluate(lanes: Lane, states: FedState, tests: Tests, data: Examples | None, kinds: tuple[str, ...]):
        return over_lanes(partial(_evaluate, factory, kinds), (tests, data), (lanes, states))

    return Program(
        lambda lanes: init(lanes, dict(start)),
        lambda lanes: init.eval_shape(lanes, dict(start)),
        jax.jit(advance, donate_argnums=1, out_shardings=(placement, None)),
        jax.jit(evaluate, static_argnames='kinds'),
        horizon,
    )


def _quick_to_compile() -> dict[str, str] | None:
    """On CPU, little optimisation for what runs once: drawing every parameter compiles slower than it runs."""
    return {'xla_backend_optimization_level': '1'} if jax.default_backend() == 'cpu' else None


def _rounds(factory, sampler: Sampler, dropout, horizon: int, shared, lane: Lane, state: FedState):
    data, n = shared
    algorithm = factory(lane.hyper)

    @jax.jit  # traced once, for the shapes and for the loop
    def one(state):
        key = jax.random.fold_in(key_of(lane.seed, SAMPLE), state.round)
        ids = sampler(key, state.round)
        mask = survivors(jax.random.fold_in(key, 1), ids, dropout)
        state, metrics = algorithm.round(state, cohort_of(data, ids, mask), key_of(lane.seed, ORDER))
        dropped = ~mask & (ids < data.sizes.shape[0])
        return state, metrics | {'dropped': jnp.sum(dropped.astype(metrics['clients'].dtype))}

    def body(i, carry):
        state, log = carry
        state, metrics = one(state)
        return state, jax.tree.map(lambda line, value: line.at[i].set(value), log, metrics)

    shapes = jax.eval_shape(one, state)[1]
    empty = jax.tree.map(lambda leaf: jnp.zeros((horizon, *leaf.shape), leaf.dtype), shapes)
    return jax.lax.fori_loop(0, n, body, (state, empty))


def _evaluate(factory, kinds: tuple[str, ...], shared, lane: Lane, state: FedState) -> dict[str, dict[str, Array]]:
    tests, data = shared
    cohort: Any = None
    if data is not None:
        cohort = cohort_of(data, jnp.arange(data.sizes.shape[0], dtype=jnp.int32))
    return factory(lane.hyper).evaluate(state, tests, kinds, cohort, key_of(lane.seed, ADAPT))
