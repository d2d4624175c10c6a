"""From a Flax nnx module to the engine's :class:`~fedjax_fair.core.types.Model`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from flax.traverse_util import flatten_dict, unflatten_dict

from fedjax_fair.core.types import Array, Model, Output, PyTree, Variables
from fedjax_fair.models.adapter import check_inputs, keywords_of, outputs


def from_nnx(make: Callable[[nnx.Rngs], nnx.Module], name: str | None = None) -> Model:
    """Wrap an nnx module as a :class:`Model`; ``make(rngs)`` constructs it.

    The module returns logits (then the features are the logits) or ``(logits, features)``. It is switched between
    training and evaluation by ``module.train()`` and ``module.eval()``, and its ``__call__`` is also given those of the
    keywords ``train``, ``training``, ``deterministic``, ``use_running_average`` and ``mask`` that it names. Dropout
    draws from the step's key; batch statistics change in training only. nnx's own BatchNorm takes a mask of its inputs'
    shape: hand it on, or padding examples enter the statistics.

    >>> model = from_nnx(lambda rngs: nnx.Linear(2, 3, rngs=rngs))
    >>> variables = model.init(jax.random.key(0), jnp.ones((4, 2)))
    >>> model.apply(variables, jnp.ones((4, 2)), jnp.ones(4, bool), False, jax.random.key(1)).logits.shape
    (4, 3)
    """
    abstract = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
    keywords = keywords_of(type(abstract))
    graph, *states = nnx.split(abstract, nnx.Param, nnx.BatchStat, nnx.RngState, ...)
    params, stats, streams, rest = states
    if unknown := sorted({type(leaf).__name__ for leaf in _leaves(rest)}):
        raise ValueError(f'module keeps variables of type {", ".join(unknown)}; only Param and BatchStat are supported')

    def init(key: Array, x: Array) -> Variables:
        check_inputs(x)
        _, *states = nnx.split(make(nnx.Rngs(key)), nnx.Param, nnx.BatchStat, ...)
        return {'params': _plain(states[0]), 'batch_stats': _plain(states[1])}

    def apply(variables: Variables, x: Array, mask: Array, train: bool, key: Array) -> Output:
        own = (_filled(params, variables['params']), _filled(stats, variables['batch_stats']), _seeded(streams, key))
        module = nnx.merge(graph, *own)
        (module.train if train else module.eval)()
        out = outputs(module(x, **keywords(mask, train)))
        kept = _plain(nnx.state(module, nnx.BatchStat)) if train else variables['batch_stats']
        return Output(*out, kept)

    return Model(init, apply, name or type(abstract).__name__.lower())


def _leaves(state: nnx.State) -> list[Any]:
    return [leaf for _, leaf in nnx.to_flat_state(state)]


def _plain(state: nnx.State) -> PyTree:
    """Nested dicts of arrays; numbers of layers in a list become strings, as checkpoints want them."""
    return unflatten_dict({tuple(map(str, path)): leaf[...] for path, leaf in nnx.to_flat_state(state)})


def _filled(state: nnx.State, values: PyTree) -> nnx.State:
    """The adjoint of :func:`_plain`."""
    flat = flatten_dict(values)
    pairs = [(path, leaf.replace(flat[tuple(map(str, path))])) for path, leaf in nnx.to_flat_state(state)]
    return nnx.from_flat_state(pairs)


def _seeded(streams: nnx.State, key: Array) -> nnx.State:
    """Random streams that all begin with this step's key, one differently from the other."""
    pairs = []
    for number, (path, leaf) in enumerate(nnx.to_flat_state(streams)):
        is_key = isinstance(leaf, nnx.RngKey)
        pairs.append((path, leaf.replace(jax.random.fold_in(key, number) if is_key else jnp.zeros((), jnp.uint32))))
    return nnx.from_flat_state(pairs)
