"""Verdicts and dots that are withheld, each with its reason, in tables, words and files."""

import json

import pytest
from tables import table_of

import fedjax_fair
from fedjax_fair import report
from fedjax_fair.report.frontier import in_words
from fedjax_fair.results.chance import NOT_LEARNED, NOT_SHOWN, interval_of_average, unlearned
from fedjax_fair.results.measures import TOO_FEW
from fedjax_fair.viz.fairness import fairness_plane


def cells(table, name):
    place = [one.name for one in table.columns].index(name)
    return [row.cells[place] for row in table.rows]


def test_one_seed_leaves_no_number_that_stands_for_a_verdict(make_run):
    options = {'seeds': 1, 'images': 30, 'clients': 4}
    paths = [make_run(name, level=level, **options) for name, level in (('a', 0.9), ('b', 0.5))]
    record = json.loads(fedjax_fair.verdict(*paths).to_json())
    for statistic in record['recipes'][0]['statistics'].values():
        if (difference := statistic['difference']) is not None:
            assert difference['verdict'] == 'undecided (one seed)' and difference['lo'] <= difference['hi']
            claims = ('p', 'p_holm', 'certainty', 'chance', 'seeds_needed', 'patients_needed')
            assert all(difference[name] is None for name in claims)


@pytest.mark.parametrize(('site', 'withheld'), [(3, {'worst', 'worst10', 'gap'}), (0, {'best10', 'gap'}), (2, set())])
def test_numbers_of_one_small_site_have_no_verdict(make_uneven_run, site, withheld):
    """The sites lie in order, the last one lowest."""
    options = {'seeds': 3, 'images': 40, 'clients': 4, 'gap': 0.25, 'patient_of': lambda image: image}
    pair = [make_uneven_run(name, site, 9, level=level, **options) for name, level in (('one', 0.95), ('two', 0.9))]
    table = table_of(*pair)
    for key in ('worst', 'worst10', 'best10', 'gap', 'avg', 'spread'):
        measure = table.found.measures[key]
        few = key in withheld
        assert (measure.differences[1].verdict == TOO_FEW) == few and (measure.best == (None, None)) == few, key
        assert few == (measure.differences[1].p is None)
    lowest = cells(table, 'worst')
    assert {(cell.word, cell.faint) for cell in lowest} == {(TOO_FEW, True) if 'worst' in withheld else ('', False)}


def test_many_small_clients_make_up_a_tenth(make_run):
    """A tenth of 40 clients with six patients each has 24 patients; the worst client alone has six."""
    options = {'seeds': 3, 'images': 12, 'clients': 40}
    found = table_of(make_run('one', **options), make_run('two', **options)).found.measures
    assert found['client_worst'].differences[1].verdict == TOO_FEW
    assert found['client_worst10'].differences[1].verdict != TOO_FEW


# --- models that did not learn ---------------------------------------------------------------------------------------


def with_chance(level):
    return {'summary_changes': {'chance': {'global': level, 'own': level}}}


@pytest.fixture
def even_and_uneven(make_run):
    """``even_and_uneven(chance of even, chance of uneven)``: two runs, the first of which is the fairer one."""
    options = {'seeds': 4, 'images': 60, 'clients': 8}

    def write(even, uneven):
        return [
            make_run(name, level=0.9, gap=gap, **options, **with_chance(chance))
            for name, gap, chance in (('even', 0.0, even), ('uneven', 0.2, uneven))
        ]

    return write


@pytest.mark.parametrize(
    ('even', 'uneven', 'why', 'told'),
    [
        (0.1, 0.99, 'undecided (uneven did not learn)', ': better; uneven did not learn; its spread means nothing'),
        (0.99, 0.1, 'undecided (did not learn)', 'even: did not learn: AVG +'),
        (0.99, 0.99, 'undecided (did not learn; uneven did not learn)', '; uneven did not learn; their spreads mean'),
    ],
)
def test_neither_side_of_a_verdict_on_fairness_may_have_learned_nothing(even_and_uneven, even, uneven, why, told):
    first, base = even_and_uneven(0.1, 0.1)
    assert 'fairer' in fedjax_fair.verdict(first, base).text  # where both learned
    pair = even_and_uneven(even, uneven)
    found = fedjax_fair.verdict(*pair)
    assert told in found.text and 'fair' not in found.text and 'fair' not in found.conclusion
    assert found.conclusion == f'better on average; spread {why}'
    statistics = json.loads(found.to_json())['recipes'][0]['statistics']
    for key in ('spread', 'worst', 'jain', 'gap'):
        difference = statistics[key]['difference']
        assert difference['verdict'] == why and difference['certainty'] is None
    assert statistics['avg']['difference']['verdict'] == 'better'
    table = table_of(*pair, baseline='uneven')
    assert cells(table, 'spread vs uneven')[0].word == why
    assert [cell.dot for cell in cells(table, 'spread')] == [even == 0.1, uneven == 0.1]


def test_an_interval_that_reaches_down_to_chance_shows_no_learning(make_run):
    """AVG is 50 %, and 25 images in all say little of it."""
    options = {'seeds': 2, 'images': 12, 'clients': 4, 'gap': 0.0}
    paths = [
        make_run('good', level=0.9, **options, **with_chance(0.4)),
        make_run('lucky', level=0.5, **options, **with_chance(0.4)),
        make_run('old', level=0.5, **(options | {'images': 0}), **with_chance(0.4)),  # no predictions, no interval
        make_run('lost', level=0.3, **options, **with_chance(0.4)),
    ]
    runs = report.load_runs(paths)
    assert [unlearned(run) for run in runs] == ['', NOT_SHOWN, '', NOT_LEARNED]
    assert [report.did_not_learn(run) for run in runs] == [False, False, False, True]
    said = [line for line in report.remarks_of(runs) if 'is not shown to be above' in line]
    assert len(said) == 1 and said[0].startswith('lucky may not have learned: AVG ') and '% (95 % interval' in said[0]
    table = report.make_table(runs)
    shown, own = cells(table, 'AVG')[1], interval_of_average(runs[1], 'global')
    assert (100 * own[0], 100 * own[1]) == pytest.approx((shown.lo, shown.hi))  # that of the table
    assert not any(cell.dot for row in table.rows[1:2] for cell in row.cells) and cells(table, 'AVG')[0].dot
    assert cells(table, 'spread vs good')[1].word == 'undecided (may not have learned)'
    assert 'lucky: may not have learned: AVG ' in report.to_markdown(table)
    labels = [text.get_text() for text in fairness_plane(runs[:2], report.make_table(runs[:2]).found).legends[0].texts]
    assert labels[1] == 'lucky (may not have learned)'
    told = in_words('q', {0.0: runs[0], 1.0: runs[1], 2.0: runs[3]})
    assert told.endswith('Left out, for their models may not have learned: 1; for their models did not learn: 2.')
    assert in_words('q', {1.0: runs[1]}) == 'q: no value is shown to have learned anything.'


def test_where_there_is_no_spread_none_is_denied(make_run):
    options = {'groups': ('clinic',), 'seeds': 3, 'images': 40, 'clients': 1}
    lost = make_run('lost', level=0.3, **options, **with_chance(0.5))
    good = make_run('good', level=0.9, **options, **with_chance(0.5))
    told = [fedjax_fair.verdict(*pair).text for pair in ((lost, good), (good, lost))]
    assert 'lost: did not learn: AVG -' in told[0] and ': better; lost did not learn.' in told[1]
    assert not any('means nothing' in text for text in told)
