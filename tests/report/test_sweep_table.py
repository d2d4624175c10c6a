"""The table of a sweep: one point is chosen, and never by its test scores."""

from tables import check_latex, read_csv

from fedjax_fair import report


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


def test_a_sweep_without_validation_data_says_what_choosing_would_be(make_run):
    table = report.make_table(report.load_runs([make_run('a', level=0.9), make_run('b', level=0.7)]), swept=True)
    text = report.to_markdown(table)
    assert 'choosing a setting by them is selection on test data; use --validation=0.2' in text
    assert '•' not in text and '(chosen)' not in text
