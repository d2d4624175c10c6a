"""The study of FedHEAL: published rows that agree with themselves, columns by hand, runs end to end."""

import dataclasses
import json

import numpy as np
import pytest

from experiments.fedheal import figures, published, tables
from experiments.fedheal.study import ALONE, BASES, bases, columns, data_set, folder_of, hyper_of, in_our_order, scores
from experiments.study import Study
from fedjax_fair.methods import make_methods
from fedjax_fair.training import Config

CONFIG = Config(
    scenario='digits_domains',
    clients_per_domain=1,
    client_sizes=(12,),
    test_size=20,
    model='logreg',
    rounds=3,
    seeds=(0, 1),
    local_epochs=1,
    eval_every=1,
    devices=1,
)


@pytest.fixture(scope='module')
def study(tmp_path_factory):
    out = tmp_path_factory.mktemp('fedheal')
    return Study(CONFIG, out, quiet=True)


@pytest.mark.parametrize('data', published.DOMAINS)
def test_published_means_and_deviations_are_those_of_the_domains(data):
    rows = [row for base in published.TABLE2[data].values() for row in base]
    rows += [row for table in (published.TABLE3, published.TABLE5) for row in table[data].values()]
    odd = 0
    for row in rows:
        if not np.isnan(row).any():
            odd += abs(np.mean(row[:4]) - row[4]) > 0.011 or abs(np.std(row[:4], ddof=1) - row[5]) > 0.011
    assert odd <= 3  # misprints of the paper
    assert set(published.TABLE2[data]) == set(BASES) and set(published.TABLE3[data]) == set(ALONE)
    assert published.TABLE5[data]['both'] == published.TABLE2[data]['FedAvg'][-1]


def test_tables_4_and_5_agree_with_table_2():
    assert published.TABLE4[0.0] == published.TABLE2[published.DIGITS]['FedAvg'][0][-2:]
    assert published.TABLE4[0.4] == published.TABLE5[published.DIGITS]['FAEL'][-2:]


def test_every_recipe_of_the_study_exists():
    for recipe, hyper in ALONE.values():
        make_methods(recipe, hyper)
    for recipe in bases().values():
        make_methods(f'{recipe}+fedheal')
    assert set(tables.SHORT) <= {base + plugin for base in bases() for plugin in published.PLUGINS}


def test_columns_are_means_over_the_last_evaluations_and_then_over_domains(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.uniform(size=(7, 3, 4))  # round, seed, domain
    with (tmp_path / 'metrics.jsonl').open('w') as file:
        for number, per_seed in enumerate(values):
            for seed, found in enumerate(per_seed):
                line = {'round': number, 'seed': seed, 'global': {'group_accuracy': found.tolist()}}
                file.write(json.dumps(line) + '\n')
    found = scores(tmp_path)
    last = 100 * values[2:].mean(0)
    assert found[1] == pytest.approx((last[:, 1].mean(), last[:, 1].std()))
    assert found[4] == pytest.approx((last.mean(1).mean(), last.mean(1).std()))
    assert found[5] == pytest.approx((last.std(1, ddof=1).mean(), last.std(1, ddof=1).std()))


def test_the_office_is_known_by_its_scenario_and_read_in_its_own_order(study, tmp_path):
    labels = np.arange(100) // 10
    names = ('caltech', 'amazon', 'webcam', 'dslr')
    for name in names:
        np.savez(tmp_path / f'{name}.npz', images=np.zeros((100, 4, 4), np.uint8), labels=labels)
    paths = ','.join(str(tmp_path / f'{name}.npz') for name in names)
    config = dataclasses.replace(CONFIG, scenario=f'office_caltech:{paths}', client_sizes=(), test_size=None)
    office = Study(config, tmp_path)
    assert data_set(office) == published.OFFICE and columns(office) == list(names)
    row = published.TABLE2[published.OFFICE]['FedAvg'][0]
    assert in_our_order(office, row) == ['58.57', '72.63', '45.52', '56.67', '58.35', '11.13']
    assert hyper_of(office, 'fedavg+fedheal') == {'fedheal.tau': 0.4} and hyper_of(study, 'fedavg+fedheal') == {}
    assert set(office.data()['sha256']) == {f'{name}.npz' for name in names}


def test_a_table_shows_ours_beside_the_papers(study, monkeypatch, capsys):
    cells = [(float(i), 0.5) for i in range(6)]
    monkeypatch.setattr(tables, 'folder_of', lambda study, recipe: recipe)
    monkeypatch.setattr(tables, 'scores', lambda folder: cells)
    tables.compatibility(study)
    shown = capsys.readouterr().out
    assert shown.count('5.00 (0.50)') == 4 * len(bases()) and shown.count('not run') == 4 * (len(BASES) - len(bases()))
    assert '| FedProto+FedHEAL' in shown and '20.58' in shown
    kept = json.loads((study.out / 'table2.json').read_text())['numbers']
    assert kept['FedDyn+q-FFL'][4] == [4.0, 0.5]


def test_the_ablation_runs_and_shares_its_weights_with_the_sweep_of_beta(study, capsys):
    tables.ablation(study)
    tables.momentum(study)
    shown = capsys.readouterr().out
    kept = [json.loads((study.out / f'table{n}.json').read_text())['numbers'] for n in (4, 5)]
    assert kept[0]['0.4'] == kept[1]['FAEL']
    np.testing.assert_allclose(kept[0]['0.0'], kept[1]['neither'], atol=1e-4)  # no momentum: FedAvg
    assert kept[1]['FAEL'] != kept[1]['neither'] and '77.20' in shown


def test_figures_are_drawn(study, capsys):
    for figure in ('2', '4', 'weights'):
        figures.FIGURES[figure](study)
        assert (study.out / ('weights.png' if figure == 'weights' else f'figure{figure}.png')).stat().st_size > 5000
    shares = json.loads((study.out / 'figure2.json').read_text())['numbers']
    assert set(shares) == {'last 3 rounds'} and all(0 <= v <= 1 for one in shares.values() for v in one.values())
    weights = np.array(json.loads((study.out / 'weights.json').read_text())['numbers']['weights'])
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)


def test_convergence_is_read_from_the_runs(study):
    figures._converge(study, 'figure5', {'': {'FedAvg': folder_of(study, 'fedavg')}})
    kept = json.loads((study.out / 'figure5.json').read_text())['numbers']['FedAvg']
    assert kept['round'] == [1, 2, 3] or kept['round'] == [0, 1, 2, 3]
    assert len(kept['AVG']) == len(kept['round'])
