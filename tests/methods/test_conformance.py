"""Every recipe keeps the promises of the engine. One line in RECIPES brings a recipe here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import NOBODY, SIZES, assert_close, assert_same, lab

from fedjax_fair.core.tree import paths
from fedjax_fair.methods import RECIPES
from fedjax_fair.training.checkpoint import Checkpoints

FACTORIES = {factory: name for name, factory in reversed(RECIPES.items())}  # one name for each factory
COMPOSED = ['scaffold+server_adam', 'fedprox+qffl', 'fednova+server_momentum']
EVERY = [*sorted(FACTORIES.values()), *COMPOSED]

# One group per recipe: with xdist's loadgroup its properties share the programs one worker compiled.
recipes = pytest.mark.parametrize('recipe', [pytest.param(r, marks=pytest.mark.xdist_group(r)) for r in EVERY])


@recipes
def test_finite_and_traced_once(recipe):
    this = lab(recipe)
    state = this.reference
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(state.variables))
    assert int(state.round) == 3
    assert this.traces == 1


@recipes
def test_changes_the_model(recipe):
    this = lab(recipe)
    moved = jax.tree.map(lambda a, b: float(jnp.max(jnp.abs(a - b))), this.start.variables, this.reference.variables)
    kept = this.start.clients[recipe] if recipe in ('fedbn', 'silobn') else {}  # leaves that stay with the clients
    still = {name for name, size in zip(*map(jax.tree.leaves, (paths(moved), moved)), strict=True) if size < 1e-4}
    assert still == set(kept)


@recipes
def test_order_and_empty_slots_change_nothing(recipe):
    this = lab(recipe)
    assert_close(this.go((NOBODY, 3, 1, NOBODY, 0, 2)), this.reference)


@recipes
def test_client_maps_and_static_hyper_parameters_agree(recipe):
    """All at once on one device, and in chunks of two on two devices that each hold a share of the clients."""
    this = lab(recipe)
    state = this.start
    for _ in range(3):
        state, _ = this.static(state, this.cohort((0, 1, 2, 3, NOBODY, NOBODY)), jnp.uint32(7))
    assert_close(jax.device_get(state), jax.device_get(this.reference))


@recipes
def test_vmap_over_seeds_and_hyper_parameters(recipe):
    """Two lanes that differ in the seed and in every float hyper-parameter equal two separate runs."""
    this = lab(recipe)
    other = {k: v * 0.7 + 0.01 for k, v in this.hyper.items()}
    both = {k: jnp.asarray([this.hyper[k], other[k]]) for k in this.hyper}
    state = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), this.start)
    if 'tau' in str(both):  # server accumulators start at tau squared
        pair = [_start_with(recipe, this.hyper), _start_with(recipe, other)]
        state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pair)
    singles = [jax.tree.map(lambda leaf, i=i: leaf[i], state) for i in range(2)]
    cohort = this.cohort((0, 1, 2, 3, NOBODY, NOBODY))
    for _ in range(2):
        state, _ = this.lanes(both, state, cohort, jnp.asarray([7, 8], jnp.uint32))
    first = this.go(rounds=2, state=singles[0])
    second = this.go(rounds=2, hyper=other, seed=8, state=singles[1])
    assert_close(jax.tree.map(lambda leaf: leaf[0], state), first)
    assert_close(jax.tree.map(lambda leaf: leaf[1], state), second)


def _start_with(recipe, hyper):
    from lab import algorithm

    return algorithm(recipe, hyper).init(jax.random.key(3))


@recipes
def test_absent_clients_keep_their_rows_and_present_ones_are_seen(recipe):
    this = lab(recipe)
    before = this.reference
    after = this.go((1, 3, NOBODY, NOBODY, NOBODY, NOBODY), rounds=1, state=before)
    absent = np.array([0, 2, 4, 5])
    assert_same(*(jax.tree.map(lambda leaf: leaf[absent], s.clients) for s in (before, after)))
    np.testing.assert_array_equal(after.seen - before.seen, [0, 1, 0, 1, 0, 0])


@recipes
def test_a_client_without_examples_is_harmless(recipe):
    this = lab(recipe)
    assert_close(this.go((0, 1, 2, 3, 5, NOBODY)), this.reference)


@recipes
def test_a_client_gone_astray_is_left_out_and_counted(recipe):
    this = lab(recipe)
    hyper = {k: jnp.asarray(v) for k, v in this.hyper.items()}
    poisoned = this.data._replace(x=this.data.x.at[sum(SIZES[:4])].set(jnp.nan))  # an example of client 4
    cohort = this.cohort((0, 1, 2, 3, 4, NOBODY))._replace(x=poisoned.x)
    state, metrics = this.round(hyper, this.start, cohort, jnp.uint32(7))
    assert_close(state, this.go(rounds=1))
    assert float(metrics['failed']) == 1
    alone = this.cohort((4, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY))._replace(x=poisoned.x)
    state, metrics = this.round(hyper, this.start, alone, jnp.uint32(7))
    assert_same(state._replace(round=0), this.start._replace(round=0))
    assert float(metrics['empty']) == 1


@recipes
def test_dtypes_are_kept(recipe):
    this = lab(recipe)
    kinds = [jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) for state in (this.start, this.reference)]
    assert kinds[0] == kinds[1]


@recipes
def test_a_checkpoint_continues_bit_for_bit(recipe, tmp_path):
    this = lab(recipe)
    saved = this.go(rounds=1)
    store = Checkpoints(tmp_path)
    store.save(1, saved, {'sums': [1.5]})
    store.close()
    restored, tallies = Checkpoints(tmp_path).restore(this.start)
    assert tallies == {'sums': [1.5]}
    assert_same(this.go(rounds=2, state=restored), this.reference)


@recipes
def test_learns_a_toy_task(recipe):
    this = lab(recipe)
    everyone = (0, 1, 2, 3, 4, NOBODY)
    this.go(everyone, rounds=1)
    first = float(this.metrics['train_loss'])
    this.go(everyone, rounds=12)
    assert float(this.metrics['train_loss']) < 0.9 * first
