"""A projection between a network and its last layer, for methods that compare features."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn

from fedjax_fair.core.types import Array, Model, Output, Variables
from fedjax_fair.errors import UserError
from fedjax_fair.models.adapter import outputs


class _Head(nn.Module):
    """Another layer of the projection, and the linear head on top of it."""

    num_classes: int

    @nn.compact
    def __call__(self, x: Array) -> tuple[Array, Array]:
        projected = nn.Dense(x.shape[-1], name='projection')(nn.relu(x))
        return nn.Dense(self.num_classes, name='classes')(projected), projected


def with_projection(network: Model, num_classes: int) -> Model:
    """A network whose own outputs, ``[B, width]``, are the first layer of a projection of two before a new head.

    ``features = projection(relu(network(x)))`` and ``logits = classes(features)``: build ``network`` with as many
    classes as the projection is wide.

    Reference: Li et al., Model-Contrastive Federated Learning, CVPR 2021, where the first layer of the projection is as
    wide as the network's features.
    """
    head = _Head(num_classes)

    def init(key: Array, x: Array) -> Variables:
        one, two = jax.random.split(key)
        variables = network.init(one, x)
        out = jax.eval_shape(lambda: network.apply(variables, x, jnp.ones(x.shape[0], bool), False, two).logits)
        if len(out.shape) != 2:
            raise UserError(f'`model_options`: projection does not fit {network.name}, whose outputs are images')
        added = head.init(two, jnp.zeros(out.shape, out.dtype))['params']
        return {**variables, 'params': {**variables['params'], 'projected': added}}

    def apply(variables: Variables, x: Array, mask: Array, train: bool, key: Array) -> Output:
        params = dict(variables['params'])
        added = params.pop('projected')
        out = network.apply({**variables, 'params': params}, x, mask, train, key)
        return Output(*outputs(head.apply({'params': added}, out.logits)), out.batch_stats)

    return Model(init, apply, network.name)
