"""The table of results against hand computation, in its three dresses."""

import csv
import io
import json

import numpy as np
import pytest
from rich.console import Console

from fedjax_fair import report


def table_of(*paths):
    return report.make_table(report.load_runs(paths))


def read_csv(table):
    return list(csv.DictReader(io.StringIO(report.to_csv(table))))


def final_accuracies(path):
    """Group accuracies ``[S, G]`` and client accuracies ``[S, N]`` of the last evaluation, read from the file."""
    lines = [json.loads(text) for text in (path / 'metrics.jsonl').read_text().splitlines()]
    last = [line['global'] for line in lines if line['round'] == max(line['round'] for line in lines)]
    return tuple(
        np.array([100 * np.array(line[key]) for line in last]) for key in ('group_accuracy', 'client_accuracy')
    )


def test_csv_holds_the_numbers_computed_by_hand(make_run):
    path = make_run('fedavg', seeds=3)
    (row,) = read_csv(table_of(path))
    group, client = final_accuracies(path)
    expected = {
        'AVG': group.mean(1),
        'STD': group.std(1, ddof=1),
        'worst': group.min(1),
        'cartoon': group[:, 2],
        'client std': client.std(1),
        'worst 10 %': np.sort(client, 1)[:, :2].mean(1),
        'loss': (1.5 - group / 100).mean(1),
    }
    assert row['recipe'] == 'fedavg'
    for name, values in expected.items():
        assert float(row[name]) == pytest.approx(values.mean(), rel=1e-5)
        assert float(row[f'{name} seed std']) == pytest.approx(values.std(), rel=1e-4)
    assert float(row['kB/round']) == 250.5
    assert float(row['s/round']) == 0.125
    assert 'deployed AVG' not in row
    assert 'scenario' not in row


def test_without_groups_numbers_are_over_clients(make_run):
    path = make_run('fedavg', groups=(), clients=30, seeds=1)
    (row,) = read_csv(table_of(path))
    _, client = final_accuracies(path)
    assert float(row['AVG']) == pytest.approx(client.mean(), rel=1e-5)
    assert float(row['STD']) == float(row['client std']) == pytest.approx(client.std(), rel=1e-5)
    assert float(row['worst 10 %']) == pytest.approx(np.sort(client[0])[:3].mean(), rel=1e-5)
    assert row['AVG seed std'] == ''


def test_markdown_shows_percent_and_marks_the_best(make_run):
    good, poor = make_run('fair', level=0.9, gap=0.02), make_run('poor', level=0.7, gap=0.1)
    table = table_of(good, poor)
    head, rule, first, second = report.to_markdown(table).splitlines()
    assert head.startswith('| recipe | AVG ↑ | STD ↓ | worst ↑ | photo ↑ |')
    assert rule.count('---:') == len(table.columns)
    group, _ = final_accuracies(good)
    assert first.startswith(f'| fair | **{group.mean():.2f} ± {group.mean(1).std():.2f}** | **')
    assert '**' not in second
    assert second.endswith('| 250.5 | 0.125 |')  # equal for all: nothing to mark


def test_marks_are_within_a_scenario(make_run):
    paths = [
        make_run('a', scenario='easy', level=0.9),
        make_run('c', scenario='hard', level=0.6),
        make_run('b', scenario='easy', level=0.8),
        make_run('d', scenario='hard', level=0.5),
    ]
    table = table_of(*paths)
    assert [(row.scenario, row.label, row.cells[0].best) for row in table.rows] == [
        ('easy', 'a', True),
        ('easy', 'b', False),
        ('hard', 'c', True),
        ('hard', 'd', False),
    ]
    assert [row['scenario'] for row in read_csv(table)] == ['easy', 'easy', 'hard', 'hard']


def test_deployed_models_have_a_column_when_they_differ(make_run):
    table = table_of(make_run('fedavg'), make_run('ditto', personal=True))
    plain, personal = read_csv(table)
    assert plain['deployed AVG'] == ''
    assert float(personal['deployed AVG']) == pytest.approx(float(personal['AVG']) + 5, abs=1e-3)
    assert '| – |' in report.to_markdown(table)

    same = make_run('same')
    record = json.loads((same / 'summary.json').read_text())
    (same / 'summary.json').write_text(json.dumps(record | {'deployed': record['global']}))
    assert 'deployed AVG' not in read_csv(table_of(same))[0]


def test_many_groups_have_no_columns_of_their_own(make_run):
    names = tuple(f'site{i}' for i in range(9))
    (row,) = read_csv(table_of(make_run(groups=names, clients=18, gap=0.01)))
    assert not row.keys() & set(names)
    assert 'STD' in row


def test_undefined_numbers_and_missing_costs(make_run):
    path = make_run(groups=('only',), summary_changes={'bytes_per_round': None, 'rounds_per_second': None})
    (row,) = read_csv(table_of(path))
    assert 'STD' not in row  # one group has no sample deviation, so the column has nothing to show
    assert not {'kB/round', 's/round'} & row.keys()


def test_names_cannot_break_the_formats(make_run):
    table = table_of(make_run('a|b,"c" [red]x[/red]', seeds=1))
    assert len(report.to_markdown(table).splitlines()) == 3
    assert '| a\\|b,"c" [red]x[/red] |' in report.to_markdown(table)
    assert read_csv(table)[0]['recipe'] == 'a|b,"c" [red]x[/red]'
    assert '[red]x[/red]' in shown(report.to_rich(table), 200)


def shown(table, width):
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()


def test_terminal_table_shows_every_number(make_run):
    table = table_of(make_run('fedavg'), make_run('afl', gap=0.05))
    text = shown(report.to_rich(table, 'digits'), 200)
    assert 'digits' in text
    for row in table.rows:
        assert row.label in text
        assert f'{row.cells[0].mean:.2f}' in text
        assert f'± {row.cells[0].std:.2f}' in text


def test_terminal_table_fits_its_width(make_run):
    table = table_of(make_run('fedavg'))
    text = shown(report.to_rich(table, width=60), 60)
    assert max(map(len, text.splitlines())) <= 60
    assert 'no room for' in text
    assert 's/round' in text
    assert f'{table.rows[0].cells[0].mean:.2f}' in text
    assert '…' not in text
