"""The study of FedLD: every published row is there, tables read runs of each split, and the figure's terms add up."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.fedld import figures, published, study, tables
from experiments.study import Study
from fedjax_fair.diagnostics import Decomposition
from fedjax_fair.errors import UserError
from fedjax_fair.training import Config, load_federation

CONFIG = Config().changed(
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


def small(tmp_path, **changes):
    return Study(CONFIG.changed(**changes), tmp_path, quiet=True)


def read(path):
    return json.loads(path.read_text())


def test_every_table_has_all_rows():
    assert set(published.TABLE1) == set(published.TABLE3) == set(study.RECIPES)
    assert set(published.TABLE2) == set(study.HALVES)
    assert set(study.LAMBDAS) == {*published.SPLITS, published.PRINTED, published.SITES}
    assert study.ALPHAS[published.PRINTED] == 0.1 and study.ALPHAS['Split-2'] == 1


def test_a_run_of_a_split_is_kept_by_its_settings(tmp_path):
    found = study.measured(small(tmp_path), 'margin', 'Split-2')
    (summary,) = (tmp_path / 'runs').rglob('summary.json')
    assert summary.parent.parent.name == 'alpha=1.0,margin.lam=0.03'
    kept = read(summary)['global']
    assert found == {'global': (100 * kept['accuracy']['mean'], 100 * kept['accuracy']['std'])}
    assert found['global'][0] == pytest.approx(100 * kept['client_mean']['mean'])  # one test set: the same


@pytest.mark.parametrize('table', tables.TABLES)
def test_tables_show_both_sides(table, tmp_path, monkeypatch, capsys):
    asked = []

    def numbers(study, recipe, place, **changes):
        asked.append((study.config.scenario, recipe, place, changes))
        return {'global': (1.5, 0.25)} | ({'own': (2.5, 0.75)} if recipe == 'fedpac' else {})

    monkeypatch.setattr(tables, 'measured', numbers)
    tables.TABLES[table](tables.arranged(Study(CONFIG, tmp_path), table))
    shown = capsys.readouterr().out
    assert shown.count('1.50 (0.25)') == len(asked)
    assert ('own 2.50 (0.75)' in shown) == (table != '2')
    assert {'1': '52.81', 'printed': '71.64', 'sites': '56.34', '2': '81.96', '3': '71.30'}[table] in shown
    assert {scenario for scenario, *_ in asked} == {'tissue' if table == 'sites' else 'digits_common'}
    assert (asked[0][3] == study.MANY) == (table == '3')


def test_results_tell_what_every_column_ran(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, 'measured', lambda *_, **__: {'global': (1.5, 0.25)})
    tables.splits(Study(CONFIG, tmp_path))
    tables.many(Study(CONFIG, tmp_path))
    columns = read(tmp_path / 'table1.json')['data']
    assert {name: (one['alpha'], one['lam']) for name, one in columns.items()} == {
        'Split-1': (100.0, 0.1),
        'Split-2': (1.0, 0.03),
        'Split-3': (0.5, 0.03),
    }
    spread = [np.std(one['train']) for one in columns.values()]
    assert all(len(one['train']) == 5 for one in columns.values()) and spread[0] < spread[1] and spread[0] < spread[2]
    (many,) = read(tmp_path / 'table3.json')['data'].values()
    assert (many['num_clients'], many['participation'], many['alpha'], len(many['train'])) == (50, 0.1, 0.5, 50)


SITES = {'large': (90, (0, 1, 2)), 'small': (12, (0, 1, 2)), 'odd': (13, (0, 2))}  # examples, classes


@pytest.fixture
def three_sites(tmp_path):
    """A pair of arrays per site, sites of very different sizes, one without a class, and the classes' names."""
    rng, arrays = np.random.default_rng(0), {'class_names': np.array(['first', 'second', 'third'])}
    for name, (count, classes) in SITES.items():
        labels = np.resize(classes, count).astype(np.int32)
        arrays[f'{name}_images'] = (rng.integers(60, size=(count, 6, 6)) + 80 * labels[:, None, None]).astype(np.uint8)
        arrays[f'{name}_labels'] = labels
    np.savez(tmp_path / 'three_sites.npz', **arrays)
    return f'npz:{tmp_path / "three_sites.npz"}'


