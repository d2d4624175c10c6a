"""How often a recipe runs the network: counted in one trace of a client's round, whatever its methods do inside.

The network is replaced by a stand-in that costs nothing and leaves a mark in the traced program wherever it runs, and
another one wherever its gradient is taken. Loops of a known length multiply their marks; a loop over a client's data
(whose length is only known when it runs) is one pass over them. So every way to ask for a gradient counts: wrappers
that take two per step, second models, methods that differentiate on their own.

Limits: the count is of what hooks ask for, also where the compiler finds that two requests are one; of two branches the
dearer one counts; any other loop of unknown length inside of a step counts once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching

from fedjax_fair.core import client
from fedjax_fair.core import cohort as cohorts
from fedjax_fair.core.cohort import OPTIMIZER_ROW
from fedjax_fair.core.local import num_steps
from fedjax_fair.core.spec import Spec
from fedjax_fair.core.types import Array, FedState, Model, Output, PyTree, Variables, default_float

STEP = 'one_local_step'  # names the traced function that is one step of local training

_mark = jex.Primitive('network_runs')
_mark.def_abstract_eval(lambda rows, backward: rows)
ad.deflinear2(_mark, lambda cotangent, rows, backward: [_mark.bind(cotangent, backward=True)])
batching.defvectorized(_mark)


class Passes(NamedTuple):
    """Runs of the network: ``gradients`` with a backward pass, ``forwards`` without.

    Those of a step are in batches, those of measurements in passes over all examples of a client, once per round.
    """

    step_gradients: float
    step_forwards: float
    data_gradients: float
    data_forwards: float


class _Rows(NamedTuple):
    """Examples that run forward, and backward."""

    forward: float = 0.0
    backward: float = 0.0

    def plus(self, other: _Rows, times: float = 1.0) -> _Rows:
        return _Rows(self.forward + times * other.forward, self.backward + times * other.backward)


def count_passes(spec: Spec, start: Callable[[], FedState], label: Any) -> Passes:
    """The passes of one client's round.

    ``start()`` gives the state before the first round, ``label`` is that of one example, as stored in the data.
    """
    width = spec.eval_batch_size  # so that a pass over the data is one batch
    x, y = (jax.ShapeDtypeStruct((width, *np.shape(one)), np.asarray(one).dtype) for one in (spec.run.example, label))
    stand_in = dataclasses.replace(spec, model=_stand_in(spec), only_size=None, loop=_once)
    traced = jax.make_jaxpr(lambda *given: _client_round(stand_in, *given))(jax.eval_shape(start), x, y).jaxpr
    batch, data = min(spec.local.batch_size, width), _rows(traced, skip=True)
    counts = [sum(int(num_steps(spec.local, phase, int(n))) for n in spec.run.sizes) for phase in spec.phases]
    step = _Rows()
    for body, count in zip(_steps(traced), counts, strict=True):
        step = step.plus(_rows(body), count / max(sum(counts), 1) / batch)
    return Passes(
        step_gradients=step.backward,
        step_forwards=step.forward - step.backward,
        data_gradients=data.backward / width,
        data_forwards=(data.forward - data.backward) / width,
    )


def _client_round(spec: Spec, state: FedState, x: Array, y: Array) -> PyTree:
    """What one client does in a round, with ``x`` and ``y`` as its data."""
    everything, n = jnp.arange(x.shape[0]), jnp.asarray(x.shape[0])
    rows = {name: jax.tree.map(lambda leaf: leaf[0], table) for name, table in state.clients.items()}
    own = cohorts.Own(jnp.asarray(0), everything, everything >= 0, n, jnp.asarray(spec.steps(n), default_float()), rows)
    ctx = cohorts.context(spec, cohorts.shared_of(state)._replace(examples=(x, y)), own)
    probed = client.probe(ctx) if spec.probes else client.Findings()
    ctx = dataclasses.replace(ctx, probes=probed.reports, measured=probed.measured)
    return probed, client.train_and_send(ctx, rows.get(OPTIMIZER_ROW))


def _stand_in(spec: Spec) -> Model:
    """A network with the outputs of the real one that marks where it runs; every parameter and input enters them."""

    @functools.cache
    def outputs(shape: tuple[int, ...], dtype: Any, train: bool) -> Output:
        one, flag = jax.ShapeDtypeStruct((1, *shape), dtype), jax.ShapeDtypeStruct((1,), bool)
        key = jax.eval_shape(lambda: jax.random.key(0))
        variables = jax.eval_shape(spec.model.init, key, one)
        return jax.eval_shape(lambda v, x, m, k: spec.model.apply(v, x, m, train, k), variables, one, flag, key)

    def apply(variables: Variables, x: Array, mask: Array, train: bool, key: Array) -> Output:
        weight = jnp.stack([jnp.sum(leaf).astype(default_float()) for leaf in jax.tree.leaves(variables['params'])])
        rows = x.reshape(x.shape[0], -1).sum(1).astype(weight.dtype) + weight.sum()
        rows = _mark.bind(rows, backward=False)

        def of_rows(like: Any) -> Array:
            column = rows.reshape(-1, *(1,) * (len(like.shape) - 1)).astype(like.dtype)
            return jnp.broadcast_to(column, (x.shape[0], *like.shape[1:]))

        out = outputs(x.shape[1:], x.dtype, train)
        return Output(of_rows(out.logits), of_rows(out.features), variables['batch_stats'])

    return spec.model._replace(apply=apply)


def _once(lower: Any, upper: Any, body: Callable[[Any, PyTree], PyTree], state: PyTree) -> PyTree:
    """One turn of a loop over local steps, as a function of its own in the traced program."""

    def one_local_step(step: Array, state: PyTree) -> PyTree:
        return body(step, state)

    return jax.jit(one_local_step)(jnp.asarray(lower), state)


def _steps(jaxpr: jex.Jaxpr) -> Iterator[jex.Jaxpr]:
    """The traced steps, one per phase of local training."""
    for equation in jaxpr.eqns:
        if equation.params.get('name') == STEP:
            yield from jex.jaxprs_in_params(equation.params)
        else:
            for inner in jex.jaxprs_in_params(equation.params):
                yield from _steps(inner)


def _rows(jaxpr: jex.Jaxpr, skip: bool = False) -> _Rows:
    """Examples that run through the network; ``skip`` leaves out the steps of local training."""
    total = _Rows()
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name == _mark.name:
            size = float(np.prod(equation.outvars[0].aval.shape))  # type: ignore[attr-defined]
            total = total.plus(_Rows(backward=size) if params['backward'] else _Rows(forward=size))
            continue
        if skip and params.get('name') == STEP:
            continue
        inner = [_rows(one, skip) for one in jex.jaxprs_in_params(params)]
        if name == 'cond' and inner:
            inner = [_Rows(*map(max, zip(*inner, strict=True)))]
        times = params['length'] if name == 'scan' else 1
        for one in inner:
            total = total.plus(one, times)
    return total
