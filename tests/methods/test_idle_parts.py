"""Parts of a recipe that say they change nothing: they say so where it is true, and only there."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import FEDERATION, LOCAL, SIZES, algorithm, assert_close

from fedjax_fair.core import Local, Method, build
from fedjax_fair.core.client_map import ClientMap
from fedjax_fair.core.idle import Effect, idle_parts
from fedjax_fair.methods import RECIPES, make_methods
from fedjax_fair.metrics import classification
from fedjax_fair.ops import two_level_tilted_loss
from fedjax_fair.testing import scripted_rounds, tiny_mlp

SETTING = algorithm('fedavg').facts['setting']  # clients of unequal size, a network with batch normalisation, 5 rounds
NO_NORM = dataclasses.replace(SETTING, variables={**SETTING.variables, 'batch_stats': {}})
SOME = dataclasses.replace(SETTING, everybody=False)
ONE_ROUND = dataclasses.replace(SETTING, run=dataclasses.replace(SETTING.run, rounds=1))
ONE_STEP = dataclasses.replace(SETTING, steps=np.ones(len(SIZES), int))
SINGLES = dataclasses.replace(SETTING, local=SETTING.local._replace(batch_size=1))
ALIKE = dataclasses.replace(SETTING, run=dataclasses.replace(SETTING.run, sizes=np.full(len(SIZES), 8)))


def told(recipe, setting=SETTING, **hyper):
    """Of every idle part how it is called and what it is the same as."""
    given = {name.replace('__', '.'): value for name, value in hyper.items()}
    return [(part.subject, part.same_as) for part in idle_parts(make_methods(recipe, given), setting)]


def test_with_their_defaults_recipes_act():
    idle = {name: told(name) for name in RECIPES if told(name)}
    assert idle == {
        'tilted_server': [('tilted_server', 'uniform')],
        'fedtilt': [('tilted_server of fedtilt', 'uniform')],
    }  # whose q is 0


@pytest.mark.parametrize(
    ('recipe', 'hyper', 'same_as'),
    [
        ('fedprox', {'mu': 0.0}, 'fedavg'),
        ('logit_adjust', {'tau': 0.0}, 'fedavg'),
        ('salt', {'rho': 0.0}, 'fedavg'),
        ('perturb', {'alpha': 0.0}, 'fedavg'),
        ('margin', {'lam': 0.0}, 'fedavg'),
        ('moon', {'mu': 0.0}, 'fedavg'),
        ('fedproto', {'mu': 0.0}, 'fedavg'),
        ('term', {'t': 0.0}, 'fedavg'),
        ('tilted_loss', {'tau': 0.0, 'lam': 0.0}, 'fedavg'),
        ('fedavgm', {'momentum': 0.0}, 'fedavg'),
        ('fairfed', {'beta': 0.0}, 'fedavg'),
        ('fphl', {'tau': -1.0}, 'fedavg'),
        ('fphl', {'tau': 0.0, 'semantics': 'paper'}, 'fedavg'),
        ('fael', {'beta': 0.0, 'p_init': 'sizes'}, 'fedavg'),
        ('fael', {'beta': 0.0}, 'uniform'),
        ('qfedavg', {'q': 0.0}, 'uniform'),
        ('qffl', {'q': 0.0}, 'uniform'),
        ('afl', {'gamma': 0.0}, 'uniform'),
        ('fedga', {'step': 0.0}, 'uniform'),
        ('saga', {'q': 0.0}, 'uniform'),
        ('personal', {'mu': 0.0}, 'local_only'),
    ],
)
def test_an_option_of_zero_is_told(recipe, hyper, same_as):
    given = {f'{recipe}__{name}': value for name, value in hyper.items()}
    assert told(recipe, **given) == [(recipe, same_as)]


@pytest.mark.parametrize(
    ('recipe', 'setting', 'hyper', 'same_as'),
    [
        ('fedbn', NO_NORM, {}, 'fedavg'),
        ('silobn', NO_NORM, {}, 'fedavg'),
        ('adabn', NO_NORM, {}, 'fedavg'),
        ('uniform', ALIKE, {}, 'fedavg'),
        ('fednova', ONE_STEP, {}, 'fedavg'),
        ('fedprox', ONE_STEP, {}, 'fedavg'),
        ('tilted_loss', SINGLES, {}, 'fedavg'),
        ('moon', ONE_ROUND, {}, 'fedavg'),
        ('fedproto', ONE_ROUND, {}, 'fedavg'),
        ('fphl', ONE_ROUND, {}, 'fedavg'),
        ('qfedavg', ALIKE, {'qfedavg__q': 0.0}, 'fedavg'),
    ],
)
def test_a_setting_without_room_for_a_part_is_told(recipe, setting, hyper, same_as):
    assert told(recipe, setting, **hyper) == [(recipe, same_as)]


@pytest.mark.parametrize(
    ('recipe', 'setting', 'hyper'),
    [
        ('fairfed', SOME, {'fairfed__beta': 0.0}),
        ('saga', SOME, {'saga__q': 0.0}),
        ('fael', SOME, {'fael__beta': 0.0}),
        ('afl', SETTING, {'afl__gamma': 0.0, 'afl__average': True}),
        ('fedavgm', SETTING, {'fedavgm__momentum': 0.0, 'fedavgm__lr': 0.5}),
        ('tilted_loss', SETTING, {'tilted_loss__tau': 0.0}),
        ('personal', SETTING, {'personal__mu': 0.0, 'personal__start': 'global'}),
        ('fedprox+salt', ONE_STEP, {}),
        ('fphl+fednova', SETTING, {'fphl__tau': -1.0}),
        ('fednova+qfedavg', ONE_STEP, {}),
        ('local_only', SETTING, {}),
        ('ditto', SETTING, {}),
        ('harmofl', ALIKE, {}),
    ],
)
def test_what_acts_is_not_told(recipe, setting, hyper):
    assert told(recipe, setting, **hyper) == []


def test_parts_of_a_larger_recipe_are_named_with_it():
    assert told('fedism', fedism__tau=0.0, fedism__q=0.0) == [
        ('logit_adjust of fedism', ''),
        ('saga of fedism', 'uniform'),
    ]


def test_equal_votes_beside_other_weights_change_nothing():
    assert told('uniform+qfedavg') == [('uniform', '')]
    # Both say so, but together they are no FedAvg: clients count the same.
    assert told('uniform+qfedavg', qfedavg__q=0.0) == [('uniform', ''), ('qfedavg', '')]


def test_a_method_of_a_plug_in_declares_it_too():
    idle = Method('mine', idle=lambda setting: Effect('nothing to do'), score=lambda view, updates: view.n)
    (part,) = idle_parts([idle], SETTING)
    assert part.sentence == 'mine is the same as fedavg here: nothing to do'
    (part,) = idle_parts([idle, *make_methods('scaffold')], SETTING)
    assert part.sentence == 'mine changes nothing here: nothing to do'


# --- is it true? -----------------------------------------------------------------------------------------------------


def trained(recipe, hyper=None, local=LOCAL, rounds=2):
    """The model after some rounds, without batch normalisation, and how many methods say that they are idle."""
    facts = {'sizes': SIZES, 'example': FEDERATION.x[0], 'local': local, 'rounds': rounds, 'client_map': ClientMap()}
    methods = make_methods(recipe, hyper)
    made = build(tiny_mlp(), classification(3), methods, **facts)
    state, step = made.init(jax.random.key(0)), jax.jit(made.round)
    for _ in range(rounds):
        state, _ = step(state, FEDERATION.cohort(range(5)), jax.random.key(1))
    return state.variables, len(idle_parts(methods, made.facts['setting']))


def test_local_training_with_all_strengths_at_zero_is_that_of_fedavg():
    strengths = ('fedprox.mu', 'logit_adjust.tau', 'salt.rho', 'margin.lam', 'moon.mu', 'fedproto.mu')
    zeros = dict.fromkeys((*strengths, 'tilted_loss.tau', 'tilted_loss.lam'), 0.0)
    recipe = '+'.join(dict.fromkeys(name.partition('.')[0] for name in zeros))
    model, idle = trained(f'{recipe}+fedbn', zeros)
    assert idle == len(strengths) + 2
    assert_close(model, trained('fedavg')[0], 1e-6)


def test_one_round_of_one_step_leaves_no_room_for_pulls_and_masks():
    once = {'local': Local(steps=1, batch_size=4, lr=0.1), 'rounds': 1}
    strong = {'fedprox.mu': 9.0, 'moon.mu': 9.0, 'fedproto.mu': 9.0, 'fphl.tau': 0.9}
    model, idle = trained('fedprox+moon+fedproto+fphl+fednova', strong, **once)
    assert idle == 5
    assert_close(model, trained('fedavg', **once)[0], 1e-6)


def test_the_tilt_of_a_single_example_is_its_loss():
    tilted = jax.jit(functools.partial(two_level_tilted_loss, num_classes=3, tau=5.0, lam=-2.0))
    assert float(tilted(jnp.array([1.7]), jnp.array([1]))) == pytest.approx(1.7, rel=1e-6)


RNG = np.random.default_rng(0)
UPDATES = {'w': RNG.normal(size=(3, 4, 5)).astype(np.float32)}
REPORTS = {
    name: RNG.uniform(0.1, 0.9, (3, 4)).astype(np.float32)
    for name in ('loss', 'local_loss', 'balanced_accuracy', 'sharpness')
}


def served(recipe, hyper=None):
    out = scripted_rounds(make_methods(recipe, hyper), {'w': jnp.ones(5)}, UPDATES, REPORTS, [2, 3, 5, 7])
    return np.asarray(out.variables['w'])


@pytest.mark.parametrize(
    ('same_as', 'recipe', 'hyper'),
    [
        ('uniform', 'afl', {'afl.gamma': 0.0}),
        ('uniform', 'fedga', {'fedga.step': 0.0}),
        ('uniform', 'saga', {'saga.q': 0.0}),
        ('uniform', 'tilted_server', {}),
        ('uniform', 'fael', {'fael.beta': 0.0}),
        ('fedavg', 'fael', {'fael.beta': 0.0, 'fael.p_init': 'sizes'}),
        ('fedavg', 'fairfed', {'fairfed.beta': 0.0}),
        ('fedavg', 'fphl', {'fphl.tau': -1.0}),
        ('fedavg', 'fphl', {'fphl.tau': 0.0, 'fphl.semantics': 'paper'}),
    ],
)
def test_the_server_does_what_is_said(same_as, recipe, hyper):
    """Other recipes are compared in test_reductions."""
    np.testing.assert_allclose(served(recipe, hyper), served(same_as), rtol=1e-5)