def test_sites_are_scored_over_all_examples_and_by_site(three_sites, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, 'RECIPES', {'FedLD': 'fedld'})
    own = tables.arranged(small(tmp_path / 'out', scenario=three_sites, batch_size=10, lr=0.03), 'sites')
    own.out.mkdir()
    tables.sites(own)
    kept = read(tmp_path / 'out' / 'table1_sites.json')
    data = kept['data'][published.SITES]
    assert len(data['train']) == len(data['test']) == 3
    assert sorted(np.add(data['train'], data['test'])) == sorted(count for count, _ in SITES.values())
    (history,) = (tmp_path / 'out').rglob('metrics.jsonl')
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    by_site = np.array([line['global']['group_accuracy'] for line in lines if line['round'] == 1])
    found = kept['numbers'][published.SITES]['FedLD']
    weights = np.array(data['test']) / sum(data['test'])
    assert found['global'][0] == pytest.approx(100 * (by_site @ weights).mean())
    assert found['global, mean of sites'][0] == pytest.approx(100 * by_site.mean())
    assert found['global'][0] != pytest.approx(found['global, mean of sites'][0])
    shown = capsys.readouterr().out
    assert f'{found["global"][0]:.2f} (' in shown and f', sites {found["global, mean of sites"][0]:.2f} (' in shown


def test_sites_of_nature_and_of_choice(tmp_path, three_sites):
    grades = tables.arranged(small(tmp_path, scenario='tissue_grades'), 'sites')
    assert len(grades.data()['train']) == 6 and 'split_by' not in grades.config.data
    assert tables.arranged(small(tmp_path, scenario=three_sites), 'sites').config.data['split_by'] == 'site'
    with pytest.raises(ValueError, match=r'^split_by=site: these examples have no sites or domains'):
        tables.arranged(small(tmp_path, scenario='digits_labels'), 'sites').data()


@pytest.mark.parametrize('table', ['1', 'sites'])
def test_a_concentration_of_ones_own_is_refused(table, tmp_path):
    with pytest.raises(UserError, match=r'^alpha=0\.3 does not apply: .*0\.1 in Split-2 as printed'):
        tables.arranged(small(tmp_path, alpha=0.3), table)


def test_the_program_fits_its_data_to_the_table_before_reading_it(tmp_path):
    """The preset's Dirichlet split would deal these examples out; by sites they cannot be."""
    np.savez(tmp_path / 'plain.npz', images=np.zeros((40, 4, 4), np.uint8), labels=np.arange(40) % 2)
    words = ['--table=sites', f'--scenario=npz:{tmp_path / "plain.npz"}', f'--out={tmp_path / "out"}']
    command = [sys.executable, '-m', 'experiments.fedld.tables', *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=study.HERE.parents[1], timeout=120)
    assert done.returncode == 2 and '--split_by=site: these examples have no sites' in done.stderr
    assert not (tmp_path / 'out').exists()


def test_fifty_clients_and_one_test_set():
    data = load_federation(CONFIG.changed(alpha=0.5, **{'num_clients': 50}))
    assert data.num_clients == 50 and data.sizes.min() >= 10 and data.tests.mask.shape[0] == 1


def test_clients_lose_more_on_each_other_the_more_they_differ(tmp_path):
    """The published values of alpha at both ends."""
    own = small(tmp_path, local_epochs=3, seeds=(0,))
    alike, apart = (figures.after_one_round(own, 'naive', alpha) for alpha in (100.0, 0.01))
    assert apart['shift'][0] > 3 * abs(alike['shift'][0])
    assert apart['local'][0] < alike['local'][0]
    assert apart['aggregation_loss'][0] == abs(apart['aggregation'][0])


def test_terms_of_two_signs_do_not_cancel_in_losses():
    terms = [Decomposition(*map(jnp.float32, values)) for values in ((1.0, 3.0, -2.0), (2.0, -1.0, -4.0))]
    found = figures.over_seeds(terms)
    assert found == {
        'local': (1.5, 0.5),
        'shift': (1.0, 2.0),
        'aggregation': (-3.0, 1.0),
        'shift_loss': (2.0, 1.0),
        'aggregation_loss': (3.0, 1.0),
    }


def test_settings_of_a_run_reach_the_figure(tmp_path):
    plain, spoiled = (
        figures.after_one_round(small(tmp_path, seeds=(0,), **changes), 'naive', 1.0)['local']
        for changes in ({}, {'outliers': 'pixels', 'outlier_share': 1.0})
    )
    assert plain != spoiled


def test_the_figure_is_drawn_from_given_terms(tmp_path, monkeypatch, capsys):
    names = (*figures.TERMS, *figures.LOSSES.values())
    monkeypatch.setattr(figures, 'after_one_round', lambda study, way, alpha: {name: (-alpha, 0.5) for name in names})
    figures.figure2(Study(CONFIG, tmp_path / 'new'))
    assert (tmp_path / 'new' / 'figure2.png').stat().st_size > 0
    assert capsys.readouterr().out.count('-100.0000 (0.5000)') == 15
    kept = read(tmp_path / 'new' / 'figure2.json')
    assert kept['numbers']['naive']['0.01']['shift_loss'] == [-0.01, 0.5]
    assert [one['alpha'] for one in kept['data'].values()] == list(figures.ALPHAS)
