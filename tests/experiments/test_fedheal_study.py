"""The study of FedHEAL: published rows that agree with themselves, columns by hand, runs end to end."""

import bz2
import dataclasses
import json
import re
import struct
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
from PIL import Image

from experiments.claims import measure_of
from experiments.fedheal import figures, published, tables
from experiments.fedheal.claims import CLAIMS
from experiments.fedheal.study import (
    ALONE,
    BASES,
    CONTROLS,
    FEDAVG,
    FEDHEAL,
    METHODS,
    PRINTED,
    UNIFORM,
    columns,
    curves,
    data_set,
    folder_of,
    hyper_of,
    in_our_order,
    run_of,
    scores,
    variance_shares,
    without_published_bar,
)
from experiments.published import preset_config
from experiments.study import Study, known_hyper
from fedjax_fair.errors import UserError
from fedjax_fair.methods import make_methods
from fedjax_fair.training import Config, finished, load_federation

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
    for method in (*ALONE.values(), *METHODS.values()):
        make_methods(method.recipe, method.hyper)
    papers = {method.paper for method in (*ALONE.values(), *METHODS.values())} - {None}
    assert papers <= set(published.rows_of(published.DIGITS)) & set(published.rows_of(published.OFFICE))
    assert set(tables.SHORT) <= set(METHODS) and set(CONTROLS) < set(tables.SHORT)


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


NO_EVIDENCE = {'baseline': '', 'counts': '', 'seeds': [], 'notes': [], 'measures': {}}
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
    assert set(office.data()['sha256']) == {f'{name}.npz' for name in OFFICE}


def test_the_bar_of_the_office_is_in_its_preset(study, office, monkeypatch):
    hyper = preset_config('fedheal', 'office').hyper
    assert hyper == {'fedheal.tau': 0.4} and preset_config('fedheal', 'paper').hyper == {}
    own = office.changed(hyper=hyper)
    assert own.settings('fedprox+fedheal').hyper == hyper
    assert hyper_of(own, 'fphl') == {'fphl.tau': 0.4} and hyper_of(own, 'fedavg') == hyper_of(study, 'fphl') == {}
    swept = []
    monkeypatch.setattr('experiments.study.run', lambda config, folder, points, **_: swept.extend(points))
    figures.swept(without_published_bar(own), 'fedavg+fedheal', 'fedheal.tau', (0.1, 0.4))
    assert swept == [{'fedheal.tau': 0.1}, {'fedheal.tau': 0.4}]
    with pytest.raises(UserError, match=r'fedheal\.tau=0\.2: fedheal\.tau is swept here'):
        figures.bar(office.changed(hyper={'fedheal.tau': 0.2}))


def test_a_table_shows_ours_beside_the_papers(study, monkeypatch, capsys):
    cells = [(float(i), 0.5) for i in range(6)]
    monkeypatch.setattr(tables, 'run_of', lambda study, method, watched: method.recipe)
    monkeypatch.setattr(tables, 'scores', lambda folder, kind: cells)
    monkeypatch.setattr(tables, 'scored_by', lambda folder, kind: folder)
    monkeypatch.setattr(tables, 'over_domains', lambda study, runs, baseline, names: NO_EVIDENCE)
    tables.compatibility(study)
    shown = capsys.readouterr().out
    assert shown.count('5.00 (0.50)') == 4 * len(BASES) + len(CONTROLS)
    assert '| FedProto+FedHEAL' in shown and '20.58' in shown
    assert shown.count('23.32') == 1 and shown.count('22.08') == 3  # masks alone; FedHEAL in two readings, and Scaffold
    kept = json.loads((study.out / 'table2.json').read_text())['numbers']
    assert kept['FedDyn+q-FFL'][4] == [4.0, 0.5]


def test_table_4_of_digits_is_not_shown_beside_the_office(study, office, monkeypatch, capsys):
    monkeypatch.setattr(tables, 'weights_by_beta', lambda study: list(published.TABLE4))
    monkeypatch.setattr(tables, 'over_domains', lambda study, runs, baseline: NO_EVIDENCE)
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
    folders = [run_of(study, method) for method in ALONE.values()]
    assert folders[0] == folders[2] and len(set(folders)) == 4  # one run, evaluated in two ways
    asked = dataclasses.replace(study, config=CONFIG.changed(hyper={'ditto.aggregate': 'no'}))
    with pytest.raises(ValueError, match=r'ditto\.aggregate=no: Table 3 shows all readings of it'):
        tables.independent(asked)


def test_personal_models_are_scored_on_their_own_domain_and_averaged_over_its_clients(tmp_path):
    """By hand, from the models kept; client 7 is never sampled and uses the mean of those that were."""
    own = dict(clients_per_domain=2, rounds=2, seeds=(0,), sampler='schedule', schedule='0,1,2,3;4,5,6,0')
    folder = run_of(Study(CONFIG.changed(**own), tmp_path, quiet=True), ALONE['Ditto, personal models'])
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
    kept = json.loads((study.out / 'weights.json').read_text())
    weights = np.array(kept['numbers']['weights'])
    np.testing.assert_allclose(weights.sum(2), 1, rtol=1e-5)  # [seeds, rounds, clients]
    group_of = load_federation(CONFIG).group_of
    own = kept['evidence']['mean weights over rounds']['measures']['printed']
    mean = 100 * weights[:, :, group_of == columns(study).index('printed (USPS)')].sum(2).mean(1)
    np.testing.assert_allclose(own['levels']['FedHEAL']['values'], mean, rtol=1e-5)
    assert own['levels']['by examples']['values'] == [25, 25]  # CONFIG gives all clients 12 images


