"""``training.sweep``: a grid times seeds from Python, against a plain loop over rounds."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.core import Local, build
from fedjax_fair.data.federation import cohort_of
from fedjax_fair.data.samplers import uniform
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification, summarise
from fedjax_fair.results import mean_score, validation_scores
from fedjax_fair.testing import tiny_federation, tiny_mlp
from fedjax_fair.training import sweep
from fedjax_fair.training.program import ORDER, SAMPLE, key_of
from fedjax_fair.training.sweeps import grid_points, lanes_that_fit

pytestmark = pytest.mark.xdist_group('sweep_library')
DATA = tiny_federation()
GRID, SEEDS = {'mu': [0.0, 1.0], 'lr': [0.1, 0.3]}, (0, 3, 5)


def fedprox(hyper, calls=None):
    if calls is not None:
        calls.append(1)
    methods, local = make_methods('fedprox', {'fedprox.mu': hyper['mu']}), Local(lr=hyper['lr'], batch_size=4)
    example = {'sizes': DATA.sizes, 'example': DATA.x[0]}
    return build(tiny_mlp(), classification(3), methods, local=local, client_map='vmap', **example)


@functools.cache
def found(chunk=None, **options):
    calls = []
    factory = functools.partial(fedprox, calls=calls)
    options = {'rounds': 5, 'eval_every': 2, 'participation': 0.5, **options}
    return sweep(factory, GRID, SEEDS, federation=DATA, chunk=chunk, **options), len(calls)


def by_hand(point, seed):
    """The same run as a plain Python loop over a jitted round."""
    algorithm = fedprox(point)
    round_, data = jax.jit(algorithm.round), DATA.arrays()
    sampler = uniform(4, 2)
    state = jax.jit(algorithm.init)(key_of(jnp.uint32(seed), 0))
    for t in range(5):
        key = jax.random.fold_in(key_of(jnp.uint32(seed), SAMPLE), t)
        cohort = cohort_of(data, sampler(key, t))
        state, _ = round_(state, cohort, key_of(jnp.uint32(seed), ORDER))
    values = jax.jit(algorithm.evaluate)(state, jax.tree.map(jnp.asarray, DATA.tests))['global']
    return summarise(values, DATA.tests.test_of)


def test_shapes_and_points():
    result, _ = found()
    assert result.points == grid_points(GRID) and len(result.points) == 4
    assert result.rounds == (2, 4, 5) and result.seeds == SEEDS
    assert result.metrics['worst'].shape == (4, 3)
    assert result.metrics['client_accuracy'].shape == (4, 3, 4)
    assert result.history['worst'].shape == (3, 4, 3)
    np.testing.assert_array_equal(result.history['loss'][-1], result.metrics['loss'])
    assert np.isnan(result.metrics['group_std']).all()  # no groups here


@pytest.mark.parametrize(('place', 'seed'), [(0, 0), (3, 2)])
def test_every_lane_equals_a_plain_loop(place, seed):
    result, _ = found()
    expected = by_hand(result.points[place], SEEDS[seed])
    assert result.metrics['loss'][place, seed] == pytest.approx(expected['loss'], rel=1e-5)
    assert result.metrics['client_accuracy'][place, seed].tolist() == expected['client_accuracy']
    assert len(np.unique(result.metrics['loss'])) == 12  # all lanes differ


@pytest.mark.parametrize('chunk', [5, 1])
def test_chunks_change_nothing_and_are_compiled_once(chunk):
    """Twelve lanes in pieces of five: the last piece is filled up, and its fill is cut off again."""
    (whole, traces), (pieces, again) = found(), found(chunk)
    assert traces == again
    for name, values in whole.history.items():
        np.testing.assert_allclose(pieces.history[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


def test_evaluations_on_the_way_change_nothing():
    np.testing.assert_allclose(found(eval_every=None)[0].metrics['loss'], found()[0].metrics['loss'], rtol=1e-5)


def test_validation_data_choose_a_point():
    data = dataclasses.replace(DATA, validation=DATA.tests)
    swept = sweep(fedprox, {'mu': [0.0], 'lr': [1e-6, 0.3]}, (0,), federation=data, rounds=3)
    scores = swept.metrics['client_accuracy'].mean(-1)
    np.testing.assert_allclose(swept.metrics['validation'], scores, rtol=1e-6)  # every client has a test set here
    assert swept.chosen == int(scores[:, 0].argmax())
    assert found()[0].chosen is None


def test_a_point_that_diverged_is_not_chosen():
    """Nor does it have a validation score where one client alone is lost."""
    data = dataclasses.replace(DATA, validation=DATA.tests)
    swept = sweep(fedprox, {'mu': [0.0], 'lr': [1e30, 0.3]}, (0,), federation=data, rounds=3)
    assert np.isnan(swept.metrics['validation'][0]) and swept.chosen == 1
    metrics = {'accuracy': np.array([np.nan, 0.9]), 'loss': np.array([np.inf, 0.2]), 'count': np.array([5, 5])}
    assert mean_score(validation_scores(metrics, 'accuracy')) is None
    metrics['count'] = np.array([0, 5])  # who has no validation set lost nothing
    assert mean_score(validation_scores(metrics, 'accuracy')) == 0.9


def test_a_sampler_of_ones_own_is_used():
    nobody_but_zero = found(sampler=zeros)[0].metrics['loss']
    assert not np.allclose(nobody_but_zero, found()[0].metrics['loss'])


def zeros(key, round):
    return jnp.zeros(1, jnp.int32)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'rounds': 0}, 'rounds=0 must be at least 1'),
        ({'chunk': 0}, 'chunk=0 must be at least 1'),
        ({'eval_every': -1}, 'eval_every=-1 must be at least 1'),
        ({'kind': 'best'}, "kind='best' is not one of global, deployed"),
        ({'seeds': (1, 1)}, r'seeds=\[1, 1\] must be one or more different numbers'),
        ({'seeds': ()}, r'seeds=\[\] must be'),
        ({'grid': {'mu': []}}, 'grid: mu needs one or more different values'),
        ({'participation': 0.0}, 'participation=0.0 must be above 0'),
        ({'sampler': 'dice'}, 'sampler=dice is not one of uniform, size, schedule'),
    ],
)
def test_mistakes(change, message):
    options = {'grid': GRID, 'seeds': SEEDS, 'federation': DATA, 'rounds': 1, **change}
    with pytest.raises(ValueError, match=message):
        sweep(fedprox, options.pop('grid'), options.pop('seeds'), **options)


def test_lanes_are_cut_to_what_fits_into_memory():
    assert lanes_that_fit(100, 4 * 100 * 7) == 7
    assert lanes_that_fit(100, 10) == 1
    assert lanes_that_fit(0, 10) >= 1
