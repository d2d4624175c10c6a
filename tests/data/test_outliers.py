"""Outliers: how many, which, how bad, when, and that only training sees them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lab import FEDERATION, LOCAL, SIZES, assert_close, assert_same

from fedjax_fair.core import build
from fedjax_fair.core.types import Outliers
from fedjax_fair.data.outliers import gaussian, make_outliers, random_pixels
from fedjax_fair.metrics import classification
from fedjax_fair.testing import tiny_mlp
from fedjax_fair.training import Config, prepare

MARK = Outliers(lambda key, x: jnp.full_like(x, 7.0) + jax.random.uniform(key), 0.3)  # easy to recognise


def algorithm(outliers):
    return build(
        tiny_mlp(), classification(3), [], sizes=SIZES, example=FEDERATION.x[0], local=LOCAL, outliers=outliers
    )


def seen_by_clients(outliers, number=0, seed=1, times=0):
    """Every client's whole training set as it sees it in a round, ``[clients, M, D]``, by the engine's own reading.

    Each took part in ``times`` rounds before.
    """
    chosen = algorithm(outliers)
    state = chosen.init(jax.random.key(0))._replace(round=jnp.asarray(number, jnp.int32))

    def look(ctx):
        key = jax.random.fold_in(jax.random.key(seed), number + 100 * ctx.id)
        data = ctx.spec.with_outliers(ctx.data, key, ctx.id, jnp.asarray(times))
        return ctx.spec.read(data, jnp.arange(data.index.shape[0]))[0]

    return np.asarray(chosen.measure(state, FEDERATION.cohort(range(5)), look))


def marked(x):
    return (x >= 7).all(-1)


def test_the_share_of_every_client_is_exact_and_the_others_are_clean():
    seen = seen_by_clients(MARK)
    for client, size in enumerate(SIZES[:5]):
        own = marked(seen[client, :size])
        assert own.sum() == round(0.3 * size)
        clean = FEDERATION.x[FEDERATION.index[client, :size]]
        np.testing.assert_array_equal(seen[client, :size][~own], clean[~own])
        assert len(np.unique(seen[client, :size][own, 0])) == own.sum()  # each example has noise of its own


def test_persistent_ones_change_with_the_round_and_others_stay():
    first, later = (marked(seen_by_clients(MARK, number)) for number in (0, 1))
    assert (first != later).any()
    assert_same(first, marked(seen_by_clients(MARK, 0)))
    once = MARK._replace(persistent=False)
    assert_same(seen_by_clients(once, 0), seen_by_clients(once, 1, seed=5))


def test_cumulative_ones_spoil_what_the_round_before_has_left():
    """What was spoiled stays so, and what two rounds spoil is in the third once and twice as well."""
    adding = Outliers(lambda key, x: x + 1000.0, 0.3, cumulative=True)
    seen = [seen_by_clients(adding, number=times, seed=times, times=times) for times in range(4)]
    counts = [np.round((now - seen_by_clients(None)) / 1000)[..., 0] for now in seen]
    for client, size in enumerate(SIZES[:5]):
        for times, own in enumerate(counts):
            assert own[client, :size].sum() == (times + 1) * round(0.3 * size)
            assert (own[client, :size] >= counts[max(0, times - 1)][client, :size]).all()
    assert max(own.max() for own in counts) > 1  # some are hit again
    assert_same(seen[2], seen_by_clients(adding, number=9, seed=9, times=2))  # whatever the round and the seed


def test_rounds_count_how_often_a_client_took_part():
    """A client that is new sees what it would see in the first round, whichever round it is; others see more."""
    chosen = algorithm(Outliers(lambda key, x: x + 1000.0, 1.0, cumulative=True))
    state, cohort = chosen.init(jax.random.key(0)), FEDERATION.cohort(range(2))
    state = state._replace(seen=state.seen.at[1].set(2))
    found = chosen.measure(state, cohort, lambda ctx: ctx.spec.read(ctx.data, jnp.arange(1))[0][0, 0])
    clean = FEDERATION.x[FEDERATION.index[:2, 0], 0]
    np.testing.assert_allclose(np.asarray(found)[:2] - clean, [1000, 3000], rtol=1e-4)


def test_training_sees_them_and_tests_do_not():
    """With marked examples a model learns something else, and it is tested on the same clean data."""
    plain, spoiled = algorithm(None), algorithm(MARK._replace(share=1.0))
    start = plain.init(jax.random.key(0))
    cohort = FEDERATION.cohort(range(5))
    with_, without = (jax.jit(a.round)(start, cohort, jax.random.key(1))[0] for a in (spoiled, plain))
    assert not np.allclose(with_.variables['params']['head']['kernel'], without.variables['params']['head']['kernel'])
    assert_close(spoiled.evaluate(start, FEDERATION.tests), plain.evaluate(start, FEDERATION.tests))
    none = jax.jit(algorithm(MARK._replace(share=0.0)).round)(start, cohort, jax.random.key(1))[0]
    assert_close(none, without, 1e-6)


def test_random_pixels_hit_whole_pixels_at_the_rate_asked():
    x = jnp.full((200, 200, 3), -1.0)
    seen = np.asarray(random_pixels(0.3)(jax.random.key(0), x))
    hit = (seen != -1).all(-1)
    np.testing.assert_array_equal(hit, (seen != -1).any(-1))
    assert hit.mean() == pytest.approx(0.3, abs=0.01)
    new = seen[hit]
    assert new.min() >= 0 and new.max() < 1 and new.mean() == pytest.approx(0.5, abs=0.01)
    assert random_pixels(0.5)(jax.random.key(0), jnp.ones(9)).shape == (9,)


def test_gaussian_noise_is_added_to_every_value_and_not_cut_off():
    seen = np.asarray(gaussian(2.0)(jax.random.key(0), jnp.full((100, 100, 1), 0.5)))
    assert seen.mean() == pytest.approx(0.5, abs=0.1) and seen.std() == pytest.approx(2.0, rel=0.05)
    assert seen.min() < -3


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'outliers': 'fog'}, "outliers='fog' is not one of 'pixels', 'gaussian'"),
        ({'outliers': 'pixels', 'outlier_share': 1.5}, 'outlier_share=1.5 must be at least 0 and at most 1'),
        ({'outlier_share': 0.5}, 'outlier_share=0.5 needs outliers=pixels or outliers=gaussian'),
        ({'outliers': 'pixels', 'outlier_strength': -1.0}, 'outlier_strength=-1.0 must be at least 0'),
        ({'outliers_cumulative': True}, 'outliers_cumulative=True needs outliers=pixels or outliers=gaussian'),
        (
            {'outliers': 'pixels', 'outliers_once': True, 'outliers_cumulative': True},
            'outliers_once=True and outliers_cumulative=True contradict each other',
        ),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(ValueError, match=message):
        prepare(Config(scenario='digits_labels', data={'num_clients': 10}, **options))


def test_defaults_are_the_published_ones():
    found = make_outliers('pixels')
    assert found.share == 0.3 and found.persistent
    assert not make_outliers('gaussian', persistent=False).persistent
