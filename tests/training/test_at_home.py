"""Runs on several devices keep client rows and examples where the client lives, and compute the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from divided import outcome

from fedjax_fair.core.platform import Platform, machine
from fedjax_fair.planning import plan, topology
from fedjax_fair.training import Config, prepare
from fedjax_fair.training.cohort_supply import Resident
from fedjax_fair.training.storage import Place

RECIPES = ('fedavg+fedheal', 'scaffold', 'ditto', 'fedpac', 'fedfv', 'fedism', 'local_only')


@pytest.mark.parametrize('recipe', RECIPES)
@pytest.mark.parametrize('participation', [1.0, 0.4])
def test_several_devices_compute_what_one_computes(recipe, participation):
    kinds = ('global', 'deployed', 'adapted')
    alone = outcome(recipe, 1, kinds, participation=participation)[2]
    experiment, states, together = outcome(recipe, 4, kinds, participation=participation)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), alone, together)
    assert experiment.homes is not None and experiment.homes.slots == 12
    for leaf in jax.tree.leaves(states.clients):
        assert leaf.sharding.shard_shape(leaf.shape)[1] == 3, 'each device has a quarter of the rows'


def test_rows_settle_as_they_were_listed():
    experiment, states, (listed, _) = outcome('ditto', 4, seeds=(0, 1))
    again = experiment.listed(experiment.settled(experiment.listed(states)))
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(again), listed)


def test_seeds_on_several_devices_have_their_states_there():
    config = Config(recipe='ditto', scenario='gaussian_toy_1', seeds=(0, 1, 2, 3), rounds=1, devices=2)
    experiment = prepare(config)
    assert experiment.homes is None and experiment.lane_map.devices == 2
    states, _ = Resident(experiment).advance(experiment.program.init(experiment.lanes), 1)
    assert {leaf.sharding.shard_shape(leaf.shape)[0] for leaf in jax.tree.leaves(states)} == {2}


def test_fewer_points_than_devices_find_room():
    points = [{'lr': value} for value in (0.1, 0.2, 0.3, 0.4)]
    many = prepare(Config(scenario='gaussian_toy_1', rounds=1, devices=2), points)
    for count in (4, 3, 1):
        part = many.at(points[:count])
        states, _ = Resident(part).advance(part.program.init(part.lanes), 1)
        assert len(states.round) == count


@pytest.mark.parametrize('recipe', ['ditto', 'fedheal'])
def test_memory_of_a_device_falls_with_their_number(recipe):
    shapes = 'clients=16,examples=8,tests=4,side=8,channels=1'
    config = Config(recipe=recipe, model='mlp', model_options={'widths': (16,)}, rounds=2, client_map='sharded')
    one, four = (plan(config.changed(devices=n), topology(f'cpu:{n}'), shapes).parts for n in (1, 4))
    assert four['rows'] * 4 == one['rows'] > 0
    assert four['examples'] < one['examples'] / 2
    assert four['temporaries'] < one['temporaries'] / 2


def test_rows_that_fit_on_all_devices_together_stay_there():
    network = {'model': 'mlp', 'model_options': {'widths': (16,)}}
    config = Config(recipe='ditto', scenario='digits_labels', participation=0.1, client_map='sharded', **network)
    alone, four = (prepare(config, platform=Platform('gpu', machine().devices[:n], memory=8 << 20)) for n in (1, 4))
    assert alone.storage.rows is Place.HOST and alone.homes is None
    assert four.storage.rows is Place.DEVICE and four.homes is not None


def test_evaluations_divide_the_test_sets():
    experiment, states, _ = outcome('fedavg', 4)
    sets = experiment.test_sets(experiment.federation.tests)
    inputs = sets.x.own
    assert inputs.sharding.shard_shape(inputs.shape)[0] * 4 == len(inputs)
    given = (experiment.lanes, states)
    divided, alone = (
        experiment.program.evaluate(*given, tests, None, kinds=('global',), keep=('prediction',))
        for tests in (sets, jax.tree.map(jnp.asarray, experiment.federation.tests))
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), divided, alone)
