"""Watchers count what happened and change nothing; histograms and shares by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.diagnostics import same_way, sign_histogram
from fedjax_fair.methods import make_methods
from fedjax_fair.testing import scripted_rounds

RNG = np.random.default_rng(0)
MOVES = RNG.normal(size=(12, 3, 5)).astype(np.float32) + np.linspace(-2, 2, 5, dtype=np.float32)
ONLINE = np.ones((12, 3), bool)
ONLINE[-2:, 1] = False
SIZES = [1, 2, 3]


def play(recipe, hyper=None):
    return scripted_rounds(make_methods(recipe, hyper), {'w': jnp.zeros(5)}, {'w': MOVES}, {}, SIZES, mask=ONLINE)


def test_signs_of_the_last_rounds():
    rows = play('fedavg+watch_signs', {'watch_signs.short': 4, 'watch_signs.long': 12}).clients['watch_signs']
    for span, last in (('short', 4), ('long', 12)):
        fell = (MOVES < 0) & ONLINE[..., None]
        np.testing.assert_array_equal(rows['falls'][span]['w'][-1], fell[-last:].sum(0))
        np.testing.assert_array_equal(rows['seen'][span][-1], ONLINE[-last:].sum(0))
    assert rows['falls']['long']['w'].dtype == jnp.uint8


def test_a_histogram_and_the_share_that_goes_one_way():
    falls, seen = np.array([[0, 1, 5, 10], [0, 0, 2, 4]]), np.array([10, 4])
    heights, edges = sign_histogram(falls, seen, bins=4)
    np.testing.assert_allclose(heights, [2 / 8, 0, 2 / 8, 4 / 8])
    np.testing.assert_allclose(edges, [0, 0.25, 0.5, 0.75, 1])
    rows = {'falls': {'long': {'layer': {'kernel': falls}}}, 'seen': {'long': seen}}
    assert same_way(rows) == {'layer/kernel': 6 / 8}


def test_masks_and_weights_over_rounds():
    seen = play('fedheal+watch_masks').server['watch_masks']
    weights, kept = (np.asarray(seen[name][-1]) for name in ('weights', 'kept'))
    np.testing.assert_allclose(np.nansum(weights, 1), 1, rtol=1e-6)
    np.testing.assert_array_equal(np.isnan(weights), ~ONLINE)
    falls = np.cumsum((MOVES <= 0) & ONLINE[..., None], 0)
    for t in range(1, 12):
        now = MOVES[t] <= 0
        rounds = np.maximum(ONLINE[:t].sum(0), 1)[:, None]
        times = np.where(now, falls[t - 1], rounds - falls[t - 1])
        expected = (10 * times > 3 * rounds).mean(1)
        np.testing.assert_allclose(kept[t, ONLINE[t], 0], expected[ONLINE[t]], rtol=1e-6)
    assert (kept[0] == 1).all() and np.nanmin(kept) < 1
    assert np.nanmin(play('fedavg+watch_masks').server['watch_masks']['kept'][-1]) == 1


@pytest.mark.parametrize('watcher', ['watch_masks', 'watch_signs', 'watch_conflicts', 'watch_distances'])
def test_watching_changes_nothing(watcher):
    alone, watched = play('fedheal'), play(f'fedheal+{watcher}')
    jax.tree.map(np.testing.assert_array_equal, alone.variables, watched.variables)


def test_windows_that_do_not_fit_a_byte():
    with pytest.raises(ValueError, match=r'watch_signs.long=300 must be at least 1 and at most 255'):
        make_methods('watch_signs', {'watch_signs.long': 300})
    with pytest.raises(ValueError, match=r'watch_signs.short=20 must be at most watch_signs.long=10'):
        make_methods('watch_signs', {'watch_signs.short': 20, 'watch_signs.long': 10})
