"""The table of results: every number is one of the comparison, with and without predictions."""

import dataclasses
import json
import re

import numpy as np
import pytest
from tables import check_latex, read_csv, table_of

from fedjax_fair import report
from fedjax_fair.errors import UserError
from fedjax_fair.report.cells import cell_text
from fedjax_fair.results import predictions
from fedjax_fair.results.comparison import compare_runs
from fedjax_fair.results.prediction_file import write_predictions


def column(table, name):
    place = [one.name for one in table.columns].index(name)
    return [row.cells[place] for row in table.rows]


def texts(table, name):
    place = [one.name for one in table.columns].index(name)
    return [cell_text(table.columns[place], row.cells[place]) for row in table.rows]


def final_accuracies(path):
    """Group accuracies ``[S, G]`` and client accuracies ``[S, N]`` of the last evaluation, read from the file."""
    lines = [json.loads(text) for text in (path / 'metrics.jsonl').read_text().splitlines()]
    last = [line['global'] for line in lines if line['round'] == max(line['round'] for line in lines)]
    return tuple(
        np.array([100 * np.array(line[key]) for line in last]) for key in ('group_accuracy', 'client_accuracy')
    )


# --- with predictions ------------------------------------------------------------------------------------------------


def test_numbers_are_those_of_the_comparison(three):
    runs = report.load_runs(three)
    table, analysis = report.make_table(runs), compare_runs(runs).analysis
    avg = analysis.outcomes['avg']
    for place, cell in enumerate(column(table, 'AVG')):
        low, high = (100 * (avg.level.estimate[place] + sign * avg.level_half[place]) for sign in (-1, 1))
        np.testing.assert_allclose((cell.value, cell.lo, cell.hi), (100 * avg.level.estimate[place], low, high))
    np.testing.assert_allclose([cell.value for cell in column(table, 'spread')], 100 * analysis.spread)
    np.testing.assert_allclose([cell.raw for cell in column(table, 'spread')], 100 * analysis.raw_std)
    np.testing.assert_allclose([cell.value for cell in column(table, 'worst')], 100 * analysis.worst_corrected)
    difference = column(table, 'AVG vs base')[1]
    np.testing.assert_allclose(difference.value, -100 * avg.pairs.estimate[0])  # pairs are base - worse
    np.testing.assert_allclose(difference.lo, -100 * (avg.pairs.estimate[0] + avg.half95[0]))


def test_a_cell_has_its_interval_and_verdict(three):
    table = table_of(*three)
    assert re.fullmatch(r'• \d\d\.\d \[\d\d\.\d, \d\d\.\d\]', texts(table, 'AVG')[0])
    assert re.fullmatch(r'• \d+\.\d \(\d+\.\d\) \[\d+\.\d, \d+\.\d\]', texts(table, 'spread')[0])
    first, second, third = texts(table, 'AVG vs base')
    assert first == '–' and re.fullmatch(r'-\d+\.\d \[-\d+\.\d, -\d+\.\d\] worse', second)
    assert re.search(r'\] (undecided|no difference)', third)


def test_dots_mark_all_that_cannot_be_told_from_the_best(three):
    table = table_of(*three)
    assert [cell.dot for cell in column(table, 'AVG')] == [True, False, True]
    markdown = report.to_markdown(table)
    assert '**' not in markdown and markdown.count('•') == sum(cell.dot for row in table.rows for cell in row.cells)


def test_worst_has_the_interval_of_its_raw_number(three):
    table, outcome = table_of(*three), compare_runs(report.load_runs(three)).analysis.outcomes['worst']
    for place, cell in enumerate(column(table, 'worst')):
        level, half = 100 * outcome.level.estimate[place], 100 * outcome.level_half[place]
        np.testing.assert_allclose((cell.raw, cell.lo, cell.hi), (level, level - half, min(100, level + half)))
        assert cell.lo < cell.value < cell.hi


def shared_tests(make_run, **options):
    """Two clients of a site with the same test images."""
    path = make_run(groups=(), clients=2, images=60, patient_of=lambda image: image, gap=0.01, **options)
    got = predictions(path)
    rows, other = np.flatnonzero(got.set == 0), np.flatnonzero(got.set == 1)
    same = {name: getattr(got, name).copy() for name in ('example', 'cluster', 'label')}
    for values in same.values():
        values[other] = values[rows]
    write_predictions(path, dataclasses.replace(got, **same))
    return path


