"""Who takes part: cohort sizes, frequencies, schedules and dropout."""

import collections
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.data.samplers import by_schedule, by_size, cohort_size, make_sampler, survivors, uniform

DRAWS = 6000


def draws(sampler, count=DRAWS):
    """Cohorts of many rounds ``[count, C]``."""
    keys = jax.random.split(jax.random.key(0), count)
    return np.asarray(jax.jit(jax.vmap(sampler))(keys, jnp.arange(count)))


@pytest.mark.parametrize(
    ('clients', 'share', 'size'), [(10, 1.0, 10), (10, 0.2, 2), (10, 0.26, 3), (10, 0.01, 1), (100, 0.1, 10)]
)
def test_cohort_size(clients, share, size):
    assert cohort_size(clients, share) == size
    assert draws(make_sampler('uniform', np.ones(clients), share), 3).shape == (3, size)
    assert draws(make_sampler('size', np.ones(clients), share), 3).shape == (3, size)


@pytest.mark.parametrize('share', [0.0, -0.5, 2.0, float('nan')])
def test_impossible_participation(share):
    with pytest.raises(ValueError, match=r'participation=.* must be above 0 and at most 1'):
        cohort_size(10, share)


def test_uniform_never_repeats_and_favours_nobody():
    found = draws(uniform(5, 2))
    assert all(len(set(row)) == 2 for row in found.tolist())
    pairs = collections.Counter(tuple(sorted(row)) for row in found.tolist())
    assert len(pairs) == 10
    share = np.array(list(pairs.values())) / DRAWS
    np.testing.assert_allclose(share, 0.1, atol=5 * np.sqrt(0.09 / DRAWS))


def test_everybody_in_order():
    assert (draws(uniform(4, 4), 3) == np.arange(4)).all()


def test_by_size_draws_one_after_another_in_proportion():
    """Probability of the ordered pair (i, j) is n_i / n times n_j / (n - n_i)."""
    sizes = np.array([6, 3, 1])
    found = collections.Counter(map(tuple, draws(by_size(sizes, 2)).tolist()))
    for i, j in itertools.permutations(range(3), 2):
        chance = sizes[i] / 10 * sizes[j] / (10 - sizes[i])
        assert found[i, j] / DRAWS == pytest.approx(chance, abs=5 * np.sqrt(chance * (1 - chance) / DRAWS))


def test_by_size_leaves_clients_without_data_for_last():
    found = draws(by_size(np.array([0, 5, 5]), 2), 200)
    assert 0 not in found


def test_schedule_cycles():
    sampler = by_schedule([[0, 1], [2, 3], [1, 3]])
    found = [sampler(jax.random.key(9), jnp.int32(t)).tolist() for t in range(5)]
    assert found == [[0, 1], [2, 3], [1, 3], [0, 1], [2, 3]]


@pytest.mark.parametrize(
    ('schedule', 'message'),
    [
        (None, 'needs schedule'),
        ([[0, 1], [2]], 'schedule=0,1;2 must hold equally many client ids from 0 to 3'),
        ([[0, 4]], 'from 0 to 3'),
        ([[-1]], 'from 0 to 3'),
        ([], 'equally many'),
        ([[1, 1]], 'schedule=1,1 names a client twice in one round: 1,1'),
    ],
)
def test_impossible_schedules(schedule, message):
    with pytest.raises(ValueError, match=message):
        make_sampler('schedule', np.ones(4), 1.0, schedule)


def test_unknown_sampler():
    with pytest.raises(ValueError, match=r'sampler=dice is not one of uniform, size, schedule'):
        make_sampler('dice', np.ones(4), 1.0)


def test_sampling_depends_on_key_only():
    """The same key draws the same cohort: that is what makes runs repeatable."""
    sampler, key = uniform(9, 4), jax.random.key(3)
    assert sampler(key, 0).tolist() == sampler(key, 7).tolist()
    assert len({tuple(row) for row in draws(sampler, 50).tolist()}) > 40


@pytest.mark.parametrize('chance', [0.0, 0.3, 1.0])
def test_dropout_frequency(chance):
    keys = jax.random.split(jax.random.key(1), DRAWS)
    alive = np.asarray(jax.vmap(lambda k: survivors(k, jnp.arange(3), chance))(keys))
    np.testing.assert_allclose(alive.mean(0), 1 - chance, atol=5 * np.sqrt(chance * (1 - chance) / DRAWS))


def test_a_client_drops_out_whoever_else_is_sampled():
    key = jax.random.key(2)
    alone = {i: bool(survivors(key, jnp.array([i]), 0.5)[0]) for i in range(6)}
    together = survivors(key, jnp.array([5, 0, 3]), 0.5).tolist()
    assert together == [alone[5], alone[0], alone[3]] and len(set(alone.values())) == 2
