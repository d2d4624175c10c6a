"""The programs of an experiment, compiled for its platform from shapes alone."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.batches import shapes_divided
from fedjax_fair.core.types import PyTree, Tests
from fedjax_fair.data.at_home import shapes_at_home
from fedjax_fair.data.federation import Examples
from fedjax_fair.data.stream import Streamed, room_for
from fedjax_fair.training.hlo import Work, work_of
from fedjax_fair.training.setup import Experiment
from fedjax_fair.training.storage import Place

TOO_LARGE = re.compile(r'RESOURCE_EXHAUSTED|Ran out of memory|Out of memory')
USED = re.compile(r'HLO temporaries \(([\d.]+)([KMG])\)')  # the compiler for TPU of a program that does not fit
UNITS = {'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}


class Parts(NamedTuple):
    """Bytes on one device by what holds them; ``temporaries`` are what a program needs while it runs."""

    model: int
    rows: int
    server: int
    examples: int
    tests: int
    temporaries: int

    @property
    def total(self) -> int:
        return sum(self)


class Compiled(NamedTuple):
    """One compiled program that ``run`` runs; ``fits`` says whether its compiler has found room for it.

    Bytes are those of one device: of its ``temporaries`` (None: not known), and of its ``arguments``.
    """

    temporaries: int | None
    arguments: int
    work: Work
    fits: bool
    run: Callable | None


def shapes_of(experiment: Experiment) -> tuple[PyTree, PyTree, PyTree, PyTree]:
    """Lanes, states, examples and test sets of an experiment as shapes, placed on the devices of its platform."""
    lanes, federation, homes = experiment.lanes, experiment.federation, experiment.homes
    states = experiment.program.shapes(lanes)
    if experiment.storage.streams:
        states, data = _streamed(experiment, states)
    elif homes is not None:
        data = shapes_at_home(federation, homes)
    else:
        data = Examples(federation.x, federation.y, federation.index, federation.sizes)  # type: ignore[arg-type]
    given, places = (lanes, states, data), places_of(experiment)
    shapes = jax.tree.map(_shapes, places, given, is_leaf=lambda one: isinstance(one, jax.sharding.Sharding))
    return *shapes, _tests(experiment)


def _tests(experiment: Experiment) -> Tests:
    """Shapes of the test sets, whose inputs are divided where clients are."""
    tests, most, client_map = experiment.federation.tests, experiment.config.eval_batch_size, experiment.client_map
    if client_map.mesh is None or client_map.ordered:
        return _shapes(everywhere(experiment), tests)
    labels = _shapes(everywhere(experiment), dataclasses.replace(tests, x=None))
    return dataclasses.replace(labels, x=shapes_divided(tests, most, client_map).x)


def everywhere(experiment: Experiment) -> jax.sharding.Sharding:
    """On all devices of a mesh, or on the only one."""
    mesh = experiment.lane_map.mesh or experiment.client_map.mesh
    if mesh is None:
        return jax.sharding.SingleDeviceSharding(experiment.platform.devices[0])
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def places_of(experiment: Experiment) -> tuple[Any, Any, Any]:
    """Where lanes, states and examples are, each as one sharding or one for every part."""
    shared, homes = everywhere(experiment), experiment.homes
    examples = shared if homes is None else Examples(homes.divided, homes.divided, shared, shared)  # type: ignore
    return shared, experiment.placement or shared, examples


def _shapes(sharding: Any, part: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: _shape(leaf, sharding), part)


def _shape(leaf: Any, sharding: Any) -> jax.ShapeDtypeStruct:
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype) if isinstance(leaf, np.ndarray) else leaf.dtype
    return jax.ShapeDtypeStruct(leaf.shape, dtype, sharding=sharding)


def _streamed(experiment: Experiment, states: PyTree) -> tuple[PyTree, PyTree]:
    """Shapes of one cohort of every lane, and of states that hold the rows of one cohort where rows are away."""
    federation, lanes = experiment.federation, len(experiment.lanes.seed)
    cohort = experiment.cohort
    room, longest = room_for(federation.sizes, cohort), federation.index.shape[1]

    def of(shape: tuple[int, ...], dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((lanes, *shape), dtype)

    x, y = (of((room, *table.shape[1:]), table.dtype) for table in (federation.x, federation.y))
    places = None
    if experiment.storage.rows is not Place.DEVICE:
        places = of((cohort,))
        rows = jax.tree.map(lambda leaf: of((cohort, *leaf.shape[2:]), leaf.dtype), states.clients)
        states = states._replace(clients=rows)
    return states, Streamed(of((cohort,)), of((cohort,)), of((cohort, longest)), x, y, places)


def compiled_round(experiment: Experiment) -> Compiled:
    """The program of rounds; its work is that of one round."""
    lanes, states, data, _ = shapes_of(experiment)
    n = jax.ShapeDtypeStruct((), jnp.int32, sharding=everywhere(experiment))
    return _compiled(experiment, experiment.program.advance.lower(lanes, states, data, n), turns_of(experiment))


def compiled_evaluation(experiment: Experiment) -> Compiled:
    """The program of an evaluation of the models that are evaluated without training."""
    lanes, states, data, tests = shapes_of(experiment)
    given = data if isinstance(data, Streamed) else None
    lowered = experiment.program.evaluate.lower(lanes, states, tests, given, kinds=experiment.kinds)
    return _compiled(experiment, lowered, {})


def _compiled(experiment: Experiment, lowered: jax.stages.Lowered, turns: Mapping[str, float]) -> Compiled:
    try:
        program = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if not is_too_large(error):
            raise
        used = USED.search(str(error))
        return Compiled(int(float(used[1]) * UNITS[used[2]]) if used else None, 0, Work(), fits=False, run=None)
    memory: Any = program.memory_analysis()
    work = work_of(program.as_text() or '', turns)
    return Compiled(memory.temp_size_in_bytes, memory.argument_size_in_bytes, work, fits=True, run=program)


def is_too_large(error: Exception) -> bool:
    """Whether a program does not fit into the memory of its devices."""
    return TOO_LARGE.search(str(error)) is not None


def turns_of(experiment: Experiment) -> dict[str, float]:
    """The mean turns of every loop over clients' data, by its name: a chunk takes as many as its longest client."""

    def mean(turns: np.ndarray) -> float:
        turns = np.sort(turns)[::-1]
        cohort = turns[np.linspace(0, len(turns) - 1, experiment.cohort).round().astype(int)]
        return float(np.mean(cohort[:: experiment.client_map.chunk or len(cohort)]))

    return {name: mean(turns) for name, turns in experiment.algorithm.facts['turns'].items()}


def parts_of(experiment: Experiment, programs: Sequence[Compiled]) -> Parts:
    """The memory of one device: what stays there, and the largest temporaries of these programs."""
    _, states, data, tests = shapes_of(experiment)
    return Parts(
        model=_on_one_device((states.variables, states.opt)),
        rows=_on_one_device(states.clients),
        server=_on_one_device((states.server, states.seen, states.round)),
        examples=_on_one_device(data),
        tests=_on_one_device(tests),
        temporaries=max(one.temporaries or 0 for one in programs),
    )


def _on_one_device(shapes: PyTree) -> int:
    """Bytes of arrays on one of their devices."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes)
    )
