"""What the procedure promises, on small made-up comparisons."""

import itertools

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import t as student

from fedjax_fair import stats
from fedjax_fair.errors import UserError
from fedjax_fair.stats import inference
from fedjax_fair.stats.sample import joined, judge, make_sample
from fedjax_fair.stats.scores import SCORES
from fedjax_fair.stats.verdicts import best_set

SITE = np.repeat(np.arange(4), 12)
PATIENT = np.tile(np.arange(12) // 3, 4)


@pytest.fixture
def right():
    rng = np.random.default_rng(3)
    chance = np.array([0.9, 0.8, 0.7, 0.6])[SITE]
    return rng.random((3, 4, len(SITE))) < chance


def test_the_same_recipe_twice_is_identical(right):
    found = stats.analyse(right[[0, 0]], SITE, PATIENT, score='accuracy')
    for name in ('avg', 'spread2', 'worst', 'gap', 'site2'):
        assert found[f'{name}_pair_verdict'].tolist() == ['identical predictions']
        assert found[f'{name}_pair_estimate'] == found[f'{name}_pair_lo95'] == found[f'{name}_pair_hi95'] == 0
        assert found[f'{name}_best_set'].all()


@pytest.mark.parametrize('name', ['avg', 'spread2', 'worst', 'site2'])
def test_a_copy_of_a_recipe_is_identical_in_any_table_and_changes_nothing_for_the_others(name):
    chance = np.array([0.9, 0.8, 0.7, 0.6])[SITE]
    right = np.random.default_rng(3).random((5, 4, len(SITE))) < chance
    five, copied = (stats.analyse(one, SITE, PATIENT, score='accuracy') for one in (right, right[[0, 1, 2, 3, 4, 0]]))
    places = list(zip(copied[f'{name}_pair_A'], copied[f'{name}_pair_B'], strict=True))
    copy = places.index((0, 5))
    assert copied[f'{name}_pair_verdict'][copy] == 'identical predictions'
    assert copied[f'{name}_pair_a'][copy] == copied[f'{name}_pair_lo95'][copy] == copied[f'{name}_pair_hi95'][copy] == 0
    others = [place for place, (_, second) in enumerate(places) if second != 5]
    for number in ('a', 'df_a', 'p', 'lo95'):
        np.testing.assert_allclose(copied[f'{name}_pair_{number}'][others], five[f'{name}_pair_{number}'])
    assert (five[f'{name}_pair_df_a'] == 4 + 3).all()


def test_copies_do_not_make_a_table_of_four_recipes(right):
    three, copied = (stats.analyse(one, SITE, PATIENT, score='accuracy') for one in (right, right[[0, 1, 2, 2]]))
    np.testing.assert_allclose(copied['avg_pair_a'][:2], three['avg_pair_a'][:2])
    np.testing.assert_allclose(copied['avg_pair_df_a'], 3)


def test_a_spread_that_is_exactly_that_of_noise_is_zero():
    right = np.ones((2, 3, 80))
    right[..., 40] = 0  # 40 and 39 of 40 images: the squared difference is what one image explains
    found = stats.analyse(right, np.repeat([0, 1], 40), np.tile(np.arange(40), 2), score='accuracy')
    assert found['spread'].tolist() == [0, 0] and abs(found['spread2']).max() < 1e-15


def test_swapping_recipes_turns_every_difference_round(right):
    one, two = (stats.analyse(right[order], SITE, PATIENT, score='accuracy') for order in ([0, 1], [1, 0]))
    for name in ('avg', 'spread2', 'jain', 'worst', 'worst10', 'gap'):
        np.testing.assert_allclose(one[f'{name}_pair_estimate'], -two[f'{name}_pair_estimate'])
        np.testing.assert_allclose(one[f'{name}_pair_p'], two[f'{name}_pair_p'])
        np.testing.assert_allclose(one[f'{name}_pair_lo95'], -two[f'{name}_pair_hi95'])


def test_the_order_of_examples_does_not_matter(right):
    order = np.random.default_rng(0).permutation(len(SITE))
    one = stats.analyse(right, SITE, PATIENT, score='accuracy')
    two = stats.analyse(right[..., order], SITE[order], PATIENT[order], score='accuracy')
    for name in ('avg_pair_p', 'spread2_pair_lo95', 'worst_corrected', 'site_variance'):
        np.testing.assert_allclose(one[name], two[name], rtol=1e-9)


def test_unknown_patients_are_patients_of_their_own(right):
    unknown = stats.analyse(right, SITE, np.full(len(SITE), -1), score='accuracy')
    own = stats.analyse(right, SITE, np.tile(np.arange(12), 4), score='accuracy')
    np.testing.assert_allclose(unknown['avg_pair_p'], own['avg_pair_p'])
    assert unknown['clusters'].tolist() == [12] * 4


def test_sites_without_a_score_are_left_out_and_named():
    label = np.array([0, 1, 0, 1, 1, 1])
    site = np.array([0, 0, 0, 0, 1, 1])
    values = np.random.default_rng(0).random((2, 2, 6))
    found = stats.analyse(values, site, np.arange(6), score='auc', label=label)
    assert found['site_score'].shape == (2, 2, 1) and 'spread2' not in found
    with pytest.raises(UserError, match='nothing can be judged: 0 has an undefined score'):
        stats.analyse(values[..., 4:], site[4:], np.arange(2), score='auc', label=label[4:])
    with pytest.raises(UserError, match='0 has a single test patient'):
        stats.analyse(values, np.zeros(6, int), np.zeros(6, int), score='accuracy')


def test_mistakes_in_arguments_are_one_line(right):
    with pytest.raises(UserError, match="score='acuracy' is not one of"):
        stats.analyse(right, SITE, PATIENT, score='acuracy')
    with pytest.raises(UserError, match="score='auc' needs label"):
        stats.analyse(right, SITE, PATIENT, score='auc')
    with pytest.raises(UserError, match='differ in length: 47, 48, 48'):
        stats.analyse(right, SITE[1:], PATIENT, score='accuracy')
    with pytest.raises(UserError, match='label and values differ in length: 3, 48'):
        stats.analyse(right, SITE, PATIENT, score='balanced_accuracy', label=[0, 1, 0])
    with pytest.raises(UserError, match=r'values must be \[recipes, seeds, examples\].*, not \[48\]'):
        stats.analyse(right[0, 0], SITE, PATIENT, score='accuracy')
    with pytest.raises(UserError, match='delta=0 must be above 0'):
        stats.analyse(right, SITE, PATIENT, score='accuracy', delta=0)
    with pytest.raises(UserError, match='patient must be whole numbers'):
        stats.analyse(right, SITE, PATIENT.astype(str), score='accuracy')


@pytest.mark.parametrize('score', ['auc_ovo', 'auc_ovr', 'auc_multilabel'])
def test_influences_are_the_derivative_of_a_weighted_score(score):
    """Leaving one example out moves the score by about minus its influence; all influences sum to 0."""
    rng = np.random.default_rng(1)
    values, label = rng.random((60, 3)), rng.integers(0, 3, 60)
    label = np.eye(3, dtype=int)[label] if score == 'auc_multilabel' else label
    whole, influence = SCORES[score](values, label)
    assert abs(influence.sum()) < 1e-12
    without = [SCORES[score](np.delete(values, i, 0), np.delete(label, i, 0))[0] for i in range(60)]
    moved = np.array(without) - whole
    assert np.corrcoef(moved, -influence)[0, 1] > 0.999
    np.testing.assert_allclose(moved, -influence, atol=2e-3)


def test_equal_differences_are_equal_whatever_rounding_says():
    """The same difference in both seeds: what patients do to one seed stands in for the variance of seeds."""
    right = np.random.default_rng(4).random((2, 2, len(SITE))) < 0.7
    right[1] = right[0]
    right[0, 0, 5], right[1, 0, 5] = True, False  # one image in one seed,
    right[0, 1, 40], right[1, 1, 40] = True, False  # another one in the other
    found = stats.analyse(right, SITE, PATIENT, score='accuracy')
    np.testing.assert_allclose(found['avg'][0] - found['avg'][1], 1 / 48)
    assert found['avg_pair_a'] > 1e-6 and found['avg_pair_verdict'].tolist() == ['undecided']


def test_sites_of_one_class_are_left_out_of_every_auc():
    rng = np.random.default_rng(0)
    site, patient = np.repeat([0, 1], 12), np.arange(24)
    label = np.where(site == 0, np.arange(24) % 3, 1)
    for score, truth in (('auc_ovo', label), ('auc_ovr', label), ('auc_multilabel', np.eye(3, dtype=int)[label])):
        found = stats.analyse(rng.random((2, 2, 24, 3)), site, patient, score=score, label=truth)
        assert found['site_score'].shape == (2, 2, 1)


def test_a_recipe_without_any_score_leaves_the_others_their_verdicts(right):
    four = np.concatenate([right, np.zeros_like(right[:1])])
    p = stats.analyse(four, SITE, PATIENT, score='accuracy')['jain_pair_p']
    assert np.isfinite(p[:2]).all()


def test_one_seed_speaks_of_its_models_alone(right):
    found = stats.analyse(right[:, :1], SITE, PATIENT, score='accuracy')
    assert (found['avg_pair_a'] == 0).all() and (found['avg_pair_kappa'] > 0).all()


def test_two_sources_of_error_agree_with_quadrature_in_corners():
    cases = [(1.3, 1e-6, 1, 1.0, 40.0), (1.3, 1.0, 2, 1e-6, 3.0), (0.2, 0.5, 4, 0.5, 1.0), (9.0, 1.0, 2, 1.0, 200.0)]
    for x, a, df_a, kappa, df_kappa in cases:

        def tail(z, x=x, a=a, df_a=df_a, kappa=kappa, df_kappa=df_kappa):
            return student.pdf(z, df_kappa) * student.cdf((np.sqrt(kappa) * z - x) / np.sqrt(a), df_a)

        steep = x / np.sqrt(kappa)
        ends = sorted({-1e4, -50, -5, 0, 5, 50, 1e4, *(steep + np.array([-50, -5, 0, 5, 50]) * np.sqrt(a / kappa))})
        parts = [integrate.quad(tail, low, high, epsabs=1e-13, limit=200)[0] for low, high in itertools.pairwise(ends)]
        wanted = 2 * (sum(parts) + student.sf(max(ends), df_kappa))
        assert abs(stats.behrens_fisher(x, a, df_a, kappa, df_kappa) - wanted) < 1e-6


def test_a_half_width_is_the_inverse_of_p():
    half = stats.half_width(0.95, 0.3, 4, 0.2, 25)
    np.testing.assert_allclose(stats.behrens_fisher(half, 0.3, 4, 0.2, 25), 0.05, rtol=1e-7)


def test_half_widths_hold_for_all_shares_of_the_two_errors():
    """Newton's method has to find its way for errors of very different sizes too."""
    a, kappa, df = (axis.ravel() for axis in np.meshgrid(10.0 ** np.arange(-10, 3, 3), [1e-8, 1e-3, 1.0], [1, 2.5, 80]))
    for level in (0.9, 0.95):
        half = stats.half_width(level, a, 4, kappa, df)
        np.testing.assert_allclose(stats.behrens_fisher(half, a, 4, kappa, df), 1 - level, rtol=1e-9)


def test_all_half_widths_of_a_sample_come_from_three_calls(right, monkeypatch):
    """One statistic at a time, a hundred sites would take many times as long."""
    asked = []

    def counted(level, *sources):
        asked.append(level)
        return stats.half_width(level, *sources)

    monkeypatch.setattr(inference, 'half_width', counted)
    stats.analyse_sample(sample_of(right))
    assert sorted(asked) == [0.9, 0.95, 0.95]


def test_one_site_is_judged_by_its_own_test_set(right):
    sample = sample_of(right)
    gradient = np.zeros(sample.scores.shape)
    gradient[..., 1] = 1
    every, (own,) = sample.pull(gradient), sample.pull(gradient, unit=1)
    assert len(every) > 1
    np.testing.assert_array_equal(own, every[1])
    assert not any(one.any() for place, one in enumerate(every) if place != 1)


def test_the_expected_minimum_agrees_with_simulation_and_limits():
    rng = np.random.default_rng(0)
    p, sd = rng.random(6), rng.random(6) * 0.2
    draws = (p + sd * rng.standard_normal((400_000, 6))).min(1)
    assert abs(stats.expected_min(p, sd) - draws.mean()) < 5 * draws.std() / np.sqrt(len(draws))
    assert stats.expected_min([0.3, 0.5], [0.0, 0.0]) == 0.3
    assert stats.expected_min([0.3, 0.9], [0.0, 0.01]) == pytest.approx(0.3)


def test_verdict_words():
    words = stats.verdicts(
        [0.05, -0.05, 0.004, -0.004, 0.02], [0.01] * 4 + [0.2], [0.01, 0.01, 0.003, 0.003, 0.1], 0.01
    )
    slight = ['better, by less than delta', 'worse, by less than delta']
    assert words.tolist() == ['better', 'worse', *slight, 'undecided']
    assert stats.verdicts([0.05], [0.01], [0.01], 0.01, higher_is_better=False).tolist() == ['worse']
    assert stats.verdicts([0.05], [np.nan], [0.01], 0.01).tolist() == ['undecided']


def test_the_best_set_holds_all_that_nobody_beats():
    first, second = np.triu_indices(3, 1)
    estimate, p = np.array([0.1, 0.3, 0.2]), np.array([0.5, 0.01, 0.2])
    assert best_set(estimate, p, first, second, 3).tolist() == [True, True, False]
    assert best_set(estimate, p, first, second, 3, higher_is_better=False).tolist() == [False, True, True]


def test_the_front_favours_a_recipe_that_is_better_in_both():
    rng = np.random.default_rng(0)
    chance = np.array([0.95, 0.75, 0.7])[:, None, None] * np.ones((3, 4, len(SITE)))
    sample = sample_of(rng.random(chance.shape) < chance)
    found = stats.analyse_sample(sample).outcomes
    shares = stats.front_shares(found['avg'], found['worst'])
    assert shares[0] > 0.95 > shares[1] and ((shares >= 0) & (shares <= 1)).all()


def sample_of(right, patient=PATIENT):
    cluster = SITE * 100 + patient
    rows = [np.flatnonzero(s == SITE) for s in range(4)]
    bases = [judge(own, cluster, SCORES['mean'](right[..., own])) for own in rows]
    return make_sample(bases, cluster, np.eye(4), ['a', 'b', 'c', 'd'])


def test_a_copy_of_a_recipe_is_on_the_front_as_often():
    right = np.random.default_rng(0).random((2, 4, len(SITE))) < 0.8
    found = [stats.analyse_sample(sample_of(one)).outcomes for one in (right, right[[0, 1, 0]])]
    once, twice = (stats.front_shares(one['avg'], one['worst']) for one in found)
    assert twice[0] == twice[2] > 0.1 and twice[1] > 0.1
    np.testing.assert_allclose(twice[:2], once, atol=0.05)  # other draws of the same
    among = stats.front_shares(found[1]['avg'], found[1]['worst'], among=[0, 1])
    np.testing.assert_array_equal(among, twice[:2])


def test_sites_that_share_patients_are_one_stratum():
    """Two qualities of the same images vary together: their mean varies more than if they were independent."""
    rng = np.random.default_rng(0)
    once = rng.random((1, 3, 40)) < 0.7
    cluster = np.tile(np.arange(40), 2)
    rows = [np.arange(40), np.arange(40, 80)]
    right = np.concatenate([once, once], -1)
    bases = [judge(own, cluster, SCORES['mean'](right[..., own])) for own in rows]
    together = make_sample(bases, cluster, np.eye(2), ['clean', 'noisy'])
    apart = make_sample(bases, np.arange(80), np.eye(2), ['clean', 'noisy'])
    assert [len(s.strata) for s in (together, apart)] == [1, 2] and not together.separate and apart.separate
    one, two = (stats.analyse_sample(s).outcomes['avg'].level.kappa for s in (together, apart))
    np.testing.assert_allclose(one, 2 * two)
    np.testing.assert_allclose(together.noise, 0, atol=1e-15)  # equal scores differ by nothing, noise or not


def test_data_seeds_are_the_seeds_of_a_joined_sample(right):
    one, two = sample_of(right[:, :2]), sample_of(right[:, 2:])
    both = joined([one, two])
    np.testing.assert_allclose(both.clusters, one.clusters)
    assert both.separate
    found, alone = stats.analyse_sample(both).outcomes, [stats.analyse_sample(s).outcomes for s in (one, two)]
    for name in ('avg', 'spread2', 'worst', 'gap'):  # means over seeds of every statistic, not statistics of means
        np.testing.assert_allclose(found[name].values, np.stack([o[name].values.mean(1) for o in alone], 1))
        np.testing.assert_allclose(found[name].pairs.df_a, 1)
    assert 'site0' in found and 'site0' not in stats.analyse_sample(joined([one, two], matched=False)).outcomes


def test_seeds_and_patients_that_would_decide():
    assert stats.seeds_to_decide(0.05, 1e-6, 5, 0.0, 0) == 2
    few, many = (stats.seeds_to_decide(delta, 1e-4, 5, 1e-6, 30) for delta in (0.04, 0.02))
    assert few < many
    assert stats.seeds_to_decide(0.01, 1e-4, 5, 1.0, 30) is None
    assert stats.patients_to_decide(0.01, 1e-4) == pytest.approx(7.84)


def test_the_chance_of_winning_is_even_where_nothing_differs():
    assert stats.chance_of_winning(0.0, 0.0, 5) == 0.5 and stats.chance_of_winning(0.1, 0.0, 5) == 1
    assert stats.chance_of_winning(0.0, 0.1, 5) == 0.5 and np.isnan(stats.chance_of_winning(0.1, np.nan, 1))
