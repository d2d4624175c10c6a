"""The table of results as CSV, JSON, LaTeX, Markdown and in a terminal."""

import csv
import io
import json
import re

import pytest
from rich.console import Console
from tables import check_latex, read_csv, table_of

import fedjax_fair
from fedjax_fair import report
from fedjax_fair.escaping import as_latex


def shown(table, width=200):
    console = Console(width=width, file=io.StringIO())
    console.print(report.to_rich(table, width))
    return console.file.getvalue()


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


@pytest.mark.parametrize('lanes', [range(3), [1]])
@pytest.mark.parametrize('baseline', ['fedavg', 'dead'])
def test_scores_of_zero_leave_no_number_that_files_cannot_hold(make_run, make_dead_run, lanes, baseline):
    """Jain's index of a model that is right about nothing is 0/0."""
    options = {'seeds': 3, 'images': 20, 'clients': 8}
    dead = make_dead_run('dead', lanes, **options)
    paths = [make_run('fedavg', **options), dead, make_run('afl', **options)]
    table = table_of(*paths, baseline=baseline)
    jain = [one['statistics']['jain'] for one in json.loads(report.to_json(table))['scenarios'][0]['recipes']]
    assert jain[1]['level']['estimate'] is None and jain[1]['in_best_set'] is None and jain[1]['difference'] is None
    assert (jain[2]['difference'] is None) == (baseline == 'dead') and jain[0]['level']['estimate'] > 0
    assert not [value for row in read_csv(table) for value in row.values() if value == 'nan']
    one = json.loads(fedjax_fair.verdict(dead, paths[0]).to_json())['recipes'][0]['statistics']
    assert one['jain']['difference'] is None and one['avg']['difference']['estimate'] < 0


def test_latex_is_whole_and_has_a_cell_per_column(three):
    text = report.to_latex(table_of(*three))
    check_latex(text)
    assert re.search(r'\\underline\{\$\d\d\.\d_\{\d\d\.\d\}\^\{\d\d\.\d\}\$\}', text)
    assert '5 seeds, 160 patients; Holm over 2 comparisons with base; margin 1 point' in text
    assert '95 \\% intervals' in text and '\\textbf' not in text


def test_latex_says_what_the_table_is_of(three):
    table = table_of(*three, three[0])
    text = report.to_latex(table)
    told = [*report.head_of(table.found.runs), *table.found.notes, *report.remarks_of(table.found.runs)]
    assert 'means of rounds 30, 35, 40, 45, 50' in text and 'network mlp; 50 rounds; 5 seeds: 0, 1, 2, 3, 4' in text
    assert any('identical to' in line for line in told) and all(as_latex(line) in text for line in told)


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


def test_latex_of_many_sites_fits_a_page(make_run):
    options = {'seeds': 3, 'images': 20, 'clients': 8, 'groups': tuple('abcdefgh')}
    text = report.to_latex(table_of(make_run('one', **options), make_run('two', level=0.5, **options)))
    check_latex(text)
    widths = [len(columns) - 1 for columns in re.findall(r'\\begin\{tabular\}\{(\w+)\}', text)]
    assert widths == [3, 2, 8] and text.count('\\caption') == 1


def test_latex_of_sites_with_long_names_fits_a_page_in_parts(make_run):
    names = tuple(
        f'University Hospital {one}' for one in ('Tuebingen', 'Heidelberg', 'Freiburg', 'Ulm', 'Mainz', 'Bonn')
    )
    options = {'seeds': 3, 'images': 20, 'clients': 6, 'groups': names}
    runs = [make_run(f'recipe{number}', level=0.9 - 0.1 * number, **options) for number in range(7)]
    text = report.to_latex(table_of(*runs))
    check_latex(text)
    assert r'\shortstack[r]{University \\ Hospital \\ Tuebingen $\uparrow$}' in text
    widths = [len(columns) - 1 for columns in re.findall(r'\\begin\{tabular\}\{(\w+)\}', text)]
    assert widths == [3, 2, 3, 3]
    first, second = text.split(r'\end{table}')[:2]
    assert first.count('tabular') == second.count('tabular') == 4 and r'table \ref{tab:digits}' in second


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
