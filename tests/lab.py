"""One recipe, compiled a few times, for many properties to look at."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core import Algorithm, FedState, Local, build
from fedjax_fair.core.client_map import ClientMap, client_mesh
from fedjax_fair.core.types import Method
from fedjax_fair.data.federation import cohort_of
from fedjax_fair.methods import defaults, make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.testing import tiny_federation, tiny_mlp

SIZES = (12, 7, 9, 5, 8, 0)  # the last client has nothing
NOBODY = len(SIZES)
FEDERATION = tiny_federation(SIZES)
IMAGES = dataclasses.replace(FEDERATION, x=FEDERATION.x.reshape(-1, 2, 2, 1))  # the same numbers for methods that look
LOCAL = Local(epochs=2, batch_size=4, lr=0.1)
KEY = 7

GOLDEN = pathlib.Path(__file__).parent / 'golden'  # numbers of published code
FFL4MIA_PARAMS = ('fc1_weight', 'fc1_bias', 'bn_weight', 'bn_bias', 'fc2_weight', 'fc2_bias')  # of its golden network
FFL4MIA_STATS = ('bn_running_mean', 'bn_running_var')


# Recipes with hyper-parameters that change what a method is, under names of their own.
VARIANTS: dict[str, tuple[str, dict]] = {
    'fedheal as written': ('fedheal', {'fedheal.semantics': 'paper'}),
    'fedheal as released': ('fedheal', {'fedheal.compat_partial': True}),
    'ditto served': ('ditto', {'ditto.aggregate': 'served'}),
}


def methods_of(name: str, hyper=None) -> list[Method]:
    """Of a recipe or a variant of one."""
    recipe, own = VARIANTS.get(name, (name, {}))
    return make_methods(recipe, own | dict(hyper or {}))


def floats(name: str) -> dict[str, float]:
    """The float hyper-parameters of a recipe with their defaults."""
    recipe, _ = VARIANTS.get(name, (name, {}))
    found = {f'{p}.{k}': v for p in recipe.split('+') for k, v in defaults(p).items()}
    return {k: v for k, v in found.items() if isinstance(v, float)}


def federation(recipe: str):
    """The tiny federation, as images where a method needs them."""
    return IMAGES if any(m.name == 'amp_norm' for m in methods_of(recipe)) else FEDERATION


def algorithm(recipe: str, hyper=None, client_map=ClientMap(), local=LOCAL, rounds=5) -> Algorithm:
    return build(
        tiny_mlp(batch_norm=True),
        classification(3),
        methods_of(recipe, hyper),
        sizes=SIZES,
        example=federation(recipe).x[0],
        local=local,
        rounds=rounds,
        client_map=client_map,
    )


class Lab:
    """The compiled programs of one recipe and memoised runs of them."""

    def __init__(self, recipe: str):
        self.recipe, self.hyper, self.traces = recipe, floats(recipe), 0
        self.data = federation(recipe).arrays()
        self.round = jax.jit(self._traced(ClientMap()))
        self.static = jax.jit(self._static(ClientMap(2, client_mesh(2))))
        self.lanes = jax.jit(jax.vmap(self._traced(ClientMap(), count=False), (0, 0, None, 0)))

    def _traced(self, client_map: ClientMap, count: bool = True) -> Callable:
        def run(hyper, state, cohort, seed):
            self.traces += count
            return algorithm(self.recipe, hyper, client_map).round(state, cohort, jax.random.key(seed))

        return run

    def _static(self, client_map: ClientMap) -> Callable:
        chosen = algorithm(self.recipe, self.hyper, client_map)
        return lambda state, cohort, seed: chosen.round(state, cohort, jax.random.key(seed))

    def cohort(self, ids):
        return cohort_of(self.data, jnp.asarray(ids, jnp.int32))

    @functools.cached_property
    def start(self) -> FedState:
        return algorithm(self.recipe, self.hyper).init(jax.random.key(3))

    def go(self, ids=(0, 1, 2, 3, NOBODY, NOBODY), rounds=3, hyper=None, seed=KEY, state=None) -> FedState:
        """The state after some rounds of the main program with the same cohort."""
        hyper = {k: jnp.asarray(v) for k, v in (self.hyper | (hyper or {})).items()}
        state = self.start if state is None else state
        for _ in range(rounds):
            state, self.metrics = self.round(hyper, state, self.cohort(ids), jnp.uint32(seed))
        return state

    @functools.cached_property
    def reference(self) -> FedState:
        return self.go()


@functools.cache
def lab(recipe: str) -> Lab:
    return Lab(recipe)


def assert_close(a, b, tolerance=1e-5) -> None:
    """All leaves are close, and the trees and dtypes the same."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for (path, one), two in zip(jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True):
        assert jnp.asarray(one).dtype == jnp.asarray(two).dtype, path
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance, err_msg=str(path))


def assert_same(a, b) -> None:
    """All leaves are equal bit for bit."""
    for one, two in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(two))
