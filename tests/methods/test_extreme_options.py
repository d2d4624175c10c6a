"""Options at the ends of their ranges: what is computed of them before a run is still a number of float32."""

import warnings

import jax
import jax.numpy as jnp
import pytest
from lab import IMAGES, SIZES

from fedjax_fair.core import Local, build
from fedjax_fair.errors import UserError
from fedjax_fair.methods import RECIPES, make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.options import Squared, options_of
from fedjax_fair.ranges import LARGEST_FLOAT, SMALLEST_FLOAT
from fedjax_fair.testing import tiny_mlp

FACTORIES = {factory: name for name, factory in reversed(RECIPES.items())}  # one name for each factory
COHORT = IMAGES.cohort([0, 1])
KEY = jax.random.key(0)


def cases():
    """The largest number that every option may be."""
    for factory, name in FACTORIES.items():
        for key, option in options_of(factory).items():
            if isinstance(option.default, float):
                high = None if option.range is None else option.range.high
                yield f'{name}.{key}', LARGEST_FLOAT if high is None else high


def traced(recipe, option, value):
    facts = dict(sizes=SIZES, example=IMAGES.x[0], local=Local(steps=1, batch_size=4), rounds=5)
    algorithm = build(tiny_mlp(batch_norm=True), classification(3), make_methods(recipe, {option: value}), **facts)
    return jax.eval_shape(algorithm.round, jax.eval_shape(algorithm.init, KEY), COHORT, KEY)


def test_no_constant_overflows():
    with warnings.catch_warnings():
        warnings.simplefilter('error', RuntimeWarning)
        for option, value in cases():
            try:
                traced(option.partition('.')[0], option, value)
            except UserError:  # out of its range
                continue
            except RuntimeWarning as warning:
                pytest.fail(f'{option}={value}: {warning}')


def test_squares_of_squared_options_are_numbers():
    for bound in Squared.__metadata__[0][:2]:
        assert SMALLEST_FLOAT <= bound**2 <= LARGEST_FLOAT and jnp.isfinite(jnp.float32(bound) ** 2)
