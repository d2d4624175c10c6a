"""Reading run directories: what is read, how runs are told apart, and what mistakes say."""

import json
import pathlib

import numpy as np
import pytest

from fedjax_fair import results
from fedjax_fair.errors import UserError

HERE = pathlib.Path(__file__).parent
# Runs of earlier versions: those of the studies, and two that no study quotes any more.
RECORDED = sorted(
    [*HERE.parents[1].glob('experiments/*/results/**/summary.json'), *HERE.glob('recorded/*/summary.json')]
)


def edit(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def test_a_run_is_read_whole(make_run):
    run = results.load(make_run('fedavg', seeds=2, rounds=20, every=10, personal=True))
    assert (run.label, run.scenario, run.seeds) == ('fedavg', 'digits', [0, 1])
    assert [(line['round'], line['seed']) for line in run.history] == [(10, 0), (10, 1), (20, 0), (20, 1)]
    assert run.result('deployed')['avg']['mean'] > run.result('global')['avg']['mean']
    assert run.result('adapted') is None


def test_curve_is_the_mean_and_population_deviation_over_seeds(make_run):
    run = results.load(make_run(seeds=3, rounds=10, every=5))
    found = results.curve(run.history, lambda line: line['global']['avg'])
    values = np.array([[line['global']['avg'] for line in run.history if line['seed'] == s] for s in range(3)])
    assert found.rounds.tolist() == [5, 10]
    np.testing.assert_allclose(found.mean, values.mean(0))
    np.testing.assert_allclose(found.std, values.std(0))


def test_curve_leaves_out_what_is_undefined(make_run):
    run = results.load(make_run(seeds=2, rounds=10, every=5))
    pick = {(5, 0): 1.0, (5, 1): None, (10, 0): None, (10, 1): None}
    found = results.curve(run.history, lambda line: pick[line['round'], line['seed']])
    np.testing.assert_array_equal(found.mean, [1.0, np.nan])
    np.testing.assert_array_equal(found.std, [0.0, np.nan])


def test_an_evaluation_written_twice_counts_once(make_run):
    path = make_run(seeds=1, rounds=10, every=5)
    lines = (path / 'metrics.jsonl').read_text().splitlines()
    again = json.loads(lines[0]) | {'train_loss': 9.0}
    (path / 'metrics.jsonl').write_text('\n'.join([*lines, json.dumps(again), '']))
    run = results.load(path)
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
    labels = [run.label for run in results.load_runs(paths)]
    assert labels == ['fedavg (mlp)', 'fedavg (cnn) (two)', 'fedavg (cnn) (three)', 'afl', 'fedavg']


def test_labels_of_equal_directories_have_those_around_them(make_run, tmp_path):
    paths = [make_run('fedavg', directory=f'{above}/fedavg') for above in ('a', 'b', 'c/b')]
    labels = [run.label for run in results.load_runs(paths[:2])]
    assert labels == ['fedavg (a/fedavg)', 'fedavg (b/fedavg)']
    twice = [run.label for run in results.load_runs([*paths, paths[0]])]  # the same run cannot be told from itself
    around = [f'{tmp_path.name}/a', f'{tmp_path.name}/b', 'c/b', f'{tmp_path.name}/a']
    assert twice == [f'fedavg ({above}/fedavg)' for above in around]


def test_labels_leave_out_a_model_that_all_runs_share(make_run):
    paths = [make_run('fedprox', directory=f'fedprox.mu={mu}', config_changes={'mu': mu}) for mu in (0, 1)]
    assert [run.label for run in results.load_runs(paths)] == ['fedprox (fedprox.mu=0)', 'fedprox (fedprox.mu=1)']


def test_not_a_number_in_a_file_is_undefined(make_run):
    path = make_run(seeds=1, rounds=5)
    text = (path / 'metrics.jsonl').read_text()
    line = json.loads(text)
    (path / 'metrics.jsonl').write_text(json.dumps(line | {'train_loss': float('nan')}) + '\n')
    assert results.load(path).history[0]['train_loss'] is None


@pytest.mark.parametrize(
    'file,change,message',
    [
        ('config.json', lambda r: r.pop('recipe'), "config.json: lacks field 'recipe'"),
        ('summary.json', lambda r: r.update(rounds='5'), "summary.json: field 'rounds' must be int, is str"),
        ('summary.json', lambda r: r['global'].pop('avg'), "field 'global': lacks field 'avg'"),
        ('summary.json', lambda r: r['global']['worst'].pop('std'), 'field global.worst must hold mean and std'),
        ('summary.json', lambda r: r['groups'].pop(), 'field global.group_accuracy has 4 values for 3 groups'),
        ('summary.json', lambda r: r.update(adapted=[]), "field 'adapted': must be a JSON object, is list"),
        ('metrics.jsonl', lambda r: r.pop('round'), "metrics.jsonl line 1: lacks field 'round'"),
    ],
)
def test_mistakes_name_the_file_and_the_field(make_run, file, change, message):
    path = make_run(seeds=1, rounds=5)
    edit(path / file, change)
    with pytest.raises(UserError) as error:
        results.load(path)
    assert message in str(error.value)
    assert str(path / file) in str(error.value)
    assert '\n' not in str(error.value)


def test_missing_empty_and_broken_files_are_named(make_run, tmp_path):
    with pytest.raises(UserError, match=r'nowhere/config\.json: cannot be read \(No such file'):
        results.load(tmp_path / 'nowhere')
    path = make_run()
    (path / 'metrics.jsonl').write_text('\n')
    with pytest.raises(UserError, match='holds no evaluation'):
        results.load(path)
    (path / 'metrics.jsonl').write_text('{"round": 1,')
    with pytest.raises(UserError, match='line 1: is not valid JSON'):
        results.load(path)
    with pytest.raises(UserError, match='at least one run directory'):
        results.load_runs([])


def test_a_summary_of_an_older_version_is_read_as_one_of_today(make_run):
    path = make_run(seeds=1, rounds=5)
    today = results.load(path)

    def as_it_was(record):
        record['metrics'] = record.pop('global')
        record.pop('score', None)

    edit(path / 'summary.json', as_it_was)
    old = results.load(path)
    assert 'metrics' not in old.summary and old.score == 'accuracy'
    assert old.summary == today.summary


@pytest.mark.parametrize('path', RECORDED, ids=lambda path: '/'.join(path.parts[-4:-1]))
def test_recorded_runs_are_read(path):
    found, settings = results.summary(path.parent), results.settings(path.parent)
    assert found['global']['avg']['mean'] > 0
    assert settings['recipe'] == found['recipe'] and not set(results.FACTS) & set(settings)


def test_runs_were_recorded():
    assert len(RECORDED) >= 6


def test_series_has_an_axis_for_seeds_and_rounds(make_run):
    path = make_run(seeds=2, rounds=10, every=5)
    lines = results.history(path)
    rounds, values = results.series(lines, lambda line: line['global']['group_accuracy'])
    assert rounds.tolist() == [5, 10] and values.shape == (2, 2, 4)
    assert values[1, 0].tolist() == next(
        line['global']['group_accuracy'] for line in lines if (line['seed'], line['round']) == (1, 5)
    )
    _, some = results.series(lines, lambda line: None if line['round'] == 5 else [1.0, 2.0])
    assert some.shape == (2, 2, 2) and np.isnan(some[:, 0]).all() and (some[:, 1] == [1, 2]).all()


def test_runs_that_cannot_be_reported_are_left_out_with_the_reason(make_run, tmp_path):
    good, half, broken, bytes_ = (make_run(name, directory=name) for name in ('good', 'half', 'broken', 'bytes'))
    (half / 'summary.json').unlink()
    edit(broken / 'summary.json', lambda record: record.pop('rounds'))
    (bytes_ / 'metrics.jsonl').write_bytes(b'\xff\xfe')
    (tmp_path / 'other').mkdir()
    (tmp_path / 'other' / 'config.json').write_text('{}')  # of something else
    folders = results.run_folders(tmp_path)
    assert folders == sorted([good, half, broken, bytes_])
    runs, left_out = results.load_readable(folders)
    assert [run.path for run in runs] == [good]
    assert [one.sentence for one in left_out] == [
        f"{broken} is left out: summary.json: lacks field 'rounds'",
        f'{bytes_} is left out: metrics.jsonl: is not a text file',
        f'{half} is left out: the run is not finished (no summary.json); its last evaluation is of round 50 of 50',
    ]


def test_a_run_that_was_just_started_is_left_out_too(make_run):
    path = make_run()
    for name in ('summary.json', 'metrics.jsonl'):
        (path / name).unlink()
    ((_, reason),) = results.load_readable([path])[1]
    assert reason == 'the run is not finished (no summary.json)'


def test_remarks_of_a_summary_are_checked(make_run):
    path = make_run(summary_changes={'remarks': [{'part': 'fedbn'}]})
    with pytest.raises(UserError, match=r"summary.json: field 'remarks': lacks field 'subject'"):
        results.load(path)


def test_a_folder_holds_a_run_when_its_config_names_a_recipe(make_run, tmp_path):
    assert results.holds_run(make_run()) and not results.holds_run(tmp_path)
    (tmp_path / 'config.json').write_text('[1, 2]')
    assert not results.holds_run(tmp_path)


def test_the_headline_is_the_model_that_clients_would_use(make_run):
    old, personal = results.load(make_run('fedavg')), results.load(make_run('ditto', personal=True))
    assert (old.headline, personal.headline) == ('global', 'deployed')
    assert personal.result() == personal.result('deployed') != personal.result('global')
    line = personal.history[0]
    assert (
        personal.of_headline(line) == line['deployed'] and old.of_headline(old.history[0]) == old.history[0]['global']
    )
    said = results.load(make_run('fedbn', personal=True, summary_changes={'headline': 'global'}))
    assert said.headline == 'global' and said.result() == said.result('global')


@pytest.mark.parametrize(
    ('count', 'last_k', 'expected'),
    [(1, None, [1]), (4, None, [4]), (5, None, [4, 5]), (10, None, [8, 9, 10]), (100, None, [96, 97, 98, 99, 100]),
     (4, 5, [1, 2, 3, 4]), (10, 2, [9, 10])],
)  # fmt: skip
def test_the_last_quarter_of_the_evaluations_is_reported(count, last_k, expected):
    assert results.reported(range(1, count + 1), last_k) == expected


def test_older_runs_tell_their_rounds(make_run):
    old = make_run(seeds=2, rounds=50, every=5)
    assert results.load(old).rounds_reported == [[30, 35, 40, 45, 50]] * 2
    edit(old / 'config.json', lambda record: record.update(last_k=1))
    assert results.load(old).rounds_reported == [[50]] * 2
    edit(old / 'summary.json', lambda record: record.update(selected_rounds=[10, 20]))
    assert results.load(old).rounds_reported == [[10], [20]]


def make_units(make_run, recipe='fedavg', data_seeds=(0, 2, 10), **options):
    for number, seed in enumerate(data_seeds):
        directory, level = f'{recipe}/data_seed={seed}', 0.8 - 0.1 * number
        make_run(recipe, directory=directory, level=level, config_changes={'data_seed': seed}, seeds=2, **options)


def test_data_seeds_are_units_of_one_run(make_run, tmp_path):
    make_units(make_run)
    (tmp_path / 'fedavg' / 'data_seed=11').mkdir()  # not finished
    run, units = results.load(tmp_path / 'fedavg'), [tmp_path / 'fedavg' / f'data_seed={n}' for n in (0, 2, 10)]
    assert run.data_seeds == [0, 2, 10] and run.folders == units and list(run.units) == units
    assert (run.label, run.repeats, run.headline) == ('fedavg', 3, 'global')
    means = [results.summary(unit)['global']['avg']['mean'] for unit in units]
    assert run.result()['avg']['mean'] == pytest.approx(np.mean(means))
    assert run.result()['avg']['std'] == pytest.approx(np.std(means))
    groups = [results.summary(unit)['global']['group_accuracy']['mean'] for unit in units]
    np.testing.assert_allclose(run.result()['group_accuracy']['mean'], np.mean(groups, 0))
    assert len(run.result()['client_accuracy']['mean']) == len(run.summary['group_of']) == 60
    found = results.curve(run.history, lambda line: line['global']['avg'])
    assert found.mean[-1] == pytest.approx(np.mean(means)) and found.std[-1] == pytest.approx(np.std(means))


def test_units_without_the_same_groups_have_none(make_run, tmp_path):
    make_units(make_run, data_seeds=(0,))
    make_units(make_run, data_seeds=(1,), groups=('other', 'names'))
    run = results.load(tmp_path / 'fedavg')
    assert run.groups == [] and run.result()['group_accuracy'] == {'mean': [], 'std': []}
    assert run.result()['avg']['mean'] > 0


def test_one_data_seed_is_told_as_a_plain_run(make_run, tmp_path):
    make_units(make_run, data_seeds=(3,))
    run = results.load(tmp_path / 'fedavg')
    assert run.data_seeds == [3] and run.repeats == 2 and run.path == tmp_path / 'fedavg'
    plain = results.load(tmp_path / 'fedavg' / 'data_seed=3')
    assert run.result() == plain.result() and plain.data_seeds == [3] and plain.folders == [plain.path]


def test_folders_of_runs_are_found_with_their_units_together(make_run, tmp_path):
    make_units(make_run, data_seeds=(0, 1))
    other = make_run('afl', directory='other')
    assert results.run_folders(tmp_path) == [tmp_path / 'fedavg', other]
    runs = results.load_runs(results.run_folders(tmp_path))
    assert results.repeats_words(runs) == 'seed sd is over 2 data seeds; the number of each is the mean over 2 seeds'
    assert results.repeats_words(runs[1:]) == ''
