"""Runs that are made for an accelerator, on the processors that are here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.core.platform import Platform, machine
from fedjax_fair.training.setup import prepare


@pytest.mark.parametrize('recipe', ['fedavg', 'fedism+fedheal'])
def test_a_round_as_accelerators_run_it_computes_the_same(toy, recipe):
    config = toy(recipe=recipe, scenario='digits_domains', model='cnn', model_options={'widths': (4, 4)}, lr=0.01)
    models = []
    for platform in (None, Platform('gpu', machine().devices[:1])):
        run = prepare(config, platform=platform)
        assert run.layout.startswith(f'{"gpu" if platform else "cpu"}, float32, clients {"vmap" if platform else ""}')
        states, _ = run.program.advance(run.lanes, run.program.init(run.lanes), run.examples(), jnp.int32(1))
        models.append(jax.device_get(states.variables))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), *models)
