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
    assert (float(row['kB down/round']), float(row['kB up/round'])) == (150, 100.5)
    assert [float(row[f'{name}/round']) for name in ('steps', 'examples', 'gradients')] == [40, 640, 80]
    assert (float(row['s/round']), float(row['load/core'])) == (0.125, 1.5)
    assert (row['model'], row['rounds']) == ('global', '30 35 40 45 50')
    assert 'global model AVG' not in row
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
    head, rule, first, second, _, note = report.to_markdown(table).splitlines()
    assert head.startswith('| recipe | AVG ↑ | STD ↓ | worst ↑ | photo ↑ |')
    assert rule.count('---:') == len(table.columns)
    group, _ = final_accuracies(good)
    assert first.startswith(f'| fair | **{group.mean():.2f} ± {group.mean(1).std():.2f}** | **')
    assert '**' not in second
    assert second.endswith('| 100.5 | 0.125 | 1.50 |')  # equal for all: nothing to mark
    assert note == 'means of rounds 30, 35, 40, 45, 50'


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


def test_numbers_are_of_the_models_that_clients_would_use(make_run):
    table = table_of(make_run('fedavg'), make_run('ditto', personal=True))
    plain, personal = read_csv(table)
    assert (plain['model'], personal['model']) == ('global', 'deployed')
    assert plain['AVG'] == plain['global model AVG']
    assert float(personal['AVG']) == pytest.approx(float(personal['global model AVG']) + 5, abs=1e-3)
    assert float(personal['photo']) > float(plain['photo']) + 4
    assert 'fedavg: numbers of the global model; ditto: numbers of the models that clients would use' in table.notes

    same = make_run('same')
    record = json.loads((same / 'summary.json').read_text())
    (same / 'summary.json').write_text(json.dumps(record | {'deployed': record['global']}))
    assert 'global model AVG' not in read_csv(table_of(same))[0]


def test_a_sweep_shows_the_test_scores_of_the_point_that_validation_chooses(make_run):
    scores = {'low': 0.7, 'high': 0.9, 'middle': 0.8}
    paths = [
        make_run('fedprox', directory=name, summary_changes={'validation': {'mean': score, 'std': 0.01}})
        for name, score in scores.items()
    ]
    table = report.make_table(report.load_runs(paths), swept=True)
    lines = report.to_markdown(table).splitlines()
    assert lines[0].startswith('| recipe | validation ↑ | AVG ↑ |') and '**' not in ''.join(lines)
    assert '| 70.00 ± 1.00 | – | – |' in lines[2]
    assert lines[3].startswith('| fedprox (mlp) (high) (chosen) | 90.00 ± 1.00 | ') and '–' not in lines[3]
    assert lines[2].endswith('| 150.0 | 100.5 | 0.125 | 1.50 |')  # costs are no test scores
    rows = read_csv(table)
    assert [row['chosen'] for row in rows] == ['no', 'yes', 'no'] and all(row['AVG'] for row in rows)
    assert rows[1]['recipe'] == 'fedprox (mlp) (high)'


def test_a_sweep_without_validation_data_says_what_choosing_would_be(make_run):
    paths = [make_run('a', level=0.9), make_run('b', level=0.7)]
    table = report.make_table(report.load_runs(paths), swept=True)
    text = report.to_markdown(table)
    assert 'choosing a setting by them is selection on test data; use --validation=0.2' in text
    assert '**' not in text and '(chosen)' not in text and '–' not in text
    assert {row['chosen'] for row in read_csv(table)} == {''}


def test_time_is_told_only_with_the_load(make_run):
    (row,) = read_csv(table_of(make_run(summary_changes={'load_per_core': None})))
    assert not {'s/round', 'load/core'} & row.keys()


def test_tables_name_the_rounds_of_every_run_where_they_differ(make_run):
    changes = [{'rounds_reported': rounds} for rounds in ([[40, 50]] * 3, [[20], [30], [20]])]
    runs = report.load_runs([make_run(name, summary_changes=own) for name, own in zip('ab', changes, strict=True)])
    note = report.make_table(runs).notes[0]
    assert note == 'a: means of rounds 40, 50; b: rounds 20, 30, 20 of the seeds in order'


def test_segmentations_show_both_dice(make_run):
    def as_segmentation(record):
        """Of an older version, whose score is the Dice with background."""
        for name in ('accuracy', 'client_accuracy', 'group_accuracy'):
            record['global'][name.replace('accuracy', 'dice')] = record['global'].pop(name)
        record['global']['dice_foreground'] = {'mean': 0.5, 'std': 0.0}
        return record | {'score': 'dice'}

    path = make_run(seeds=1)
    summary = as_segmentation(json.loads((path / 'summary.json').read_text()))
    (path / 'summary.json').write_text(json.dumps(summary))
    table = table_of(path)
    assert table.columns[0].about == 'mean Dice with background over groups, %'
    (row,) = read_csv(table)
    assert row['foreground Dice'] == '50' and float(row['AVG']) == pytest.approx(
        100 * summary['global']['avg']['mean'], rel=1e-4
    )


def test_many_groups_have_no_columns_of_their_own(make_run):
    names = tuple(f'site{i}' for i in range(9))
    (row,) = read_csv(table_of(make_run(groups=names, clients=18, gap=0.01)))
    assert not row.keys() & set(names)
    assert 'STD' in row


def test_undefined_numbers_and_missing_costs(make_run):
    path = make_run(groups=('only',), summary_changes={'bytes_per_round': None, 'rounds_per_second': None})
    (row,) = read_csv(table_of(path))
    assert 'STD' not in row  # one group has no sample deviation, so the column has nothing to show
    assert not {'kB down/round', 'kB up/round', 's/round'} & row.keys()


def test_names_cannot_break_the_formats(make_run):
    table = table_of(make_run('a|b,"c" [red]x[/red]', seeds=1))
    assert len(report.to_markdown(table).splitlines()) == 5
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
