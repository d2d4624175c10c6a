"""Every recipe keeps the promises of the engine. Registering a recipe brings it here."""

import jax
import jax.numpy as jnp
import pytest
from lab import lab

from fedjax_fair.core.tree import paths
from fedjax_fair.methods import RECIPES, make_methods
from fedjax_fair.testing import conformance

FACTORIES = {factory: name for name, factory in reversed(RECIPES.items())}  # one name for each factory
COMPOSED = ['scaffold+server_adam', 'fedprox+qffl', 'fednova+server_momentum']
EVERY = [*sorted(FACTORIES.values()), *COMPOSED]

# One group per recipe: with xdist's loadgroup its properties share the programs one worker compiled.
recipes = pytest.mark.parametrize('recipe', [pytest.param(r, marks=pytest.mark.xdist_group(r)) for r in EVERY])


@recipes
@pytest.mark.parametrize('promise', conformance.PROMISES)
def test_a_recipe_keeps_the_promises(recipe, promise):
    conformance.PROMISES[promise](lab(recipe))


@recipes
def test_changes_the_model(recipe):
    this = lab(recipe)
    moved = jax.tree.map(lambda a, b: float(jnp.max(jnp.abs(a - b))), this.start.variables, this.reference.variables)
    kept = {path for m in make_methods(recipe) if m.keeps for path in m.keeps(this.start.variables)}  # with the clients
    still = {name for name, size in zip(*map(jax.tree.leaves, (paths(moved), moved)), strict=True) if size < 1e-4}
    assert still == kept
