"""Less memory for more work: activations that are cheap to compute are computed again in the backward pass."""

from __future__ import annotations

import jax

from fedjax_fair.core.types import Array, Model, Output, Variables


def rematerialized(model: Model) -> Model:
    """``model`` of which only the results of convolutions and matrix products are kept for the backward pass.

    Normalisation and activation functions run again there. Values and gradients are those of ``model``, up to rounding.

    >>> from fedjax_fair.models import make_model
    >>> lean = rematerialized(make_model('resnet18', 10))
    """

    def apply(variables: Variables, x: Array, mask: Array, train: bool, key: Array) -> Output:
        def forward(variables: Variables, x: Array, mask: Array, key: Array) -> Output:
            return model.apply(variables, x, mask, train, key)

        kept = jax.checkpoint_policies.dots_saveable
        return jax.checkpoint(forward, policy=kept)(variables, x, mask, key)

    return model._replace(apply=apply)
