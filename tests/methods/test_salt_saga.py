"""Sharpness-aware training and weighting beside other methods, and on augmented data."""

import jax
import jax.numpy as jnp
import pytest
from lab import FEDERATION, LOCAL, SIZES, assert_close, assert_same, lab

from fedjax_fair.core import build
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.testing import tiny_mlp

BASES = [pytest.param(r, marks=pytest.mark.xdist_group(r)) for r in ('afl', 'fairfed', 'fedce', 'fedga', 'qfedavg')]


@pytest.mark.parametrize('base', BASES)
def test_salt_combines_with_every_baseline_and_without_radius_changes_nothing(base):
    both = lab(f'{base}+salt')
    plain = both.go(rounds=2, hyper={'salt.rho': 0.0})
    assert_close(plain, lab(base).go(rounds=2))
    flat = both.go(rounds=2, hyper={'salt.rho': 0.5})
    moved = jax.tree.map(
        lambda a, b: float(jnp.max(jnp.abs(a - b))), plain.variables['params'], flat.variables['params']
    )
    assert max(jax.tree.leaves(moved)) > 1e-3


def weights_with(augmentation, **hyper):
    """SAGA's weights after a round in which clients train on augmented data."""
    chosen = build(
        tiny_mlp(),
        classification(3),
        make_methods('saga', {f'saga.{k}': v for k, v in hyper.items()}),
        sizes=SIZES,
        example=FEDERATION.x[0],
        local=LOCAL,
        augment=augmentation,
    )
    start = chosen.init(jax.random.key(0))
    return jax.jit(chosen.round)(start, FEDERATION.cohort(range(5)), jax.random.key(1))[0].clients['saga']


def test_sharpness_is_measured_on_the_data_as_it_is_unless_augment_asks_otherwise():
    def noise(key, x):
        return x + jax.random.normal(key, x.shape)

    def nothing(key, x):
        return x

    plain = weights_with(noise)
    assert_same(plain, weights_with(nothing))
    assert_close(plain, weights_with(nothing, augment=True), 1e-6)
    assert float(jnp.max(jnp.abs(plain - weights_with(noise, augment=True)))) > 1e-3


def test_sharpness_can_be_measured_at_the_trained_model_and_of_the_adjusted_loss():
    plain = weights_with(None)
    for option in ({'at': 'local'}, {'logit_adjusted': True}):
        other = weights_with(None, **option)
        assert float(jnp.max(jnp.abs(plain - other))) > 1e-4, option
        assert float(jnp.sum(other[:5])) == pytest.approx(1.0, abs=1e-5)
