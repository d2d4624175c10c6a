"""From a Flax linen module to the engine's :class:`~fedjax_fair.core.types.Model`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from fedjax_fair.core.types import Array, Model, Output, Variables

_TRAIN_FLAGS = ('train', 'training')
_EVAL_FLAGS = ('deterministic', 'use_running_average')


def from_linen(module: nn.Module, name: str | None = None) -> Model:
    """Wrap a linen module as a :class:`Model`.

    The module returns logits (then the features are the logits) or ``(logits, features)``. Of the keywords ``train``,
    ``training``, ``deterministic``, ``use_running_average`` and ``mask`` its ``__call__`` is given those it names.
    Dropout draws from the step's key; batch statistics change in training only. A module with batch statistics should
    take ``mask`` and hand it to its normalisation layers, or padding examples enter the statistics.

    >>> model = from_linen(nn.Dense(3))
    >>> variables = model.init(jax.random.key(0), jnp.ones((4, 2)))
    >>> model.apply(variables, jnp.ones((4, 2)), jnp.ones(4, bool), False, jax.random.key(1)).logits.shape
    (4, 3)
    """
    keywords = keywords_of(type(module))

    def init(key: Array, x: Array) -> Variables:
        check_inputs(x)
        params_key, dropout_key = jax.random.split(key)
        rngs = {'params': params_key, 'dropout': dropout_key}
        return _split(dict(module.init(rngs, x, **keywords(jnp.ones(x.shape[0], bool), False))))

    def apply(variables: Variables, x: Array, mask: Array, train: bool, key: Array) -> Output:
        if not train:
            return Output(*outputs(module.apply(variables, x, **keywords(mask, False))), variables['batch_stats'])
        rngs, mutable = {'dropout': key}, ['batch_stats']
        out, changed = module.apply(variables, x, rngs=rngs, mutable=mutable, **keywords(mask, True))
        return Output(*outputs(out), changed.get('batch_stats', {}))

    return Model(init, apply, name or type(module).__name__.lower())


def _split(variables: Variables) -> Variables:
    unknown = set(variables) - {'params', 'batch_stats', 'intermediates'}
    if unknown:
        raise ValueError(f'module keeps variables in {sorted(unknown)}; only params and batch_stats are supported')
    return {'params': variables.get('params', {}), 'batch_stats': variables.get('batch_stats', {})}


def keywords_of(module: type) -> Callable[[Array, bool], dict[str, Any]]:
    """``(mask, train)`` as those keywords that a module's ``__call__`` names."""
    parameters = inspect.signature(module.__call__).parameters

    def keywords(mask: Array, train: bool) -> dict[str, Any]:
        values = dict.fromkeys(_TRAIN_FLAGS, train) | dict.fromkeys(_EVAL_FLAGS, not train) | {'mask': mask}
        return {key: value for key, value in values.items() if key in parameters}

    return keywords


def check_inputs(x: Array) -> None:
    """Refuse images that were not scaled."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ValueError(f'x has dtype {x.dtype}; a model takes floating-point inputs: scale integer images first')


def outputs(out: Any) -> tuple[Array, Array]:
    """Logits and features of what a module returned."""
    if not isinstance(out, tuple):
        return out, out
    if len(out) != 2:
        raise ValueError(f'module returns a tuple of {len(out)}; return logits or (logits, features)')
    return out
