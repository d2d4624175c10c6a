"""Tuning from trials to final runs: what it writes, what it never sees, and that it can be resumed."""

import json
import shutil
import types

import pytest

from fedjax_fair import results
from fedjax_fair.errors import UserError
from fedjax_fair.report import load_runs, tuning_text, write_report
from fedjax_fair.training import Config, Interrupted, loop, prepare, tune, tuning

pytestmark = pytest.mark.xdist_group('tuning')


@pytest.fixture(scope='module')
def config(sites):
    return Config(
        scenario=sites, model='logreg', rounds=2, eval_every=1, batch_size=16, local_epochs=1, devices=1,
        checkpoint_every=0, seeds=(0, 5),
    )  # fmt: skip


@pytest.fixture(scope='module')
def tuned(config, tmp_path_factory):
    out = tmp_path_factory.mktemp('tuned') / 'out'
    return out, tune(config, ['fedprox'], out, budget=3, quiet=True)


def trial_folders(out):
    return sorted(path.parent for path in (out / 'trials').rglob(results.SUMMARY))


def test_every_trial_and_the_choice_are_recorded(tuned, read):
    out, record = tuned
    assert read(out / 'tuning.json') == record
    found = record['recipes']['fedprox']
    assert len(found['trials']) == len(trial_folders(out)) == 3
    assert found['trials'][0]['point'] == {'lr': 0.1, 'fedprox.mu': 0.01}
    scores = [trial['scores']['2'] for trial in found['trials']]
    assert found['chosen'] == scores.index(max(scores))
    trained = [read(folder / 'summary.json')['examples_trained'] for folder in trial_folders(out)]
    assert found['examples_trained'] == sum(trained) == 3 * trained[0] > 0


def test_trials_see_validation_sets_and_no_test_set(tuned, config, read):
    """Their only scores are those of 20 % of the training examples; the final runs train on all of them."""
    out, _ = tuned
    for folder in trial_folders(out):
        settings, summary = read(folder / 'config.json'), read(folder / 'summary.json')
        assert settings['validation'] == 0.2 and settings['scored_on'] == summary['scored_on'] == 'validation'
        for line in read(folder / 'metrics.jsonl'):
            assert line['validation'] == pytest.approx(line['global']['client_mean'])
            assert line['validation_worst'] == pytest.approx(line['global']['worst'])
        assert not list(folder.glob('predictions*')) and summary['adapted'] is None
    assert read(out / 'final' / 'fedprox_tuned' / 'config.json')['validation'] == 0


def test_a_trial_is_an_experiment_whose_tests_are_its_validation_sets(config):
    plain = prepare(config.changed(validation=0.2))
    trial = plain.as_trial()
    assert trial.is_trial and not plain.is_trial
    assert trial.federation.tests is plain.federation.validation
    with pytest.raises(UserError, match='needs validation'):
        prepare(config).as_trial()


def test_final_runs_have_fresh_seeds_and_say_how_they_were_chosen(tuned, read):
    out, record = tuned
    assert record['trial_seeds'] == [1] and record['final_seeds'] == [0, 5]
    plain, chosen = (read(out / 'final' / name / 'config.json') for name in ('fedprox', 'fedprox_tuned'))
    assert plain['seeds'] == chosen['seeds'] == [0, 5]
    assert 'tuned' not in plain and chosen['tuned'] == 'validation'
    assert read(out / 'final' / 'fedprox_tuned' / 'summary.json')['tuned'] == 'validation'
    found = record['recipes']['fedprox']
    point = found['trials'][found['chosen']]['point']
    assert (chosen['lr'], chosen['hyper']['fedprox.mu']) == tuple(point.values())
    assert (plain['lr'], plain['hyper']) == (0.1, {})


