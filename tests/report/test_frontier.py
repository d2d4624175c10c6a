"""Frontiers: folders become curves, tables and a sentence about what fairness costs."""

import dataclasses

import pytest

from fedjax_fair import report, results
from fedjax_fair.cli import reporting
from fedjax_fair.report import frontier as frontier_words
from fedjax_fair.report.frontier import in_words
from fedjax_fair.results import findings as findings_module
from fedjax_fair.results import frontier
from fedjax_fair.results.comparison import compare_runs
from fedjax_fair.results.findings import findings
from fedjax_fair.results.frontier import cost_of_fairness, interval


@pytest.fixture
def folder(make_run, tmp_path):
    """A comparison of one run, and a frontier over three values: with q the level falls and so does the gap."""
    make_run('fedavg', directory='fedavg')
    for q, level, gap in ((10, 0.64, 0.02), (0, 0.8, 0.1), (1.5, 0.72, 0.06)):
        make_run('qfedavg', directory=f'frontier/qfedavg.q/qfedavg.q={q}', level=level, gap=gap)
    return tmp_path


def test_values_come_in_order_and_stay_out_of_the_table(folder):
    assert list(results.frontiers(folder)['qfedavg.q']) == [0, 1.5, 10]
    assert results.run_folders(folder) == [folder / 'fedavg']
    assert len(results.run_folders(folder / 'frontier' / 'qfedavg.q')) == 3  # seen as a sweep


def test_errors_are_those_of_tables_and_without_predictions_over_seeds(folder, make_run):
    run = results.frontiers(folder)['qfedavg.q'][0]
    entry = run.result()['worst']
    found = interval(run, 'worst')
    assert found.value == 100 * entry['mean']
    assert found.error == pytest.approx(4.302653 * 100 * entry['std'] / 2**0.5)  # t of three seeds
    (kept,) = report.load_runs([make_run('kept', images=20)])
    outcome = compare_runs([kept]).analysis.outcomes['avg']
    assert interval(kept, 'avg')[:2] == pytest.approx((100 * outcome.level.estimate[0], 100 * outcome.level_half[0]))


def test_a_run_is_analysed_once_for_table_words_and_figure(make_run, tmp_path, monkeypatch):
    for q, level, gap in ((0, 0.8, 0.1), (5, 0.64, 0.02)):
        make_run('qfedavg', directory=f'frontier/qfedavg.q/qfedavg.q={q}', level=level, gap=gap, images=100)
    asked = []

    def counted(runs, **how):
        asked.append(len(runs))
        return compare_runs(runs, **how)

    monkeypatch.setattr(frontier, 'compare_runs', counted)
    monkeypatch.setattr(findings_module, 'compare_runs', counted)
    reporting.show([make_run(directory='fedavg', images=100)], tmp_path)
    assert sorted(asked) == [1, 1, 1, 2]  # two values and the gain between them; the run beside them for the table


def test_an_interval_stays_within_what_is_possible():
    found = frontier.Interval(7.0, 9.0)
    assert (found.lo, found.hi) == (0, 16) and frontier.Interval(95.0, 9.0).hi == 100


def test_one_seed_has_no_error(make_run):
    (run,) = report.load_runs([make_run(seeds=1)])
    assert interval(run, 'avg').error is None


def test_own_models_count_where_clients_have_them(make_run):
    (run,) = report.load_runs([make_run('ditto', personal=True)])
    assert interval(run, 'avg').value == 100 * run.result('deployed')['avg']['mean']


def test_the_figure_has_a_curve_with_its_values_and_the_other_runs(folder):
    curves = results.frontiers(folder)
    figure = report.frontier_figure(curves, report.load_runs([folder / 'fedavg']))
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts] == ['fedavg', '0', '1.5', '10']
    curve = next(line for line in ax.lines if len(line.get_xdata()) == 3)
    runs = curves['qfedavg.q'].values()
    assert list(curve.get_xdata()) == [interval(run, 'worst').value for run in runs]
    assert list(curve.get_ydata()) == [interval(run, 'avg').value for run in runs]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ['qfedavg.q']


def test_values_with_the_same_numbers_share_a_label(folder):
    run = results.frontiers(folder)['qfedavg.q'][0]
    (ax,) = report.frontier_figure({'qfedavg.q': {0.0: run, 1.0: run}}).axes
    assert [text.get_text() for text in ax.texts if text.get_text()] == ['0, 1']


def test_other_runs_with_the_same_numbers_share_a_label_and_their_chance_counts(folder, make_run):
    chance = {'summary_changes': {'chance': {'global': 0.68, 'own': 0.69}}}
    beside = report.load_runs([make_run('one', **chance), make_run('own', personal=True, **chance)])
    twin = dataclasses.replace(beside[0], label='twin')
    figure = report.frontier_figure(results.frontiers(folder), [*beside, twin])
    assert [text.get_text() for text in figure.axes[0].texts][:2] == ['one, twin', 'own']
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ['qfedavg.q', 'chance, global model 68.0 %', 'chance, own models 69.0 %']


def test_the_report_holds_figure_table_and_sentence(folder):
    page = report.write_report(results.run_folders(folder), folder).read_text()
    text = (folder / 'frontier.md').read_text()
    assert (folder / 'frontier.png').exists() and '<figure class="frontier">' in page
    cost = cost_of_fairness(results.frontiers(folder)['qfedavg.q'])
    sentence = (
        f'From qfedavg.q=0 (best AVG) to qfedavg.q=10 (best raw worst): raw worst gains {cost.gain:.1f} points and AVG '
        f'loses {cost.price:.1f}. What a point of raw worst costs is undecided: the gain has no interval.'
    )
    assert sentence in page and sentence in text and text == report.frontier_text(folder)
    assert '| qfedavg.q | AVG | raw worst |' in text and text.count(' [') == 6
    assert 'no verdict' in text


