"""What tuning tries and how it judges: search spaces, trials, rungs and validation scores, without training."""

from typing import Annotated

import pytest

from fedjax_fair.errors import UserError
from fedjax_fair.options import Share, at_least, options_of, search, search_among
from fedjax_fair.registry import Registry, recipes
from fedjax_fair.training import Config
from fedjax_fair.training.config import setting_options
from fedjax_fair.training.trials import (
    Rung,
    best_first,
    given_spaces,
    rungs_of,
    search_space,
    trial_points,
    trial_score,
)

SPACES = {
    **{f'{part}.{one.name}': one for part in recipes for one in recipes.options(part).values() if one.search},
    **{name: one for name, one in setting_options().items() if one.search},
}


def points_of(recipe, budget=8, seed=0, **settings):
    config = Config(recipe=recipe, **settings)
    return trial_points(config, search_space(config, {}), budget, seed)


@pytest.mark.parametrize('name', SPACES)
def test_search_spaces_lie_within_the_range_and_hold_the_default(name):
    option, space = SPACES[name], SPACES[name].search
    assert isinstance(option.default, float)
    for value in (*map(space.at, (0.0, 0.3, 0.999999)), *space.among):
        assert option.check(value) == value
    assert space.low <= option.default <= space.high


def test_places_of_the_unit_interval_become_values_with_three_digits():
    assert [search(0.001, 1, log=True).at(place) for place in (0, 1 / 3, 0.5)] == [0.001, 0.01, 0.0316]
    assert [search(0.2, 1).at(place) for place in (0, 0.5)] == [0.2, 0.6]
    assert [search_among(0, 5, 9).at(place) for place in (0.0, 0.34, 0.99, 1.0)] == [0, 5, 9, 9]


@pytest.mark.parametrize('make', [lambda: search(1, 1), lambda: search(0, 1, log=True), lambda: search_among(1, 1)])
def test_impossible_search_spaces_are_refused(make):
    with pytest.raises(ValueError, match='search'):
        make()


def test_a_search_space_outside_of_the_range_is_refused_when_it_is_registered():
    def outside(share: Annotated[Share, search(0.5, 2)] = 0.5): ...
    def whole(count: Annotated[int, at_least(0), search(1, 2)] = 1): ...

    with pytest.raises(
        UserError, match=r'outside.share: the search space \(0.5 to 2, uniform\) must be at least 0 and'
    ):
        Registry('thing').register(outside)
    with pytest.raises(UserError, match=r'whole.count: only an option whose default is a float'):
        Registry('thing').register(whole)


def test_the_outermost_search_space_counts():
    Wide = Annotated[float, search(0, 10)]

    def narrow(x: Annotated[Wide, search(0, 1)] = 0.5): ...

    assert options_of(narrow)['x'].search == search(0, 1)


def test_the_first_trial_has_the_settings_as_given():
    given = points_of('fedprox', lr=0.7, hyper={'fedprox.mu': 0.25})
    assert given[0] == {'lr': 0.7, 'fedprox.mu': 0.25}
    assert given[1:] == points_of('fedprox')[1:]


def test_all_recipes_try_the_same_learning_rates():
    rates = {tuple(point['lr'] for point in points_of(recipe)) for recipe in ('fedavg', 'fedprox', 'fedism+fedadam')}
    assert len(rates) == 1


def test_a_larger_budget_tries_the_same_and_more():
    assert points_of('fedism', 5) == points_of('fedism', 9)[:5]
    assert points_of('fedism', 5, seed=1)[1:] != points_of('fedism', 5)[1:]


def test_no_point_is_tried_twice():
    space = {'lr': search_among(0.1, 0.2)}
    assert trial_points(Config(), space, 16, 0) == ({'lr': 0.1}, {'lr': 0.2})


def test_spaces_of_users_overrule_those_of_recipes():
    config = Config(recipe='fedprox')
    given = given_spaces(['lr=0.2..0.3', 'fedprox.mu=0,1', 'weight_decay=1e-5..0.1'], [config])
    space = {name: str(one) for name, one in search_space(config, given).items()}
    shown = {'lr': '0.2 to 0.3, uniform', 'weight_decay': '1e-05 to 0.1, log-uniform', 'fedprox.mu': 'one of 0, 1'}
    assert space == shown and list(space) == list(shown)


@pytest.mark.parametrize(
    ('texts', 'message'),
    [
        (['lr=0.1', 'lr=0.2'], 'space=lr=0.2: lr is given twice'),
        (['lr'], 'space=lr must be written name=LOW..HIGH'),
        (['lr=1..0.1'], 'space=lr=1..0.1 must be written'),
        (['lr=0..1'], r'space=lr: the search space \(0 to 1, uniform\) must be above 0'),
        (['fedprox.mu=1,2'], 'fedprox.mu is not a float setting that can be tuned: lr, momentum, weight_decay'),
    ],
)
def test_mistakes_in_spaces_are_named(texts, message):
    with pytest.raises(UserError, match=message):
        given_spaces(texts, [Config()])


def test_what_a_method_fixes_is_not_searched():
    momentum = {'momentum': search(0, 0.9)}
    assert 'momentum' in search_space(Config(), momentum)
    assert 'momentum' not in search_space(Config(recipe='scaffold'), momentum)


def test_rungs_keep_fewer_trials_for_longer():
    assert rungs_of(9, 27, 3) == (Rung(9, 9), Rung(3, 27))
    assert rungs_of(16, 2, 2) == (Rung(16, 1), Rung(8, 2))  # no rung is shorter than a round
    assert rungs_of(3, 10, 3) == (Rung(3, 10),)  # one trial alone needs no rung


class Line(dict):
    """A line of metrics.jsonl of which only some fields may be read."""

    def __getitem__(self, name):
        assert name in ('seed', 'validation', 'validation_worst')
        return super().__getitem__(name)


def line(validation, worst=0.0, seed=0):
    tested = {'global': {'avg': -validation if validation else 1}}
    return Line(tested, round=1, seed=seed, validation=validation, validation_worst=worst)


def test_trials_are_judged_on_validation_data_alone():
    lines = [line(0.5, 0.1), line(0.9, 0.3), line(0.7, 0.2)]
    assert trial_score(lines, 'mean') == 0.7 and trial_score(lines, 'mean', last_k=2) == pytest.approx(0.8)
    assert trial_score(lines, 'mean', best=True) == 0.9 and trial_score(lines, 'worst', best=True) == 0.3
    assert trial_score([*lines, line(0.5, seed=1)], 'mean') == pytest.approx(0.6)


def test_an_undefined_score_is_the_worst():
    assert trial_score([line(0.5), line(None)], 'mean') is None
    assert trial_score([line(0.5), line(None)], 'mean', best=True) == 0.5
    assert best_first([None, 0.1, 0.3, 0.3]) == [2, 3, 1, 0]
