"""The study of FedHEAL: published rows that agree with themselves, columns by hand, runs end to end."""

import dataclasses
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from experiments.fedheal import figures, published, tables
from experiments.fedheal.study import (
    ALONE,
    BASES,
    alone,
    bases,
    columns,
    curves,
    data_set,
    folder_of,
    hyper_of,
    in_our_order,
    scores,
)
from experiments.study import Study, known_hyper
from fedjax_fair.methods import make_methods
from fedjax_fair.training import Config, finished

CONFIG = Config().changed(
    scenario='digits_domains',
    clients_per_domain=1,
    client_sizes=(12,),
    test_size=60,
    model='logreg',
    rounds=3,
    batch_size=4,
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
    assert set(published.TABLE2[data]) == set(BASES)
    assert set(published.TABLE3[data]) == {method.paper for method in ALONE.values()} - {None}
    assert published.TABLE5[data]['both'] == published.TABLE2[data]['FedAvg'][-1]


def test_tables_4_and_5_agree_with_table_2():
    assert published.TABLE4[0.0] == published.TABLE2[published.DIGITS]['FedAvg'][0][-2:]
    assert published.TABLE4[0.4] == published.TABLE5[published.DIGITS]['FAEL'][-2:]


def test_every_recipe_of_the_study_exists():
    for method in ALONE.values():
        make_methods(method.recipe, method.hyper)
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


OFFICE = ('caltech', 'amazon', 'webcam', 'dslr')


@pytest.fixture
def office(tmp_path):
    labels = np.arange(100) // 10
    for name in OFFICE:
        np.savez(tmp_path / f'{name}.npz', images=np.zeros((100, 4, 4), np.uint8), labels=labels)
    paths = ','.join(str(tmp_path / f'{name}.npz') for name in OFFICE)
    config = CONFIG.changed(scenario=f'office_caltech:{paths}', client_sizes=(), test_size=None)
    return Study(config, tmp_path)


def test_the_office_is_known_by_its_scenario_and_read_in_its_own_order(study, office):
    assert data_set(office) == published.OFFICE and columns(office) == list(OFFICE)
    row = published.TABLE2[published.OFFICE]['FedAvg'][0]
    assert in_our_order(office, row) == ['58.57', '72.63', '45.52', '56.67', '58.35', '11.13']
    assert hyper_of(office, 'fedavg+fedheal') == {'fedheal.tau': 0.4} and hyper_of(study, 'fedavg+fedheal') == {}
    assert set(office.data()['sha256']) == {f'{name}.npz' for name in OFFICE}


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


def test_table_4_of_digits_is_not_shown_beside_the_office(study, office, monkeypatch, capsys):
    monkeypatch.setattr(tables, 'weights_by_beta', lambda study: list(published.TABLE4))
    monkeypatch.setattr(tables, 'scores', lambda folder: [(1.0, 0.5)] * 6)
    shown = []
    for one in (study, office):
        tables.momentum(one)
        shown.append(capsys.readouterr().out)
    assert '77.20' in shown[0] and shown[0].count('| paper') == len(published.TABLE4)
    assert '77.20' not in shown[1] and '| paper' not in shown[1] and shown[1].count('| ours') == len(published.TABLE4)


def test_table_3_has_three_readings_of_ditto(study, capsys):
    tables.independent(study)
    shown, kept = capsys.readouterr().out, json.loads((study.out / 'table3.json').read_text())['numbers']
    assert set(kept) == set(ALONE) and shown.count('76.16') == 2  # the paper has no personal models
    readings = [tuple(map(tuple, kept[name])) for name in ALONE if name.startswith('Ditto')]
    assert len(set(readings)) == 3
    folders = [alone(study, name) for name in ALONE]
    assert folders[0] == folders[2] and len(set(folders)) == 4  # one run, evaluated in two ways
    asked = dataclasses.replace(study, config=CONFIG.changed(hyper={'ditto.aggregate': 'no'}))
    with pytest.raises(ValueError, match=r'ditto\.aggregate=no: Table 3 shows all readings of it'):
        tables.independent(asked)


def test_personal_models_are_scored_on_their_own_domain_and_averaged_over_its_clients(tmp_path):
    """By hand, from the models kept; client 7 is never sampled and uses the mean of those that were."""
    own = dict(clients_per_domain=2, rounds=2, seeds=(0,), sampler='schedule', schedule='0,1,2,3;4,5,6,0')
    folder = alone(Study(CONFIG.changed(**own), tmp_path, quiet=True), 'Ditto, personal models')
    experiment, states = finished(folder)
    data, params = experiment.federation, states.clients['personal']['params']
    (dense,) = params.values()
    kernels, biases = (np.array(dense[name][0], np.float64) for name in ('kernel', 'bias'))
    kernels[7], biases[7] = (np.average(leaf[:7], 0, data.sizes[:7]) for leaf in (kernels, biases))
    right = np.zeros(8)
    for client, place in enumerate(data.tests.test_of):
        real = data.tests.mask[place]
        x = data.tests.x[place][real].reshape(real.sum(), -1) / (255 if data.tests.x.dtype == np.uint8 else 1)
        right[client] = ((x @ kernels[client] + biases[client]).argmax(1) == data.tests.y[place][real]).mean()
    expected = [100 * right[data.group_of == group].mean() for group in range(4)]
    np.testing.assert_allclose(curves(folder, 'deployed')[1][0, -1], expected, atol=1e-4)
    assert np.abs(curves(folder)[1][0, -1] - expected).max() > 1


def test_hyper_parameters_of_the_user_apply_to_every_recipe_with_the_part(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr('experiments.study.run', lambda config, folder, **_: asked.append((config.hyper, folder)))
    given = known_hyper({'fedheal.tau': '0.10', 'qffl.q': '2', 'fedheal.semantics': 'paper'})
    one = Study(CONFIG.changed(hyper=given), tmp_path)
    paper = {'fedheal.semantics': 'paper', 'fedheal.tau': 0.1}
    for recipe in ('fedavg', 'moon+fedheal', 'moon+qffl'):
        one.run(recipe)
    assert [hyper for hyper, _ in asked] == [{}, paper, {'qffl.q': 2.0}]
    one.run('moon+fedheal', hyper={'fedheal.tau': 0.4, 'fedheal.beta': 0.2})
    assert asked[-1][0] == paper | {'fedheal.beta': 0.2}  # the table's value of tau is overruled
    Study(CONFIG, tmp_path).run('moon+fedheal')
    folders = [folder for _, folder in asked]
    assert len(set(folders)) == 5 and folders[1].parent.name == 'fedheal.semantics=paper,fedheal.tau=0.1'
    with pytest.raises(ValueError, match=r'fedheal\.tau=0\.1: fedheal\.tau is swept here'):
        one.run('moon+fedheal', [{'fedheal.tau': 0.3}])


@pytest.mark.parametrize(
    ('name', 'value', 'said'),
    [
        ('fedheel.tau', '0.1', "fedheel.tau=0.1: 'fedheel' is not one of fedavg"),
        ('fedheal.taus', '0.1', "fedheal.taus=0.1: fedheal has no hyper-parameter 'taus'"),
        ('fedheal.semantics', 'mine', "semantics='mine' is not one of 'code', 'paper'"),
    ],
)
def test_hyper_parameters_that_no_recipe_has_are_refused(name, value, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        known_hyper({'qffl.q': '1', name: value})


def test_a_program_takes_hyper_parameters_of_any_recipe(tmp_path):
    """In a process of its own, which flags need."""
    show = "lambda study: print(study.settings('fedprox+fedheal').hyper)"
    code = f"from experiments.fedheal import tables; tables.main('table', {{'2': {show}}}, tables.HERE)"
    words = ['--table=2', '--fedheal.semantics=paper', '--qffl.q=2', '--fedprox.mu=0.5', f'--out={tmp_path}']
    done = subprocess.run([sys.executable, '-c', code, *words], capture_output=True, text=True, check=False)
    assert done.stdout == "{'fedheal.semantics': 'paper', 'fedprox.mu': 0.5}\n", done.stderr


def test_the_ablation_runs_and_shares_its_weights_with_the_sweep_of_beta(study, capsys):
    tables.ablation(study)
    tables.momentum(study)
    shown = capsys.readouterr().out
    kept = [json.loads((study.out / f'table{n}.json').read_text())['numbers'] for n in (4, 5)]
    assert kept[0]['0.4'] == kept[1]['FAEL']
    np.testing.assert_allclose(kept[0]['0.0'], kept[1]['neither'], atol=1e-4)  # no momentum: FedAvg
    assert kept[1]['FAEL'] != kept[1]['neither'] and '77.20' in shown


def test_figures_are_drawn(study, capsys):
    for figure in ('2', '4', '6', 'weights'):
        figures.FIGURES[figure](study)
        assert (study.out / ('weights.png' if figure == 'weights' else f'figure{figure}.png')).stat().st_size > 5000
    assert 'short: last 10 rounds | long: last 100 rounds' in capsys.readouterr().out
    shares = json.loads((study.out / 'figure2.json').read_text())['numbers']
    assert set(shares) == {'short', 'long'} and all(0 <= v <= 1 for one in shares.values() for v in one.values())
    by_tau = json.loads((study.out / 'figure6.json').read_text())['numbers']
    assert set(by_tau) == {str(tau) for tau in figures.TAUS} and by_tau['0.0'] != by_tau['0.6']
    same = np.array(scores(folder_of(study, 'fedavg+fedheal')))
    np.testing.assert_allclose(by_tau['0.3'], same, atol=1e-4)  # the default of FedHEAL
    weights = np.array(json.loads((study.out / 'weights.json').read_text())['numbers']['weights'])
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)


def test_convergence_is_read_from_the_runs(study):
    figures._converge(study, 'figure5', {'': {'FedAvg': folder_of(study, 'fedavg')}})
    kept = json.loads((study.out / 'figure5.json').read_text())['numbers']['FedAvg']
    assert kept['round'] == [1, 2, 3] or kept['round'] == [0, 1, 2, 3]
    assert len(kept['AVG']) == len(kept['round'])