def test_the_cost_is_between_the_best_mean_and_the_best_worst(folder):
    runs = results.frontiers(folder)['qfedavg.q']
    cost = cost_of_fairness(runs)
    assert (cost.mean_value, cost.fair_value) == (0, 10)
    assert cost.gain == interval(runs[10], 'worst').value - interval(runs[0], 'worst').value > 0
    assert cost.price == interval(runs[0], 'avg').value - interval(runs[10], 'avg').value > 0


def test_one_value_may_be_best_in_both(folder, make_run):
    best = make_run('qfedavg', directory='frontier/qfedavg.q/qfedavg.q=20', level=0.95, gap=0.01)
    assert best.exists()
    assert 'qfedavg.q=20 has the highest AVG and the highest raw worst' in in_words(
        'qfedavg.q', results.frontiers(folder)['qfedavg.q']
    )


def test_values_that_learned_nothing_have_no_part_in_the_cost(make_run, tmp_path):
    chance = {'summary_changes': {'chance': {'global': 0.55, 'own': 0.55}}}
    for q, level, gap in ((0, 0.8, 0.1), (5, 0.54, 0.0)):
        make_run('qfedavg', directory=f'frontier/qfedavg.q/qfedavg.q={q}', level=level, gap=gap, **chance)
    runs = results.frontiers(tmp_path)['qfedavg.q']
    assert cost_of_fairness(runs).fair_value == 5
    told = in_words('qfedavg.q', runs)
    assert told.startswith('qfedavg.q=0 has') and told.endswith('Left out, for their models did not learn: 5.')
    assert in_words('qfedavg.q', {5: runs[5]}) == 'qfedavg.q: no value learned anything.'


def test_a_gain_has_the_interval_of_the_paired_difference(make_run, tmp_path):
    for q, level, gap in ((0, 0.8, 0.1), (5, 0.64, 0.02)):
        make_run('qfedavg', directory=f'frontier/qfedavg.q/qfedavg.q={q}', level=level, gap=gap, images=300)
    runs = results.frontiers(tmp_path)['qfedavg.q']
    cost = cost_of_fairness(runs)
    half = 100 * compare_runs([runs[5], runs[0]]).analysis.outcomes['worst'].half95[0]
    told = f'The 95 % interval of the gain is {cost.gain - half:.1f} to {cost.gain + half:.1f}.'
    assert cost.fair_value == 5 and cost.lo > 0 and in_words('qfedavg.q', runs).endswith(told)
    assert f'each point of raw worst costs {cost.price / cost.gain:.1f} points of AVG.' in in_words('qfedavg.q', runs)


def test_worst_is_corrected_with_the_raw_one_in_brackets_where_that_can_be_told(make_run, tmp_path):
    for q, level in ((0, 0.8), (5, 0.64)):
        make_run('qfedavg', directory=f'frontier/qfedavg.q/qfedavg.q={q}', level=level, images=400, clients=8)
    runs = results.frontiers(tmp_path)['qfedavg.q']
    (level,) = findings([runs[0]]).measures['worst'].levels
    found = interval(runs[0], 'worst')
    assert (found.value, found.corrected) == (level.estimate, level.corrected) and level.corrected > level.estimate
    text = report.frontier_text(tmp_path)
    assert '| qfedavg.q | AVG | worst (raw) |' in text and frontier_words.CORRECTED in text
    assert f'| {level.corrected:.1f} ({level.estimate:.1f}) [{level.lo:.1f}, {level.hi:.1f}] |' in text
    (tmp_path / 'frontier/qfedavg.q/qfedavg.q=5/predictions.npz').unlink()
    last = report.frontier_text(tmp_path).split('| 5 |')[1].splitlines()[0]
    assert last.endswith(' raw |') and '(' not in last
    assert report.frontier_figure({'qfedavg.q': runs}).axes[0].get_xlabel().startswith('raw worst group')


def test_a_gain_that_may_be_none_has_no_price(make_run, tmp_path):
    for q, level, gap in ((0, 0.8, 0.1), (5, 0.62, 0.02)):
        make_run('qfedavg', directory=f'frontier/qfedavg.q/qfedavg.q={q}', level=level, gap=gap, images=12)
    runs = results.frontiers(tmp_path)['qfedavg.q']
    cost = cost_of_fairness(runs)
    told = in_words('qfedavg.q', runs)
    assert cost.fair_value != cost.mean_value and cost.lo < 0 < cost.hi
    assert told.endswith(': what a point of raw worst costs is undecided.') and 'each point' not in told


def test_a_frontier_says_what_it_is_of(make_run, tmp_path):
    for q, level, gap in ((0, 0.8, 0.1), (5, 0.64, 0.02)):
        make_run('qfedavg', directory=f'frontier/qfedavg.q/qfedavg.q={q}', level=level, gap=gap, images=10, clients=4)
    page = report.write_report([make_run(directory='fedavg')], tmp_path).read_text()
    text = (tmp_path / 'frontier.md').read_text()
    for told in (
        'data: digits', 'network mlp; 50 rounds; 3 seeds: 0, 1, 2', 'score: accuracy',
        'means of rounds 30, 35, 40, 45, 50', '95 % intervals: new seeds and new patients', '20 test patients in all',
    ):  # fmt: skip
        assert f'- {told}' in text and told in page.partition('What fairness costs')[2]


def test_a_folder_without_frontiers_says_nothing_of_them(make_run, tmp_path):
    page = report.write_report([make_run(directory='fedavg')], tmp_path).read_text()
    assert report.frontier_text(tmp_path) == '' and 'What fairness costs' not in page
    assert not (tmp_path / 'frontier.md').exists()
