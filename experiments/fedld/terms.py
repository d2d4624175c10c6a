"""The terms of FedLD's loss decomposition in some rounds of a training run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from experiments.fedld.published import SPLITS
from experiments.fedld.study import HALVES, Row
from experiments.study import Study, portable
from fedjax_fair.core.types import FedState
from fedjax_fair.diagnostics import Decomposition, loss_decomposition
from fedjax_fair.results.files import read_json, write_json
from fedjax_fair.training import prepare
from fedjax_fair.training.program import ORDER, key_of, make_lanes
from fedjax_fair.training.setup import Experiment

MOMENTS = (1, 5, 20)  # rounds whose loss is decomposed
TERMS = ('local', 'shift', 'aggregation', 'total')
PLAIN = 'naive'
WAYS = {PLAIN: HALVES[False, False], 'margin': HALVES[True, False], 'principal': HALVES[False, True]}
Terms = Mapping[str, Sequence[float]]  # one number per seed
Found = Mapping[str, Mapping[str, Terms]]  # by round and way


class Measured(NamedTuple):
    """One way to train: the state of a seed at the start, the state after a round, and the terms of such a state."""

    start: Callable[[int], FedState]
    step: Callable[[FedState, Any], FedState]
    terms: Callable[[FedState], Decomposition]


def moments(study: Study) -> tuple[int, ...]:
    """The rounds that are measured: those that the study has."""
    return tuple(number for number in MOMENTS if number <= study.config.rounds)


def decomposed(study: Study, alpha: float) -> Found:
    """The terms of every way in some rounds of a plain training run: ``[round][way][term]``, one number per seed."""
    seeds, numbers = study.config.seeds, moments(study)
    # Seeds come one after another, so that devices are the clients'.
    column = {'alpha': alpha, 'rounds': max(numbers), 'seeds': seeds[:1]}
    ways = {way: measured(study, row, column) for way, row in WAYS.items()}
    by_seed = [in_training(ways, seed, numbers) for seed in seeds]

    def terms_of(number: int, way: str) -> Terms:
        return {term: [float(getattr(one[number, way], term)) for one in by_seed] for term in TERMS}

    return {f'{number}': {way: terms_of(number, way) for way in WAYS} for number in numbers}


def in_training(
    ways: Mapping[str, Measured], seed: int, numbers: Sequence[int]
) -> dict[tuple[int, str], Decomposition]:
    """FedAvg trains; in a round that is measured every way goes on from the same global model.

    So naive and principal aggregation have the same local models. The terms of all are made of plain losses.
    """
    start = {way: one.start(seed) for way, one in ways.items()}
    state, key, found = start[PLAIN], key_of(jnp.uint32(seed), ORDER), {}
    for number in range(1, max(numbers) + 1):
        for way, one in ways.items() if number in numbers else ():
            here = start[way]._replace(round=state.round, variables=state.variables)
            found[number, way] = jax.device_get(ways[PLAIN].terms(one.step(here, key)))
        state = ways[PLAIN].step(state, key)
    return found


def measured(study: Study, row: Row, column: Mapping[str, Any]) -> Measured:
    """A way, with all other settings of the study."""
    experiment = prepare(study.settings(f'{row.recipe}+keep_local_models', row.at(SPLITS[-1]), **column))
    algorithm, data = experiment.algorithm, experiment.federation
    everyone = data.cohort(range(data.num_clients))

    def step(state: FedState, key: Any) -> FedState:
        return algorithm.round(state, everyone, key)[0]

    def terms(after: FedState) -> Decomposition:
        return loss_decomposition(algorithm, after, everyone)

    return Measured(lambda seed: first(experiment, seed), jax.jit(step), jax.jit(terms))


def first(experiment: Experiment, seed: int) -> FedState:
    """The state of one seed before the first round."""
    states = experiment.listed(experiment.program.init(make_lanes(({},), (seed,))))
    return jax.tree.map(lambda leaf: leaf[0], states)


def kept(study: Study, alpha: float) -> Found:
    """:func:`decomposed`, read from a file where the same settings were measured before."""
    path = study.out / 'terms' / f'alpha={alpha:g}.json'
    asked = portable({'moments': moments(study), **dataclasses.asdict(study.config)})
    known = read_json(path) if path.exists() else {}
    if known.get('settings') == asked:
        return known['terms']
    found = decomposed(study, alpha)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {'settings': asked, 'terms': found})
    return found
