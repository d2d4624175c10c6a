"""Reading run directories: what is read, how runs are told apart, and what mistakes say."""

import json

import numpy as np
import pytest

from fedjax_fair import report


def edit(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def test_a_run_is_read_whole(make_run):
    run = report.load_run(make_run('fedavg', seeds=2, rounds=20, every=10, personal=True))
    assert (run.label, run.scenario, run.seeds) == ('fedavg', 'digits', [0, 1])
    assert [(line['round'], line['seed']) for line in run.history] == [(10, 0), (10, 1), (20, 0), (20, 1)]
    assert run.result('deployed')['avg']['mean'] > run.result()['avg']['mean']
    assert run.result('adapted') is None


def test_curve_is_the_mean_and_population_deviation_over_seeds(make_run):
    run = report.load_run(make_run(seeds=3, rounds=10, every=5))
    found = report.curve(run, lambda line: line['global']['avg'])
    values = np.array([[line['global']['avg'] for line in run.history if line['seed'] == s] for s in range(3)])
    assert found.rounds.tolist() == [5, 10]
    np.testing.assert_allclose(found.mean, values.mean(0))
    np.testing.assert_allclose(found.std, values.std(0))


def test_curve_leaves_out_what_is_undefined(make_run):
    run = report.load_run(make_run(seeds=2, rounds=10, every=5))
    pick = {(5, 0): 1.0, (5, 1): None, (10, 0): None, (10, 1): None}
    found = report.curve(run, lambda line: pick[line['round'], line['seed']])
    np.testing.assert_array_equal(found.mean, [1.0, np.nan])
    np.testing.assert_array_equal(found.std, [0.0, np.nan])


def test_an_evaluation_written_twice_counts_once(make_run):
    path = make_run(seeds=1, rounds=10, every=5)
    lines = (path / 'metrics.jsonl').read_text().splitlines()
    again = json.loads(lines[0]) | {'train_loss': 9.0}
    (path / 'metrics.jsonl').write_text('\n'.join([*lines, json.dumps(again), '']))
    run = report.load_run(path)
    assert [line['round'] for line in run.history] == [5, 10]
    assert run.history[0]['train_loss'] == 9.0


def test_labels_tell_runs_apart(make_run):
    paths = [
        make_run('fedavg', model='mlp', directory='one'),
        make_run('fedavg', model='cnn', directory='two'),
        make_run('fedavg', model='cnn', directory='three'),
        make_run('afl', directory='four'),
        make_run('fedavg', scenario='other', directory='five'),
    ]
    labels = [run.label for run in report.load_runs(paths)]
    assert labels == ['fedavg (mlp)', 'fedavg (cnn) (two)', 'fedavg (cnn) (three)', 'afl', 'fedavg']


def test_not_a_number_in_a_file_is_undefined(make_run):
    path = make_run(seeds=1, rounds=5)
    text = (path / 'metrics.jsonl').read_text()
    line = json.loads(text)
    (path / 'metrics.jsonl').write_text(json.dumps(line | {'train_loss': float('nan')}) + '\n')
    assert report.load_run(path).history[0]['train_loss'] is None


@pytest.mark.parametrize(
    'file,change,message',
    [
        ('config.json', lambda r: r.pop('recipe'), "config.json: lacks field 'recipe'"),
        ('summary.json', lambda r: r.update(rounds='5'), "summary.json: field 'rounds' must be int, is str"),
        ('summary.json', lambda r: r['metrics'].pop('avg'), "field 'metrics': lacks field 'avg'"),
        ('summary.json', lambda r: r['metrics']['worst'].pop('std'), 'field metrics.worst must hold mean and std'),
        ('summary.json', lambda r: r['groups'].pop(), 'field metrics.group_accuracy has 4 values for 3 groups'),
        ('summary.json', lambda r: r.update(adapted=[]), "field 'adapted': must be a JSON object, is list"),
        ('metrics.jsonl', lambda r: r.pop('round'), "metrics.jsonl line 1: lacks field 'round'"),
    ],
)
def test_mistakes_name_the_file_and_the_field(make_run, file, change, message):
    path = make_run(seeds=1, rounds=5)
    edit(path / file, change)
    with pytest.raises(ValueError) as error:
        report.load_run(path)
    assert message in str(error.value)
    assert str(path / file) in str(error.value)
    assert '\n' not in str(error.value)


def test_missing_empty_and_broken_files_are_named(make_run, tmp_path):
    with pytest.raises(ValueError, match=r'nowhere/config\.json: cannot be read \(No such file'):
        report.load_run(tmp_path / 'nowhere')
    path = make_run()
    (path / 'metrics.jsonl').write_text('\n')
    with pytest.raises(ValueError, match='holds no evaluation'):
        report.load_run(path)
    (path / 'metrics.jsonl').write_text('{"round": 1,')
    with pytest.raises(ValueError, match='line 1: is not valid JSON'):
        report.load_run(path)
    with pytest.raises(ValueError, match='at least one run directory'):
        report.load_runs([])
