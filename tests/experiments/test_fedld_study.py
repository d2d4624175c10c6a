"""The study of FedLD: every published row is there, tables read runs of each split, and the figure's terms add up."""

import dataclasses
import json

import pytest

from experiments.fedld import figures, published, study, tables
from experiments.study import Study
from fedjax_fair.training import Config, load_federation

CONFIG = Config(
    scenario='digits_common',
    split_by='capped_dirichlet',
    num_clients=5,
    model='logreg',
    rounds=1,
    local_epochs=1,
    batch_size=50,
    seeds=(0, 1),
    eval_every=1,
    last_k=1,
    devices=1,
)


def test_every_table_has_all_rows():
    assert set(published.TABLE1) == set(published.TABLE3) == set(study.RECIPES)
    assert set(published.TABLE2) == set(study.HALVES)
    assert set(study.LAMBDAS) == {*published.SPLITS, published.SITES}


def test_a_run_of_a_split_is_kept_by_its_settings(tmp_path):
    found = study.measured(Study(CONFIG, tmp_path, quiet=True), 'margin', 'Split-2')
    (summary,) = (tmp_path / 'runs').rglob('summary.json')
    assert summary.parent.parent.name == 'alpha=1.0,margin.lam=0.03'
    kept = json.loads(summary.read_text())
    assert found == {
        'global': (100 * kept['metrics']['client_mean']['mean'], 100 * kept['metrics']['client_mean']['std'])
    }


@pytest.mark.parametrize('table', tables.TABLES)
def test_tables_show_both_sides(table, tmp_path, monkeypatch, capsys):
    asked = []

    def numbers(study, recipe, place, **changes):
        asked.append((study.config.scenario, recipe, place, changes))
        return {'global': (1.5, 0.25)} | ({'own': (2.5, 0.75)} if recipe == 'fedpac' else {})

    monkeypatch.setattr(tables, 'measured', numbers)
    tables.TABLES[table](Study(CONFIG, tmp_path))
    shown = capsys.readouterr().out
    assert shown.count('1.50 (0.25)') == len(asked)
    assert ('own 2.50 (0.75)' in shown) == (table != '2')
    assert {'1': '52.81', 'sites': '56.34', '2': '81.96', '3': '71.30'}[table] in shown
    assert {scenario for scenario, *_ in asked} == {'tissue' if table == 'sites' else 'digits_common'}
    assert (asked[0][3] == study.MANY) == (table == '3')


def test_fifty_clients_and_one_test_set():
    data = load_federation(dataclasses.replace(CONFIG, alpha=0.5, **{'num_clients': 50}))
    assert data.num_clients == 50 and data.sizes.min() >= 10 and data.tests.mask.shape[0] == 1


def test_clients_lose_more_on_each_other_the_more_they_differ(tmp_path):
    """Signed terms of one round; the published values of alpha at both ends."""
    own = Study(dataclasses.replace(CONFIG, local_epochs=3, seeds=(0,)), tmp_path, quiet=True)
    alike, apart = (figures.after_one_round(own, 'fedavg', alpha) for alpha in (100.0, 0.01))
    assert apart['shift'][0] > 3 * abs(alike['shift'][0])
    assert apart['local'][0] < alike['local'][0]


def test_the_figure_is_drawn_from_given_terms(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        figures, 'after_one_round', lambda study, recipe, alpha: {term: (-alpha, 0.5) for term in figures.TERMS}
    )
    figures.figure2(Study(CONFIG, tmp_path / 'new'))
    assert (tmp_path / 'new' / 'figure2.png').stat().st_size > 0
    assert capsys.readouterr().out.count('-100.0000 (0.5000)') == 9