def test_reports_show_final_runs_and_every_trial_but_no_test_score_of_trials(tuned):
    out, record = tuned
    folders = results.run_folders(out)
    assert folders == [out / 'final' / 'fedprox', out / 'final' / 'fedprox_tuned']
    assert [run.label for run in load_runs(folders)] == ['fedprox', 'fedprox (tuned)']
    page, text = write_report(folders, out).read_text(), (out / 'tuning.md').read_text()
    assert text == tuning_text(out)
    assert '3 trials of 2 rounds, with 1 seed, 6 rounds in all' in text and 'log-uniform' in text
    for trial in record['recipes']['fedprox']['trials']:
        score = f'{100 * trial["scores"]["2"]:.2f}' + ' (did not learn)' * (not trial['learned']['2'])
        assert f'| {trial["point"]["lr"]:g} | {trial["point"]["fedprox.mu"]:g} | {score} |' in text
        assert f'<td>{score}</td>' in page


def test_an_interrupted_search_goes_on_to_the_same_record(config, tuned, tmp_path, monkeypatch):
    out = tmp_path / 'out'
    with monkeypatch.context() as patch:
        patch.setattr(loop.StopFlag, '__enter__', lambda flag: flag.__dict__.update(asked=True) or flag)
        with pytest.raises(Interrupted, match='stopped after round 0 of 2'):
            tune(config, ['fedprox'], out, budget=3, quiet=True)
    assert json.loads((out / 'tuning.json').read_text())['recipes']['fedprox']['trials'][0]['scores'] == {}
    with pytest.raises(UserError, match='exists; pass resume, overwrite'):
        tune(config, ['fedprox'], out, budget=3)
    with pytest.raises(UserError, match='resume: budget=4 differs from 3'):
        tune(config, ['fedprox'], out, budget=4, resume=True)
    with pytest.raises(UserError, match='resume: the trials of fedprox differ'):
        tune(config.changed(lr=0.2), ['fedprox'], out, budget=3, resume=True)
    train = tuning.run
    final = out / 'final'
    monkeypatch.setattr(tuning, 'run', lambda one, at, **how: [] if final in at.parents else train(one, at, **how))
    tune(config, ['fedprox'], out, budget=3, resume=True, quiet=True)
    assert (out / 'tuning.json').read_bytes() == (tuned[0] / 'tuning.json').read_bytes()


@pytest.fixture
def guessing():
    """The learning rates that train nothing."""
    return set()


@pytest.fixture
def pretended(guessing, tmp_path, monkeypatch):
    """Trials that are not run: a larger lr validates better, a smaller one tests better. Three fit into memory.

    The models of those in ``guessing`` learn nothing.
    """
    runs = []

    def run(experiment, folder, **how):
        if folder.parent.name == 'final':
            runs.append((folder.name, experiment.lr))
            return []
        runs.append((str(folder.relative_to(tmp_path / 'out' / 'trials' / 'fedavg')), len(experiment.points)))
        for point in experiment.points:
            tested = {'global': {'avg': -point['lr']}}
            line = tested | {'round': 1, 'seed': 1, 'validation': point['lr'], 'validation_worst': -point['lr']}
            path = folder / results.point_name(point)
            path.mkdir(parents=True)
            (path / 'metrics.jsonl').write_text(json.dumps(line) + '\n')
        known = {'score': 'accuracy', 'headline': 'global', 'chance': {'global': 0.5, 'own': 0.5}}
        known |= {'examples_trained': 10, 'tests': {'examples': [4, 0, 7]}}
        return [
            known | {'global': {'avg': {'mean': 0.4 if point['lr'] in guessing else 0.6}}}
            for point in experiment.points
        ]

    def experiment(plan, recipe, points, rung):
        config = plan.configs[recipe]
        made = types.SimpleNamespace(config=config, points=points, program=None, lanes=None, idle=[()] * len(points))
        made.at = lambda points: types.SimpleNamespace(points=points)
        return made

    monkeypatch.setattr(tuning, 'run', run)
    monkeypatch.setattr(tuning.Plan, 'experiment', experiment)
    monkeypatch.setattr(tuning, 'lanes_at_once', lambda program, lanes: 3)
    return runs