def test_a_worst_that_cannot_be_corrected_is_shown_plainly(make_run):
    table = table_of(shared_tests(make_run, recipe='one'), shared_tests(make_run, recipe='two', level=0.4))
    (first, second) = texts(table, 'raw worst')
    assert re.fullmatch(r'• \d\d(\.\d)? \[\d\d(\.\d)?, \d\d(\.\d)?\]', first) and '(' not in second
    tex = report.to_latex(table)
    check_latex(tex)
    assert 'raw worst $' in tex and r'\underline{(' not in tex and 'worst (raw)' not in tex


def test_a_raw_number_among_corrected_ones_is_marked(three, make_run):
    cells = texts(table_of(*three, make_run('old', clients=8, seeds=5)), 'worst')
    assert cells[3].endswith(' raw') and '(' not in cells[3] and all('(' in cell for cell in cells[:3])


def test_wide_intervals_are_shown_in_whole_points(make_run):
    runs = [make_run(name, images=16, clients=4, level=level) for name, level in (('one', 0.7), ('two', 0.6))]
    table = table_of(*runs)
    cell = column(table, 'AVG')[0]
    assert cell.hi - cell.lo > 10 and re.fullmatch(r'(• )?\d\d \[\d\d, \d\d\]', texts(table, 'AVG')[0])
    assert re.search(r'\$\d\d_\{\d\d\}\^\{\d\d\}\$', report.to_latex(table))
    assert re.search(r'AVG [+-]\d+ points (over|vs) one \(95 % interval -?\d+ to -?\d+\)', report.to_markdown(table))


def test_few_test_images_in_all_are_told(make_run):
    table = table_of(make_run('one', groups=('only',), clients=1, images=10))
    told = '5 test patients in all: intervals were tried out with 40 and more, and may be too narrow here'
    assert told in table.found.notes and told in report.to_latex(table)
    many = table_of(make_run('two', groups=('only',), clients=1, images=100))
    assert not any('in all' in note for note in many.found.notes)


def test_dots_are_explained_only_where_one_is_shown(three, make_run):
    assert 'A dot marks' in report.to_markdown(table_of(*three))
    chance = {'chance': {'global': 0.99, 'own': 0.99}}
    options = {'images': 20, 'clients': 4, 'summary_changes': chance}
    lost = table_of(make_run('lost', **options), make_run('gone', **options))
    assert not any(any(one.best) for one in lost.found.measures.values())
    for text in (report.to_markdown(lost), report.to_latex(lost)):
        assert 'A dot marks' not in text and 'Underlined' not in text


def test_a_baseline_can_be_named(three):
    table = table_of(*three, baseline='worse')
    assert texts(table, 'AVG vs worse')[1] == '–'
    assert texts(table, 'AVG vs worse')[0].endswith(' better')
    assert 'Holm over 2 comparisons with worse; margin 1 point' in report.to_markdown(table)
    with pytest.raises(UserError, match="baseline='wors' is not one of 'base', 'worse', 'same'"):
        report.make_tables(report.load_runs(three), 'wors')


def test_the_margin_decides_what_makes_no_difference(three):
    wide = table_of(*three, margin=20.0)
    assert texts(wide, 'AVG vs base')[2].endswith('no difference above 20 points')
    assert 'margin 20 points' in report.to_markdown(wide)


def test_sites_with_few_patients_have_no_verdict(make_run):
    options = {'seeds': 3, 'images': 12, 'clients': 4, 'groups': ('a', 'b', 'c', 'd')}
    paths = [make_run('one', **options), make_run('two', level=0.5, **options)]
    table = table_of(*paths)
    assert {cell.word for cell in column(table, 'a')} == {'too few patients'}  # six patients
    assert all(cell.faint and cell.lo is not None for cell in column(table, 'a'))
    rows = [row for row in read_csv(table) if (row['statistic'], row['kind']) == ('site:a', 'difference')]
    assert [row['verdict'] for row in rows] == ['too few patients']
    assert not any(cell.dot for cell in column(table, 'a')) and any(cell.dot for cell in column(table, 'AVG'))


def test_a_run_alone_marks_sites_with_few_patients_too(make_run):
    table = table_of(make_run('one', images=12, clients=4))
    assert {(cell.word, cell.faint) for cell in column(table, 'photo')} == {('too few patients', True)}
    assert 'photo, sketch, cartoon, art: fewer than 10 test patients, so nothing is said' in report.to_markdown(table)


def test_what_all_seeds_and_patients_agree_on_has_no_interval(make_run):
    table = table_of(make_run('one', level=1.0, gap=0.0, images=12, clients=4))
    assert texts(table, 'AVG') == ['100.0 seed sd 0.0'] and texts(table, 'photo')[0].startswith('100.0 seed sd 0.0')
    assert 'one: all seeds and test patients agree, so AVG has no interval' in table.found.notes


