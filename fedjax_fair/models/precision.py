"""Mixed precision: a model that computes in bfloat16 and keeps its state in float32."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fedjax_fair.core.types import Array, Model, Output, PyTree, Variables
from fedjax_fair.errors import UserError
from fedjax_fair.options import not_one_of

PRECISIONS = ('float32', 'bfloat16')


def in_precision(model: Model, precision: str) -> Model:
    """``model`` computing in ``precision``; ``'float32'`` returns it as it is.

    Parameters and inputs are rounded on the way in, so that their gradients, the optimiser and all that is aggregated
    stay in float32. Logits and features come back as float32, normalisation layers reduce in float32, and batch
    statistics keep their type.

    >>> from fedjax_fair.models import make_model
    >>> half = in_precision(make_model('mlp', 10), 'bfloat16')
    """
    if precision not in PRECISIONS:
        raise UserError(f'`precision`={precision} {not_one_of(precision, PRECISIONS)}')
    if precision == 'float32':
        return model

    def apply(variables: Variables, x: Array, mask: Array, train: bool, key: Array) -> Output:
        rounded = {**variables, 'params': _cast(variables['params'], jnp.bfloat16)}
        out = model.apply(rounded, _cast(x, jnp.bfloat16), mask, train, key)
        stats = jax.tree.map(lambda new, old: new.astype(old.dtype), out.batch_stats, variables['batch_stats'])
        return Output(_cast(out.logits, jnp.float32), _cast(out.features, jnp.float32), stats)

    return model._replace(apply=apply)


def _cast(values: PyTree, dtype: jnp.dtype) -> PyTree:
    return jax.tree.map(lambda v: v.astype(dtype) if jnp.issubdtype(v.dtype, jnp.floating) else v, values)
