"""Every base under every plug-in: the promises of the engine that a combination could break, from one program each.

What a method keeps alone is tested in test_conformance.py; the bases alone are there. Variants of a recipe are here.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import NOBODY, VARIANTS, assert_close, lab

BASES = ['fedavg', 'fedprox', 'scaffold', 'moon', 'feddyn', 'fedproc', 'fedproto']
PLUGINS = ['afl', 'qffl', 'fedheal']
JOINED = [f'{base}+{plugin}' for base in BASES for plugin in PLUGINS]
REDUCED = [*JOINED, 'fedprox+qfedavg', *VARIANTS]
EVERYONE = (0, 1, 2, 3, 4, NOBODY)

combinations = pytest.mark.parametrize('recipe', [pytest.param(r, marks=pytest.mark.xdist_group(r)) for r in REDUCED])


@combinations
def test_finite_traced_once_and_learns(recipe):
    this = lab(recipe)
    state = this.go(EVERYONE, rounds=1)
    first = float(this.metrics['train_loss'])
    state = this.go(EVERYONE, rounds=11, state=state)
    assert float(this.metrics['train_loss']) < 0.9 * first
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(state.variables))


@combinations
def test_order_and_empty_slots_change_nothing(recipe):
    this = lab(recipe)
    assert_close(this.go((NOBODY, 3, 2, NOBODY, 1, 0)), this.reference)


@pytest.mark.parametrize('plugin', PLUGINS)
def test_a_plugin_changes_what_the_base_does(plugin):
    """The weights of a joined recipe are not those of the base alone."""
    alone, joined = (lab(r).reference.variables for r in ('fedavg', f'fedavg+{plugin}'))
    apart = jax.tree.map(lambda a, b: float(np.abs(np.asarray(a) - np.asarray(b)).max()), alone, joined)
    assert min(jax.tree.leaves(apart)) > 1e-6