def test_a_difference_of_two_spreads_of_zero_shows_no_number(make_run):
    options = {'gap': 0.0, 'images': 40, 'clients': 8}
    table = table_of(make_run('one', level=0.7, **options), make_run('two', level=0.6, **options))
    assert {cell.value for cell in column(table, 'spread')} == {0}
    assert texts(table, 'spread vs one')[1] == 'no spread beyond test noise'


def test_the_global_model_stands_beside_personal_ones_with_intervals(make_run):
    options = {'seeds': 3, 'clients': 8}
    table = table_of(make_run('fedavg', images=40, **options), make_run('ditto', personal=True, **options))
    shared, own = column(table, 'global model AVG')
    assert shared == column(table, 'AVG')[0]._replace(dot=False)  # the headline of fedavg is its global model
    (run,) = [run for run in table.found.runs if run.label == 'ditto']
    assert own.value == pytest.approx(100 * run.result('global')['avg']['mean']) and own.seed_sd is not None
    assert {'global model spread', 'global model worst'} <= {one.name for one in table.columns}


def test_identical_predictions_are_named(make_run):
    options = {'images': 20, 'clients': 4, 'level': 0.7}
    paths = [make_run('fedavg', directory='one', **options), make_run('fedavg', directory='two', **options)]
    table = table_of(*paths)
    assert texts(table, 'AVG vs fedavg (one)')[1] == '0.0 [0.0, 0.0] identical predictions'
    assert '- fedavg (two): identical predictions to fedavg (one)' in report.to_markdown(table)


def test_one_seed_gives_no_verdict_on_recipes(make_run):
    paths = [make_run(name, seeds=1, images=30, clients=4, level=level) for name, level in (('a', 0.9), ('b', 0.5))]
    table = table_of(*paths)
    assert texts(table, 'AVG vs a')[1].endswith('] undecided (one seed)')
    assert not any(cell.dot for row in table.rows for cell in row.cells)
    text = report.to_markdown(table)
    assert 'for these two models; one seed says nothing about the methods' in text and 'these models; 1 seed' in text


def test_a_run_without_predictions_says_so(three, make_run):
    old = make_run('old', clients=8, seeds=5)
    table = table_of(*three, old)
    assert texts(table, 'AVG vs base')[3] == 'undecided (no predictions)'
    assert texts(table, 'AVG vs base')[1].endswith(' worse')
    assert 'seed sd' in texts(table, 'AVG')[3] and 'old: undecided (no predictions)' in report.to_markdown(table)


def test_a_baseline_without_predictions_leaves_everything_undecided(three, make_run):
    table = table_of(make_run('old', clients=8, seeds=5), *three)
    assert texts(table, 'AVG vs old')[1:] == ['undecided (no predictions of old)'] * 3
    assert all(cell.lo is not None for cell in column(table, 'AVG')[1:])  # levels stay
    assert 'no intervals and no verdicts: no predictions' in report.to_markdown(table)


@pytest.mark.parametrize(
    'change,reason', [({'tests': 'other'}, 'other test examples'), ({'first_seed': 50}, 'no common seeds')]
)
def test_runs_that_cannot_be_paired_keep_their_levels(make_run, change, reason):
    options = {'images': 20, 'clients': 4}
    table = table_of(make_run('one', **options), make_run('two', **options, **change))
    assert texts(table, 'AVG vs one')[1] == f'undecided ({reason})'
    assert column(table, 'AVG')[1].lo is not None


def test_one_test_site_has_no_spread(make_run):
    paths = [make_run(name, groups=('only',), clients=1, images=10) for name in ('one', 'two')]
    table = table_of(*paths)
    assert [c.name for c in table.columns if c.primary] == ['AVG', 'AVG vs one']
    assert 'spread' not in {row['statistic'] for row in read_csv(table)}
    assert 'one test site, only: nothing can be said about the spread between sites' in report.to_markdown(table)


def test_runs_of_other_seeds_are_one_run(make_run):
    options = {'images': 20, 'clients': 4}
    parts = [make_run('one', directory=f'one{k}', first_seed=3 * k, **options) for k in range(2)]
    whole, other = make_run('one', directory='whole', seeds=6, **options), make_run('two', seeds=6, **options)
    joined, plain = table_of(*parts, other), table_of(whole, other)
    assert [row.label for row in joined.rows] == ['one', 'two']
    assert joined.found.comparison.seeds == tuple(range(6))
    np.testing.assert_allclose(column(joined, 'AVG')[0][:3], column(plain, 'AVG')[0][:3])


