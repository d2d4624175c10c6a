"""The table of a sweep: one point is chosen, and never by its test scores."""

import json
import re

from tables import check_latex, read_csv

from fedjax_fair import report
from fedjax_fair.report import pictures


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
    assert lines[3].startswith('| fedprox (high) (chosen) | 90.0 | ') and '–' not in lines[3]
    assert lines[2].endswith('| 40 | 640 | 80 | 150.0 | 100.5 | 1.50 | 0.125 |')  # costs are no test scores
    rows = [row for row in read_csv(table) if row['statistic'] == 'avg']
    assert [row['chosen'] for row in rows] == ['false', 'true', 'false'] and all(row['estimate'] for row in rows)
    assert not [row for row in read_csv(table) if row['verdict'] or row['in_best_set']]
    tex = report.to_latex(table)
    check_latex(tex)
    assert tex.count('_{') == 7  # AVG, spread, worst and four groups of the chosen one


def over_fitted(path, scale):
    """Test losses that rise in a run that scores no more than chance: remarks would tell both."""
    lines = [json.loads(text) for text in (path / 'metrics.jsonl').read_text().splitlines()]
    for line in lines:
        line['train_loss'], line['global']['loss'] = 1 / line['round'], scale * line['round']
    (path / 'metrics.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    return path


def test_remarks_give_no_test_number_of_a_point_that_validation_did_not_choose(make_run, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, 'drawn', lambda found: iter(()))
    chance = {'chance': {'global': 0.95, 'own': 0.95}}
    paths = []
    for name, score, level in (('low', 0.7, 0.6), ('high', 0.9, 0.8)):
        changes = chance | {'validation': {'mean': score, 'std': 0}}
        paths.append(over_fitted(make_run('fedprox', directory=name, level=level, summary_changes=changes), level))
    table = report.make_table(report.load_runs(paths), swept=True)
    told = report.remarks_on(table.found)
    (low,) = [line for line in told if line.startswith('fedprox (low) did not learn')]
    assert low.endswith('did not learn: AVG is not above always answering the most frequent class (95.0 %)')
    (low,) = [line for line in told if line.startswith('fedprox (low) over-fits')]
    assert low.endswith('over-fits: the test loss rose after round 30, while the train loss is 0.02')
    shown = report.remarks_of(table.found.runs)  # as a comparison tells them
    hidden = [number for line in shown if '(low)' in line for number in re.findall(r'AVG [\d.]+|to [\d.]+', line)]
    report.draw_report([table], tmp_path / 'out')
    texts = [(tmp_path / 'out' / name).read_text() for name in ('report.html', 'table.md', 'table.tex')]
    assert len(hidden) == 2 and 'fedprox (high) did not learn: AVG 6' in '\n'.join(told)
    tested = [line for text in ('\n'.join(told), *texts) for line in text.splitlines() if '(low)' in line]
    assert tested and not [line for line in tested for number in hidden if number in line]


def test_a_sweep_without_validation_data_says_what_choosing_would_be(make_run):
    table = report.make_table(report.load_runs([make_run('a', level=0.9), make_run('b', level=0.7)]), swept=True)
    text = report.to_markdown(table)
    assert 'choosing a setting by them is selection on test data; use --validation=0.2' in text
    assert '•' not in text and '(chosen)' not in text
