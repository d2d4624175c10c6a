"""The table of results: every number is one of the comparison, in every dress."""

import csv
import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from fedjax_fair import report
from fedjax_fair.errors import UserError
from fedjax_fair.report.table import cell_text
from fedjax_fair.results.comparison import compare_runs


@pytest.fixture
def three(make_run):
    """A fair recipe, one that is worse, and one that cannot be told from the first."""
    options = {'seeds': 5, 'images': 40, 'clients': 8}
    return [
        make_run('base', level=0.9, gap=0.1, **options),
        make_run('worse', level=0.6, gap=0.1, **options),
        make_run('same', level=0.9, gap=0.1, **options),
    ]


def table_of(*paths, **options):
    return report.make_table(report.load_runs(paths), **options)


def column(table, name):
    place = [one.name for one in table.columns].index(name)
    return [row.cells[place] for row in table.rows]


def texts(table, name):
    place = [one.name for one in table.columns].index(name)
    return [cell_text(table.columns[place], row.cells[place]) for row in table.rows]


def read_csv(table):
    return list(csv.DictReader(io.StringIO(report.to_csv(table))))


def shown(table, width=200):
    console = Console(width=width, file=io.StringIO())
    console.print(report.to_rich(table, width))
    return console.file.getvalue()


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


def test_identical_predictions_are_named(make_run):
    options = {'images': 20, 'clients': 4, 'level': 0.7}
    paths = [make_run('fedavg', directory='one', **options), make_run('fedavg', directory='two', **options)]
    table = table_of(*paths)
    assert texts(table, 'AVG vs fedavg (mlp) (one)')[1] == '0.0 [0.0, 0.0] identical predictions'
    assert '- fedavg (mlp) (two): identical predictions to fedavg (mlp) (one)' in report.to_markdown(table)


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


def test_a_sweep_shows_the_test_scores_of_the_point_that_validation_chooses(make_run):
    scores = {'low': 0.7, 'high': 0.9, 'middle': 0.8}
    paths = [
        make_run('fedprox', directory=name, images=10, summary_changes={'validation': {'mean': score, 'std': 0.01}})
        for name, score in scores.items()
    ]
    table = report.make_table(report.load_runs(paths), swept=True)
    lines = report.to_markdown(table).splitlines()
    assert lines[0].startswith('| recipe | validation ↑ | AVG ↑ |') and ' vs ' not in lines[0]
    assert '| 70.0 | – | – |' in lines[2]
    assert lines[3].startswith('| fedprox (mlp) (high) (chosen) | 90.0 | ') and '–' not in lines[3]
    assert lines[2].endswith('| 40 | 640 | 80 | 150.0 | 100.5 | 1.50 | 0.125 |')  # costs are no test scores
    rows = [row for row in read_csv(table) if row['statistic'] == 'avg']
    assert [row['chosen'] for row in rows] == ['false', 'true', 'false'] and all(row['estimate'] for row in rows)
    assert not [row for row in read_csv(table) if row['verdict'] or row['in_best_set']]
    tex = report.to_latex(table)
    check_latex(tex)
    assert tex.count('_{') == 6  # AVG, spread and four groups of the chosen one


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


def test_a_sweep_without_validation_data_says_what_choosing_would_be(make_run):
    table = report.make_table(report.load_runs([make_run('a', level=0.9), make_run('b', level=0.7)]), swept=True)
    text = report.to_markdown(table)
    assert 'choosing a setting by them is selection on test data; use --validation=0.2' in text
    assert '•' not in text and '(chosen)' not in text


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


# --- dresses ---------------------------------------------------------------------------------------------------------


def test_every_scenario_has_a_table(make_run):
    paths = [make_run(name, scenario=scenario) for scenario in ('easy', 'hard') for name in ('a', 'b')]
    tables = report.make_tables(report.load_runs(paths))
    assert [(one.scenario, [row.label for row in one.rows]) for one in tables] == [
        ('easy', ['a', 'b']),
        ('hard', ['a', 'b']),
    ]
    text = report.to_markdown(*tables)
    assert text.index('## easy') < text.index('## hard')
    scenarios = [row['scenario'] for row in csv.DictReader(io.StringIO(report.to_csv(*tables)))]
    assert set(scenarios) == {'easy', 'hard'} and scenarios == sorted(scenarios)


def test_csv_has_a_row_per_recipe_and_statistic(three):
    rows = read_csv(table_of(*three))
    keys = [(row['recipe'], row['statistic'], row['kind']) for row in rows]
    assert len(set(keys)) == len(keys)
    difference = next(row for row in rows if row['kind'] == 'difference' and row['recipe'] == 'worse')
    assert difference['baseline'] == 'base' and difference['statistic'] == 'avg' and difference['verdict'] == 'worse'
    assert float(difference['lo']) < float(difference['lo90']) < float(difference['estimate']) < 0
    assert float(difference['p']) <= float(difference['p_holm']) <= 0.05
    assert all(float(difference[name]) > 0 for name in ('a', 'df_a', 'kappa', 'df_kappa'))
    assert (difference['seeds'], difference['patients'], difference['margin']) == ('5', '160', '1')