# --- without predictions ---------------------------------------------------------------------------------------------


def test_old_runs_show_means_and_deviations_over_seeds(make_run):
    path = make_run('fedavg', seeds=3)
    rows = {row['statistic']: row for row in read_csv(table_of(path))}
    group, _ = final_accuracies(path)
    expected = {
        'avg': group.mean(1),
        'spread': group.std(1, ddof=1),
        'worst': group.min(1),
        'site:cartoon': group[:, 2],
        'loss': (1.5 - group / 100).mean(1),
    }
    for name, values in expected.items():
        field = 'raw' if name == 'spread' else 'estimate'
        assert float(rows[name][field]) == pytest.approx(values.mean(), rel=1e-5)
        assert float(rows[name]['seed_sd']) == pytest.approx(values.std(ddof=1), rel=1e-4)
        assert rows[name]['lo'] == rows[name]['verdict'] == ''
    costs = {
        'steps/round': 40, 'examples/round': 640, 'gradients/round': 80, 'kB down/round': 150, 'kB up/round': 100.5,
        's/round': 0.125, 'load/core': 1.5,
    }  # fmt: skip
    assert {name: float(row['estimate']) for name, row in rows.items() if row['kind'] == 'cost'} == costs


def test_old_runs_without_groups_are_about_clients(make_run):
    path = make_run('fedavg', groups=(), clients=30, seeds=1)
    rows = {row['statistic']: row for row in read_csv(table_of(path))}
    _, client = final_accuracies(path)
    assert float(rows['avg']['estimate']) == pytest.approx(client.mean(), rel=1e-5)
    assert float(rows['spread']['raw']) == pytest.approx(client.std(ddof=1), rel=1e-5)
    assert rows['avg']['seed_sd'] == ''


def test_numbers_are_of_the_models_that_clients_would_use(make_run):
    table = table_of(make_run('fedavg'), make_run('ditto', personal=True))
    (plain, personal), levels = column(table, 'global model AVG'), column(table, 'AVG')
    assert levels[0].value == plain.value
    assert levels[1].value == pytest.approx(personal.value + 5, abs=1e-3)
    assert (
        'fedavg: numbers of the global model; ditto: numbers of the models that clients would use' in table.found.notes
    )

    same = make_run('same')
    record = json.loads((same / 'summary.json').read_text())
    (same / 'summary.json').write_text(json.dumps(record | {'deployed': record['global']}))
    assert 'global model AVG' not in [one.name for one in table_of(same).columns]


def test_a_table_says_which_rounds_are_averaged(make_run):
    assert 'means of rounds 30, 35, 40, 45, 50' in report.to_markdown(table_of(make_run('fedavg')))


def test_data_seeds_are_what_intervals_are_over(make_run, tmp_path):
    for recipe, level in (('one', 0.9), ('two', 0.5), ('other', 0.9)):
        for seed in range(3) if recipe != 'other' else (7, 8):
            options = {'images': 30, 'clients': 4, 'seeds': 2, 'config_changes': {'data_seed': seed}}
            make_run(recipe, directory=f'{recipe}/data_seed={seed}', level=level - 0.01 * seed, **options)
    table = table_of(*(tmp_path / name for name in ('one', 'two', 'other')))
    assert table.found.comparison.seeds == (0, 1, 2) and texts(table, 'AVG vs one')[1].endswith(' worse')
    assert texts(table, 'AVG vs one')[2] == 'undecided (no common data seeds)'
    assert 'each of 3 data seeds counts as one seed: the mean over its 2 seeds' in report.to_markdown(table)
    values = table.found.comparison.analysis.outcomes['avg'].values
    alone = report.load_runs([tmp_path / 'one' / 'data_seed=1'])
    assert values[0, 1] == pytest.approx(compare_runs(alone).analysis.outcomes['avg'].values.mean())


def test_time_is_told_only_with_the_load(make_run):
    table = table_of(make_run(summary_changes={'load_per_core': None}))
    assert not {'s/round', 'load/core'} & {one.name for one in table.columns}


def test_many_groups_have_no_columns_of_their_own(make_run):
    names = tuple(f'site{i}' for i in range(9))
    table = table_of(make_run(groups=names, clients=18, gap=0.01))
    assert not {one.name for one in table.columns} & set(names)
    assert 'spread' in {one.name for one in table.columns}


def test_missing_costs_have_no_column(make_run):
    table = table_of(make_run(summary_changes={'bytes_per_round': None, 'rounds_per_second': None}))
    assert not {'kB up/round', 's/round'} & {one.name for one in table.columns}
