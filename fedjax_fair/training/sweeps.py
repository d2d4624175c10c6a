"""A grid of hyper-parameters times seeds as one program, for use from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core import client_map
from fedjax_fair.core.evaluate import MODEL_KINDS, WITHOUT_TRAINING
from fedjax_fair.core.platform import current, on_cpu
from fedjax_fair.core.tree import num_bytes
from fedjax_fair.core.types import Algorithm, Array
from fedjax_fair.data.federation import Federation
from fedjax_fair.data.samplers import Sampler, make_sampler
from fedjax_fair.errors import UserError
from fedjax_fair.metrics import summarise
from fedjax_fair.options import not_one_of
from fedjax_fair.results import chosen_point, mean_score, validation_scores
from fedjax_fair.training.grid import grid_points
from fedjax_fair.training.program import Lane, Program, make_lanes, make_program


class Sweep(NamedTuple):
    """What a sweep found: ``history[name][evaluation, point, seed, ...]`` at ``rounds[evaluation]``; NaN: undefined.

    Where the federation has validation data, ``history['validation']`` is the mean score on them.
    """

    points: tuple[dict[str, float], ...]
    seeds: tuple[int, ...]
    rounds: tuple[int, ...]
    history: dict[str, np.ndarray]

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """The last evaluation: ``metrics[name][point, seed, ...]``."""
        return {name: values[-1] for name, values in self.history.items()}

    @property
    def chosen(self) -> int | None:
        """The point with the best mean validation score at the end; None without validation data.

        To choose by any other number is to select on test data.
        """
        if 'validation' not in self.history:
            return None
        return chosen_point([{'mean': float(mean)} for mean in self.metrics['validation'].mean(-1)])


def sweep(
    alg_factory: Callable[[dict[str, Array]], Algorithm],
    grid: Mapping[str, Sequence[float]],
    seeds: Sequence[int],
    *,
    federation: Federation,
    rounds: int,
    participation: float = 1.0,
    sampler: str | Sampler = 'uniform',
    dropout: float = 0.0,
    eval_every: int | None = None,
    kind: str | None = None,
    chunk: int | None = None,
) -> Sweep:
    """Run every point of a grid with every seed as ONE program; each lane equals the separate run.

    Args:
      alg_factory: builds the algorithm from a dict of traced scalars, one for each name in ``grid``.
      grid: values of every hyper-parameter; all combinations are run.
      seeds: seeds of initialisation, batch order and client sampling.
      federation: the data, the same for all.
      rounds: rounds of training.
      participation: share of clients sampled each round.
      sampler: ``'uniform'``, ``'size'`` or a function ``(key, round) -> ids``.
      dropout: chance that a sampled client drops out of a round.
      eval_every: rounds between evaluations; None evaluates only at the end.
      kind: the model that is evaluated, ``'global'`` or ``'deployed'``; None: the one that clients would use.
      chunk: lanes that are in memory at once; None: as many as fit into half of it.

    Returns:
      A :class:`Sweep` whose ``metrics`` hold arrays ``[points, seeds]`` of every number of
      :func:`~fedjax_fair.metrics.summarise` (``client_accuracy``: ``[points, seeds, clients]``).

    >>> from fedjax_fair.core import Local, build
    >>> from fedjax_fair.methods import make_methods
    >>> from fedjax_fair.metrics import classification
    >>> from fedjax_fair.testing import tiny_federation, tiny_mlp
    >>> data = tiny_federation()
    >>> def fedprox(hyper):
    ...     methods, local = make_methods('fedprox', {'fedprox.mu': hyper['mu']}), Local(lr=hyper['lr'])
    ...     return build(tiny_mlp(), classification(3), methods, sizes=data.sizes, example=data.x[0], local=local)
    >>> swept = sweep(fedprox, {'mu': [0.0, 0.1], 'lr': [0.1, 0.3]}, seeds=[0, 1, 2], federation=data, rounds=2)
    >>> swept.metrics['worst'].shape
    (4, 3)
    """
    _check(seeds, rounds, eval_every, kind, chunk)
    if isinstance(sampler, str):
        sampler = make_sampler(sampler, federation.sizes, participation)
    points, every = grid_points(grid), min(eval_every or rounds, rounds)
    program = make_program(alg_factory, sampler, dropout=dropout, horizon=every, lane_map=_lane_map())
    lanes = make_lanes(points, seeds)
    facts = alg_factory(jax.tree.map(jnp.asarray, points[0])).facts
    score, kind = facts['score'], facts['headline'] if kind is None else kind
    stops = (*range(every, rounds, every), rounds)
    chunk = chunk or lanes_at_once(program, lanes)
    pieces = [_run(program, piece, federation, stops, kind, score) for piece in _pieces(lanes, chunk)]
    history = {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}
    shape, total = (len(points), len(seeds)), len(points) * len(seeds)
    history = {n: v[:, :total].reshape(len(stops), *shape, *v.shape[2:]) for n, v in history.items()}
    return Sweep(points, tuple(seeds), stops, history)


def _check(seeds: Sequence[int], rounds: int, eval_every: int | None, kind: str | None, chunk: int | None) -> None:
    if not len(seeds) or len(set(seeds)) < len(seeds):
        raise UserError(f'`seeds`={list(seeds)} must be one or more different numbers')
    if kind not in (None, *WITHOUT_TRAINING):
        raise UserError(f'`kind`={kind!r} {not_one_of(kind, WITHOUT_TRAINING)}')
    for name, value in {'rounds': rounds, 'eval_every': eval_every, 'chunk': chunk}.items():
        if value is not None and value < 1:
            raise UserError(f'`{name}`={value} must be at least 1')


def _lane_map() -> client_map.ClientMap:
    """Lanes run together on an accelerator and one after another on CPU, as clients do."""
    return client_map.ClientMap(1) if on_cpu() else client_map.ClientMap()


def lanes_at_once(program: Program, lanes: Lane) -> int:
    """How many of these lanes may be in memory at once."""
    return lanes_that_fit(num_bytes(program.shapes(lanes)) // len(lanes.seed), _memory())


def lanes_that_fit(lane_bytes: int, memory: int) -> int:
    """How many lanes may be in memory at once: two copies of each state in half of it, and at least one."""
    return max(1, memory // 2 // (2 * max(lane_bytes, 1)))


def _memory() -> int:
    return current().memory or client_map.host_memory() or 2**40


def _pieces(lanes: Lane, chunk: int | None) -> list[Lane]:
    """Cut lanes into equal pieces, so that all run the same program; the last one repeats its last lane."""
    total = lanes.seed.shape[0]
    size = min(chunk or total, total)
    places = [np.minimum(np.arange(start, start + size), total - 1) for start in range(0, total, size)]
    return [jax.tree.map(lambda leaf, place=place: leaf[place], lanes) for place in places]


def _run(program: Program, lanes: Lane, federation: Federation, stops: Sequence[int], kind: str, score: str):
    """One piece from start to end; returns ``{name: [evaluations, lanes, ...]}``."""
    tests, validation = jax.tree.map(jnp.asarray, (federation.tests, federation.validation))
    data = federation.arrays()
    states, done, summaries = program.init(lanes), 0, []
    for stop in stops:
        states, _ = program.advance(lanes, states, data, jnp.asarray(stop - done, jnp.int32))
        found, done = _by_lane(program.evaluate(lanes, states, tests, None, kinds=(kind,))[kind]), stop
        summaries.append([_summary(values, federation, kind, score) for values in found])
        if validation is not None:
            validated = _by_lane(program.evaluate(lanes, states, validation, None, kinds=(kind,))[kind])
            means = (mean_score(validation_scores(values, score)) for values in validated)
            summaries[-1] = [s | {'validation': mean} for s, mean in zip(summaries[-1], means, strict=True)]
    return {name: np.array([[one[name] for one in line] for line in summaries], np.float64) for name in summaries[0][0]}


def _by_lane(metrics: Mapping[str, Array]) -> list[dict[str, np.ndarray]]:
    fetched = jax.device_get(metrics)
    return [{name: value[lane] for name, value in fetched.items()} for lane in range(len(fetched['count']))]


def _summary(values: Mapping[str, np.ndarray], federation: Federation, kind: str, score: str):
    own = MODEL_KINDS[kind].own
    return summarise(values, federation.tests.test_of, federation.groups, federation.group_of, own, score)
