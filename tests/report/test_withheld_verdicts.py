"""Verdicts and dots that are withheld, each with its reason, in tables, words and files."""

import json

import pytest
from tables import table_of

import fedjax_fair
from fedjax_fair.results.measures import TOO_FEW


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
