"""One recipe on a tiny federation, compiled a few times, for many properties to look at."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp

from fedjax_fair.core import Algorithm, Cohort, FedState, Local, build
from fedjax_fair.core.client_map import ClientMap, client_mesh
from fedjax_fair.core.homes import Homes
from fedjax_fair.core.platform import on_cpu
from fedjax_fair.core.types import Array
from fedjax_fair.data.at_home import examples_at_home
from fedjax_fair.data.federation import cohort_of
from fedjax_fair.methods import defaults, make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.testing.tiny import tiny_federation, tiny_mlp

SIZES = (12, 7, 9, 5, 8, 0)  # the last client has nothing
NOBODY = len(SIZES)
FEDERATION = tiny_federation(SIZES)
IMAGES = dataclasses.replace(FEDERATION, x=FEDERATION.x.reshape(-1, 2, 2, 1))  # the same numbers as images
LOCAL = Local(epochs=2, batch_size=4, lr=0.1)
KEY = 7
SOME = (0, 1, 2, 3, NOBODY, NOBODY)
NUMBERS = itertools.count()


def _jit(fn: Callable) -> Callable:
    """Compiled without optimisation on CPU: these programs are large, and run a few times on tiny arrays."""
    return jax.jit(fn, compiler_options={'xla_backend_optimization_level': '0'} if on_cpu() else None)


class Lab:
    """The compiled programs of one recipe and memoised runs of them; float hyper-parameters are traced."""

    def __init__(self, recipe: str, hyper: Mapping[str, Any] | None = None):
        self.recipe, self.fixed = recipe, dict(hyper or {})
        every = {f'{part}.{key}': value for part in recipe.split('+') for key, value in defaults(part).items()}
        self.hyper = {k: v for k, v in (every | self.fixed).items() if isinstance(v, float)}
        self.data = IMAGES.arrays()
        self.round = _jit(chex.assert_max_traces(self._traced(), n=1))
        self.two_devices = ClientMap(2, client_mesh(min(2, jax.local_device_count())))
        told = self.algorithm(self.hyper).facts['setting']
        self.homes = Homes.of(told.run.sizes, told.steps, self.two_devices)
        self.static = _jit(self._static(self.two_devices, self.homes))
        self.lanes = _jit(jax.vmap(self._traced(), (0, 0, None, 0)))

    def algorithm(
        self,
        hyper: Mapping[str, Any] | None = None,
        client_map: ClientMap = ClientMap(),
        homes: Homes | None = None,
    ) -> Algorithm:
        """The recipe as an algorithm of the tiny federation."""
        return build(
            tiny_mlp(batch_norm=True),
            classification(3),
            make_methods(self.recipe, {**self.fixed, **(hyper or {})}),
            sizes=SIZES,
            example=IMAGES.x[0],
            local=LOCAL,
            rounds=5,
            client_map=client_map,
            homes=homes,
        )

    def _traced(self) -> Callable:
        def run(hyper: dict, state: FedState, cohort: Cohort, seed: Array) -> tuple[FedState, dict[str, Array]]:
            return self.algorithm(hyper).round(state, cohort, jax.random.key(seed))

        run.__name__ = f'round_{next(NUMBERS)}'  # chex counts the traces of functions by name and source
        return run

    def _static(self, client_map: ClientMap, homes: Homes | None) -> Callable:
        chosen = self.algorithm(self.hyper, client_map, homes)
        return lambda state, cohort, seed: chosen.round(state, cohort, jax.random.key(seed))

    def cohort(self, ids: Sequence[int], homes: Homes | None = None) -> Cohort:
        """The cohort of these clients; :data:`NOBODY` is an empty slot."""
        data = self.data if homes is None else examples_at_home(IMAGES, homes)
        return cohort_of(data, jnp.asarray(ids, jnp.int32))

    def started(self, hyper: Mapping[str, Any]) -> FedState:
        """The state before the first round."""
        return self.algorithm(hyper).init(jax.random.key(3))

    @functools.cached_property
    def start(self) -> FedState:
        return self.started(self.hyper)

    def go(
        self,
        ids: Sequence[int] = SOME,
        rounds: int = 3,
        hyper: Mapping[str, Any] | None = None,
        seed: int = KEY,
        state: FedState | None = None,
    ) -> FedState:
        """The state after some rounds of the main program with the same cohort."""
        values = {k: jnp.asarray(v) for k, v in {**self.hyper, **(hyper or {})}.items()}
        state = self.start if state is None else state
        for _ in range(rounds):
            state, self.metrics = self.round(values, state, self.cohort(ids), jnp.uint32(seed))
        return state

    @functools.cached_property
    def reference(self) -> FedState:
        return self.go()