def test_halving_trains_the_best_for_longer_and_memory_cuts_trials_into_parts(pretended, tmp_path):
    record = tune(Config(rounds=6), ['fedavg'], tmp_path / 'out', budget=8, halving=2, quiet=True)
    assert [name for name, _ in pretended] == [
        'rounds=2/part=1', 'rounds=2/part=2', 'rounds=2/part=3', 'rounds=3/part=1', 'rounds=3/part=2', 'rounds=6',
        'fedavg', 'fedavg_tuned',
    ]  # fmt: skip
    found = record['recipes']['fedavg']
    lrs = [trial['point']['lr'] for trial in found['trials']]
    for rounds, kept in ((2, 8), (3, 4), (6, 2)):
        expected = sorted(lrs)[-kept:]
        assert sorted(t['point']['lr'] for t in found['trials'] if str(rounds) in t['scores']) == expected
    assert lrs[found['chosen']] == max(lrs) == dict(pretended)['fedavg_tuned']
    assert found['examples_trained'] == 10 * (8 + 4 + 2)


def test_the_objective_decides_what_is_chosen(pretended, tmp_path):
    record = tune(Config(), ['fedavg'], tmp_path / 'out', budget=3, objective='worst', quiet=True)
    lrs = [trial['point']['lr'] for trial in record['recipes']['fedavg']['trials']]
    assert lrs[record['recipes']['fedavg']['chosen']] == min(lrs)


def test_a_trial_that_learned_nothing_is_chosen_only_if_all_did_not(pretended, guessing, tmp_path):
    """A model that answers alike everywhere may have the best worst site."""
    out = tmp_path / 'out'

    def tuned_again():
        shutil.rmtree(out, ignore_errors=True)
        return tune(Config(), ['fedavg'], out, budget=4, objective='worst', quiet=True)['recipes']['fedavg']

    lrs = [trial['point']['lr'] for trial in tuned_again()['trials']]
    guessing.add(min(lrs))
    found = tuned_again()
    assert lrs[found['chosen']] == sorted(lrs)[1]
    assert [trial['learned'] for trial in found['trials']] == [{'30': lr != min(lrs)} for lr in lrs]
    assert (found['validation_sets'], found['validation_examples']) == (2, 11)
    assert results.tuning(out)['recipes']['fedavg'] == found
    text = tuning_text(out)
    assert 'by 11 validation examples in 2 sets' in text and 'one trial did not learn' in text
    assert f'| {min(lrs):g} | {-100 * min(lrs):.2f} (did not learn) |' in text
    guessing.update(lrs)
    assert lrs[tuned_again()['chosen']] == min(lrs) and 'no trial learned anything' in tuning_text(out)


def test_the_log_of_trials_says_that_they_are_scored_on_validation_sets(config, tmp_path, capsys):
    trial = prepare(config.changed(validation=0.2, rounds=1, keep_predictions=False)).as_trial()
    loop.run(trial, tmp_path / 'out', facts=tuning.SCORED_ON_VALIDATION)
    told = ' '.join(capsys.readouterr().err.split())
    assert 'test set' not in told and 'validation sets of' in told


def test_seeds_of_trials_are_not_those_of_final_runs(pretended, tmp_path):
    record = tune(Config(seeds=(0, 2, 9)), ['fedavg'], tmp_path / 'out', budget=2, seeds_per_trial=3, quiet=True)
    assert record['trial_seeds'] == [1, 3, 4]


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'budget': 1}, 'budget=1 must be at least 2'),
        ({'objective': 'avg'}, "objective='avg' is not one of 'mean', 'worst'"),
        ({'halving': 1}, 'halving=1 keeps every trial'),
        ({'space': 'lr=x'}, 'space=lr=x must be written'),
    ],
)
def test_mistakes_show_before_anything_is_written(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        tune(Config(), ['fedavg'], tmp_path / 'out', **change)
    assert not (tmp_path / 'out').exists()