def test_json_has_its_documented_form(three):
    record = json.loads(report.to_json(table_of(*three)))
    assert set(record) == {'version', 'unit', 'scenarios'} and record['version'] == 1
    (scenario,) = record['scenarios']
    assert set(scenario) == {
        'scenario', 'score', 'over', 'baseline', 'margin', 'seeds', 'patients', 'patients_known', 'chosen',
        'notes', 'recipes',
    }  # fmt: skip
    first, second, _ = scenario['recipes']
    assert set(first) == {'recipe', 'folders', 'undecided', 'words', 'statistics'}
    assert first['words'] is None and second['words'].startswith('worse: AVG -')
    avg = second['statistics']['avg']
    assert set(avg) == {'primary', 'higher_is_better', 'in_best_set', 'patients', 'level', 'difference'}
    assert avg['difference']['verdict'] == 'worse' and avg['in_best_set'] is False
    assert first['statistics']['avg']['difference'] is None
    assert {'estimate', 'lo', 'hi', 'a', 'kappa', 'df_a', 'df_kappa', 'seed_sd'} <= set(avg['level'])


def test_latex_is_whole_and_has_a_cell_per_column(three):
    text = report.to_latex(table_of(*three))
    check_latex(text)
    assert re.search(r'\\underline\{\$\d\d\.\d_\{\d\d\.\d\}\^\{\d\d\.\d\}\$\}', text)
    assert '5 seeds, 160 patients; Holm over 2 comparisons with base; margin 1 point' in text
    assert '95 \\% intervals' in text and '\\textbf' not in text


def test_names_cannot_break_the_formats(make_run):
    name = 'a|b,"c" [red]x[/red] 50%_$&#{}~^\\'
    table = table_of(make_run(name, directory='odd', seeds=2, images=10, clients=4), make_run('plain'))
    lines = report.to_markdown(table).splitlines()
    bars = re.compile(r'(?<!\\)\|')
    assert len({len(bars.findall(line)) for line in lines[:4]}) == 1
    assert read_csv(table)[0]['recipe'] == name
    assert '[red]x[/red]' in shown(table).replace('\n', '')
    text = report.to_latex(table)
    check_latex(text)
    assert '50\\%\\_\\$\\&\\#\\{\\}\\textasciitilde{}\\textasciicircum{}\\textbackslash{}' in text


def check_latex(text):
    """Braces and environments close in order, dollars pair up, and all rows have as many cells as columns."""
    bare = re.sub(r'\\[\\{}$&%#_]', lambda found: '\n' if found[0] == '\\\\' else '', re.sub(r'(?m)^%.*$', '', text))
    assert '%' not in bare and '#' not in bare
    depth = 0
    for char in bare:
        depth += (char == '{') - (char == '}')
        assert depth >= 0
    assert depth == 0 and bare.count('$') % 2 == 0
    environments = []
    for what, name in re.findall(r'\\(begin|end)\{(\w+)\}', bare):
        assert what == 'begin' or environments.pop() == name
        if what == 'begin':
            environments.append(name)
    assert not environments
    columns = re.search(r'\\begin\{tabular\}\{(\w+)\}', bare)[1]
    body = bare.split('\\toprule')[1].split('\\bottomrule')[0].replace('\\midrule', '')
    rows = [row for row in body.split('\n') if '&' in row]
    assert rows and {row.count('&') + 1 for row in rows} == {len(columns)}


def test_terminal_table_shows_every_number(three):
    table = table_of(*three)
    text = shown(table)
    assert 'digits' in text and 'exploratory' in text
    for row in table.rows:
        assert row.label in text
        assert f'{row.cells[0].value:.1f}' in text and f'[{row.cells[0].lo:.1f}, {row.cells[0].hi:.1f}]' in text
    assert 'worse: AVG -' in text and 'margin 1 point.' in text


@pytest.mark.parametrize('width', [80, 100])
def test_terminal_table_has_room_for_all_verdicts(three, width):
    lines = shown(table_of(*three), width).splitlines()
    assert max(map(len, lines)) <= width
    before = '\n'.join(lines).split('exploratory')[0]
    assert 'no room for' not in before and before.count('vs base') >= 2 and '…' not in before


def test_narrow_terminals_leave_columns_out_and_name_them(three):
    text = shown(table_of(*three), 50)
    assert max(map(len, text.splitlines())) <= 50
    assert 'no room for' in text and 's/round' in text and '…' not in text
