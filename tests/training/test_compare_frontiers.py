"""``compare`` with frontiers: which recipe runs over which values, and where."""

import types

import pytest

from fedjax_fair.training import Config, compare, comparison


@pytest.fixture
def runs(monkeypatch):
    """Comparisons that train nothing: what would be run, by folder."""
    found = {}

    def run(experiment, folder, **how):
        found[folder] = experiment
        return [{}]

    def prepare(config, points=({},)):
        return types.SimpleNamespace(config=config, points=points, idle=[()] * len(points))

    monkeypatch.setattr(comparison, 'run', run)
    monkeypatch.setattr(comparison, 'prepare', prepare)
    return found


def test_a_frontier_is_one_program_of_the_recipe_that_has_the_part(runs, tmp_path):
    out = tmp_path / 'out'
    values = {'fedprox.mu': [0, 1], 'qfedavg.q': [0, 2, 5]}
    config = Config(hyper={'qfedavg.q': 1.5, 'fedprox.mu': 0.1}, seeds=(0, 1))
    assert set(compare(config, ['fedavg', 'fedprox+uniform'], out, frontiers=values)) == {'fedavg', 'fedprox+uniform'}
    assert list(runs) == [
        out / name for name in ('fedavg', 'fedprox+uniform', 'frontier/fedprox.mu', 'frontier/qfedavg.q')
    ]
    inside, alone = (runs[out / 'frontier' / name] for name in values)
    assert inside.config.recipe == 'fedprox+uniform' and inside.points == ({'fedprox.mu': 0.0}, {'fedprox.mu': 1.0})
    assert alone.config.recipe == 'qfedavg' and [point['qfedavg.q'] for point in alone.points] == [0, 2, 5]
    assert alone.config.hyper == {'qfedavg.q': 1.5} and alone.config.seeds == (0, 1)


@pytest.mark.parametrize(
    ('settings', 'metric', 'known'),
    [
        ({}, 'dice', 'accuracy, balanced_accuracy, auc,'),
        ({'keep_predictions': False}, 'auc', 'accuracy,'),
    ],
)
def test_a_metric_that_runs_will_not_be_judged_by_is_refused_before_them(
    toy, settings, metric, known, tmp_path, monkeypatch
):
    monkeypatch.setattr(comparison, 'run', None)
    with pytest.raises(ValueError, match=f'^metric={metric} is not one of {known} which runs of this task'):
        compare(toy(**settings), ['fedavg'], tmp_path / 'out', metric=metric)
    assert not (tmp_path / 'out').exists()


def test_without_frontiers_options_of_other_parts_are_refused(runs, tmp_path):
    with pytest.raises(ValueError, match='no recipe in recipes=fedavg has this part'):
        compare(Config(hyper={'qfedavg.q': 1.5}), ['fedavg'], tmp_path / 'out')


def test_parts_that_change_nothing_are_told_of_all_recipes_before_the_first_one_trains(
    toy, tmp_path, monkeypatch, capsys
):
    told = []
    monkeypatch.setattr(comparison, 'run', lambda *given, **how: told.append(capsys.readouterr().err) or [{}])
    hyper = {'fedprox.mu': 0.0, 'qfedavg.q': 0.0}
    compare(toy(hyper=hyper), ['fedavg', 'fedprox', 'qfedavg'], tmp_path / 'out', quiet=True)
    assert [len(text.splitlines()) for text in told] == [2, 0, 0]
    assert all(f'{name} on gaussian_toy_1: {name} is the same as' in told[0] for name in ('fedprox', 'qfedavg'))
