"""Every recipe computes on four and on eight devices what it computes on one, wherever its clients live.

In 64 bits, where rounding cannot hide a mistake: some recipes make it ten times as large in a round.
"""

import jax
import numpy as np
import pytest
from divided import outcome

from fedjax_fair.methods import RECIPES

pytestmark = pytest.mark.long
NETWORK = {'model': 'cnn', 'norm': 'batch', 'model_options': {'widths': (4,)}}


@pytest.mark.parametrize(('devices', 'participation'), [(4, 1.0), (8, 0.4)])
@pytest.mark.parametrize('recipe', {factory: name for name, factory in reversed(RECIPES.items())}.values())
def test_every_recipe_computes_the_same(recipe, devices, participation):
    assert jax.device_count() >= devices, '`make test-long` makes as many devices'
    with jax.enable_x64(True):
        alone, together = (outcome(recipe, n, participation=participation, **NETWORK)[2] for n in (1, devices))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8), alone, together)
