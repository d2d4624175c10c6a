"""Tables and verdicts about another score than the one that runs recorded."""

import dataclasses
import json

import numpy as np
import pytest
from tables import check_latex, read_csv, table_of

import fedjax_fair
from fedjax_fair import report
from fedjax_fair.errors import UserError
from fedjax_fair.results import predictions
from fedjax_fair.results.comparison import compare_runs
from fedjax_fair.results.prediction_file import write_predictions

OPTIONS = {'seeds': 3, 'images': 40, 'clients': 8}


@pytest.fixture
def pair(make_run):
    """Two runs whose first class is rare, and rarely recognised."""
    paths = [make_run(name, level=level, **OPTIONS) for name, level in (('one', 0.9), ('two', 0.7))]
    for path in paths:
        got = predictions(path)
        rng = np.random.default_rng(0)
        label = np.where(rng.random(len(got.label)) < 0.15, 0, got.label % 2 + 1).astype(np.int32)
        right = (got.prediction == got.label) & ((label > 0) | (rng.random(len(label)) < 0.3))
        wrong = np.where(label == 2, 1, label + 1)
        write_predictions(
            path, dataclasses.replace(got, label=label, prediction=np.where(right, label, wrong).astype(np.uint8))
        )
    return paths


def test_every_format_is_about_the_metric(pair, tmp_path):
    table, plain = table_of(*pair, metric='balanced_accuracy'), table_of(*pair)
    outcome = compare_runs(report.load_runs(pair), metric='balanced_accuracy').analysis.outcomes['avg']
    cell = table.rows[0].cells[0]
    np.testing.assert_allclose(cell.value, 100 * outcome.level.estimate[0])
    assert cell.value < plain.rows[0].cells[0].value - 5
    for text in (report.to_markdown(table), report.to_latex(table)):
        assert 'numbers are of balanced accuracy' in text
    check_latex(report.to_latex(table))
    assert 'digits: balanced accuracy.' in report.to_latex(table) and 'digits: accuracy.' in report.to_latex(plain)
    (scenario,) = json.loads(report.to_json(table))['scenarios']
    assert scenario['score'] == 'balanced_accuracy'
    level = scenario['recipes'][0]['statistics']['avg']['level']
    assert level['estimate'] == pytest.approx(cell.value)
    assert {row['score'] for row in read_csv(table) if row['kind'] == 'difference'} == {'balanced_accuracy'}
    page = report.write_report(pair, tmp_path / 'out', metric='balanced_accuracy').read_text()
    assert 'mean balanced accuracy over groups' in page and 'Mean and raw worst balanced accuracy' in page
    assert 'Accuracy over rounds' in page  # curves are what the runs recorded


def test_the_score_of_the_runs_may_be_named(pair):
    named, plain = table_of(*pair, metric='accuracy'), table_of(*pair)
    assert report.to_csv(named) == report.to_csv(plain) and named.found.metric is None


def test_a_verdict_is_about_the_metric(pair):
    found = fedjax_fair.verdict(*pair, metric='balanced_accuracy')
    assert 'Numbers are of balanced accuracy' in found.text
    assert found.avg.estimate != fedjax_fair.verdict(*pair).avg.estimate
    assert json.loads(found.to_json())['score'] == 'balanced_accuracy'


def test_clients_are_drawn_by_the_metric(pair):
    found = table_of(*pair, metric='balanced_accuracy').found
    figure = report.client_distribution(found.runs, found=found)
    (ax,) = figure.axes
    assert ax.get_xlabel() == 'client balanced accuracy (%)'
    dots = np.concatenate([one.get_offsets()[:, 0] for one in ax.collections if len(one.get_offsets()) == 8])
    scores = found.comparison.clients.sample.scores.mean(1)
    np.testing.assert_allclose(dots, 100 * scores.ravel())


def test_a_metric_that_was_not_kept_is_refused_with_the_choices(pair, make_run):
    with pytest.raises(UserError, match='metric=auc is not one of accuracy, balanced_accuracy'):
        table_of(*pair, metric='auc')
    with pytest.raises(UserError, match='needs what every test example got, and no run kept it'):
        table_of(make_run('old'), metric='balanced_accuracy')


def test_runs_that_all_diverged_are_shown(pair):
    """They have no numbers of any score; that none was kept is not the reason."""
    for path in pair:
        record = json.loads((path / 'summary.json').read_text())
        record['global']['loss'] = {'mean': None, 'std': None}
        (path / 'summary.json').write_text(json.dumps(record))
    table = table_of(*pair, metric='balanced_accuracy')
    assert report.to_markdown(table).count('diverged') >= 2 and table.found.reasons == ('diverged', 'diverged')
    assert all(row.cells[0].value is None for row in table.rows)


def test_a_run_without_predictions_has_no_numbers_of_another_metric(pair, make_run):
    table = table_of(*pair, make_run('old', seeds=3, clients=8), metric='balanced_accuracy')
    assert table.rows[2].cells[0].value is None and 'old: undecided (no predictions)' in report.to_markdown(table)


def test_runs_judged_by_different_scores_can_be_compared_by_one(pair):
    got = predictions(pair[1])
    write_predictions(pair[1], dataclasses.replace(got, metric='balanced_accuracy'))
    assert table_of(*pair).found.reasons[1] == 'other test examples'
    found = table_of(*pair, metric='balanced_accuracy').found
    assert found.reasons == ('', '') and found.measures['avg'].differences[1] is not None


def test_a_frontier_is_about_the_metric(pair, tmp_path, make_run):
    folder = tmp_path / 'all'
    for q, path in zip((0, 5), pair, strict=True):
        place = folder / 'frontier' / 'qfedavg.q' / f'qfedavg.q={q}'
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
    text = report.frontier_text(folder, metric='balanced_accuracy')
    assert 'score: balanced accuracy' in text and text != report.frontier_text(folder)
