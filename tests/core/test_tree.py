"""Inner products over pytrees, whichever way a backend sums them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.core import tree
from fedjax_fair.core.platform import machine, made_for

SHAPES = {'kernel': (3, 3, 4, 5), 'dense': (7, 1), 'bias': (5,), 'scale': ()}


def leaves(seed):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


@pytest.mark.parametrize('backend', ['cpu', 'gpu'])
def test_inner_product_and_norm_are_those_of_the_flattened_trees(backend):
    a, b = leaves(0), leaves(1)
    flat_a, flat_b = (np.concatenate([leaf.ravel() for leaf in one.values()]).astype(np.float64) for one in (a, b))
    with made_for(machine()._replace(name=backend)):
        np.testing.assert_allclose(tree.inner(a, b), flat_a @ flat_b, rtol=1e-5)
        np.testing.assert_allclose(tree.norm(a), np.linalg.norm(flat_a), rtol=1e-6)


def test_inner_product_vmaps_and_differentiates():
    a, b = (jax.tree.map(lambda one, two: jnp.stack([one, two]), leaves(n), leaves(n + 1)) for n in (2, 5))
    together = jax.vmap(tree.inner)(a, b)
    apart = [tree.inner(*(jax.tree.map(lambda leaf, row=row: leaf[row], one) for one in (a, b))) for row in (0, 1)]
    np.testing.assert_allclose(together, apart, rtol=1e-5)
    jax.tree.map(np.testing.assert_allclose, jax.grad(tree.inner)(a, b), b)