def test_the_figure_of_distances_reads_the_watched_runs(study):
    figures.distances(study)
    kept = json.loads((study.out / 'distances.json').read_text())
    lines = {name: np.array(values) for name, values in kept['numbers'].items()}
    np.testing.assert_allclose(lines[FEDAVG], 100, rtol=1e-3)  # its weights are those by examples
    found = variance_shares(run_of(study, METHODS[FEDHEAL], watched=True))
    np.testing.assert_allclose(lines[FEDHEAL], found['aggregated'])
    assert (lines[figures.BEST_WEIGHTS] < 100).all() and np.abs(lines[FEDHEAL] - 100).max() > 1
    judged = kept['evidence']['Eq. 10']['measures']['variance']
    assert set(judged['differences']) == {UNIFORM, FEDHEAL, PRINTED, figures.BEST_WEIGHTS}
    expected = np.median(found['aggregated'], 1).mean() - 100
    assert judged['differences'][FEDHEAL]['estimate'] == pytest.approx(expected)


def test_the_deciding_tables_hold_what_claims_point_at(study, monkeypatch):
    """With the data and network of this file, which has no norm; names are those of the recorded runs."""
    tables.deciding(study)
    figures.distances(study)
    monkeypatch.setattr(tables, 'run_of', lambda study, method, watched: run_of(study, method._replace(changes={})))
    tables.norms(study)
    for place in (place for claim in CLAIMS for place in claim.places):
        preset, _, name = place.record.partition('/')
        assert preset in ('decide', 'decide_epochs')
        entry = json.loads((study.out / name).read_text())['evidence'][place.entry]
        measure = measure_of(entry, place.measure)
        assert measure in ('avg', 'spread', 'variance', *(f'site:{name}' for name in load_federation(CONFIG).groups))
        assert entry['measures'][measure]['differences'][place.method]['lo'] is not None, place


def test_batch_norm_is_a_run_of_its_own(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr('experiments.study.run', lambda config, folder, **_: asked.append((config.norm, folder)))
    one = Study(CONFIG, tmp_path)
    own = METHODS[FEDHEAL]
    run_of(one, own)
    run_of(one, own._replace(changes={'norm': 'batch'}))
    run_of(one, own, watched=True)
    assert [norm for norm, _ in asked] == [None, 'batch', None] and len({folder for _, folder in asked}) == 3


def test_the_paper_preset_reads_what_publishers_ship(tmp_path, monkeypatch):
    """Tiny files in the four forms, grey and in colour, of 28, 16, 32 and 20 pixels, under the preset's flags."""
    monkeypatch.setenv('DATA', str(tmp_path))
    write_publishers_files(tmp_path, np.random.default_rng(0))
    config = preset_config('fedheal', 'paper').changed(client_sizes=(2, 2, 2, 2), clients_per_domain=1, num_clients=4)
    federation = load_federation(config)
    assert sorted(federation.groups) == ['MNIST', 'SVHN', 'SYN', 'USPS'] and federation.x.shape[1:] == (32, 32, 3)
    assert federation.tests.mask.sum(1).tolist() == [10] * 4 and federation.num_classes == 10
    one = Study(config, tmp_path)
    assert columns(one) == list(federation.groups)  # no domain stands in the place of another
    small = {'model': 'logreg', 'norm': None, 'rounds': 1, 'local_epochs': 1, 'devices': 1}
    study = Study(config.changed(**small), tmp_path / 'out', quiet=True)
    assert np.isfinite(scores(folder_of(study, 'fedavg'))).all()


def write_publishers_files(root, rng):
    """MNIST as IDX files, USPS as LIBSVM's text, SVHN as MATLAB files, SYN as class folders: 20 and 10 images each."""
    for name in ('mnist', 'usps', 'svhn', 'syn'):
        (root / name).mkdir()
    splits = ('train', 'usps.bz2', 20), ('t10k', 'usps.t.bz2', 10)
    for part, usps, count in splits:
        labels = np.arange(count, dtype=np.uint8) % 10
        for what, array in (('images-idx3', rng.integers(0, 256, (count, 28, 28), np.uint8)), ('labels-idx1', labels)):
            head = struct.pack(f'>4B{array.ndim}I', 0, 0, 8, array.ndim, *array.shape)
            (root / 'mnist' / f'{part}-{what}-ubyte').write_bytes(head + array.tobytes())
        pixels = ' '.join(f'{i}:{v:.4f}' for i, v in enumerate(rng.uniform(-1, 1, 256), 1))
        (root / 'usps' / usps).write_bytes(bz2.compress('\n'.join(f'{n + 1} {pixels}' for n in labels).encode()))
        split = 'train' if part == 'train' else 'test'
        x = rng.integers(0, 256, (32, 32, 3, count), np.uint8)
        scipy.io.savemat(root / 'svhn' / f'{split}_32x32.mat', {'X': x, 'y': (labels + 1)[:, None]})
        for number, digit in enumerate(labels):
            folder = root / 'syn' / split / str(digit)
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (20, 20, 3), np.uint8)).save(folder / f'{number}.png')


def test_convergence_is_read_from_the_runs(study):
    figures._converge(study, 'figure5', {'': {'FedAvg': folder_of(study, 'fedavg')}})
    kept = json.loads((study.out / 'figure5.json').read_text())['numbers']['FedAvg']
    assert kept['round'] == [1, 2, 3] or kept['round'] == [0, 1, 2, 3]
    assert len(kept['AVG']) == len(kept['round'])
