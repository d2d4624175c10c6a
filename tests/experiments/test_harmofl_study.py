"""The study of HarmoFL: its numbers by hand, its published rows in agreement with themselves, two runs end to end."""

import json
import math

import numpy as np
import pytest

from experiments.claims import claims_of
from experiments.harmofl import figures, pictures, published, tables
from experiments.harmofl import study as study_of_harmofl
from experiments.harmofl.study import (
    BANDS,
    CAUSES,
    CURVES,
    DRIFTING,
    HERE,
    METHODS,
    NETWORK,
    OURS,
    by_seed,
    curve,
    folders_of,
    foreground,
    need,
    scores,
)
from experiments.published import preset_config
from experiments.study import Study
from fedjax_fair.core.engine import as_float
from fedjax_fair.data import make_scenario
from fedjax_fair.methods import make_methods
from fedjax_fair.ops import amplitude_normalize, mean_amplitude
from fedjax_fair.training import Config, load_federation

SMALL = Config().changed(
    scenario='tissue', num_clients=3, client_sizes=(10,), test_size=4, image_size=16, rounds=2, seeds=(0, 1),
    batch_size=4, eval_every=1, devices=1, validation=0.2, select='best_validation', local_epochs=1,
    model='cnn', model_options={'widths': (4, 4)}, norm='batch',
)  # fmt: skip
NUCLEI = SMALL.changed(
    task='segmentation',
    model='unet',
    model_options={'features': 2, 'depth': 1},
    seeds=(0,),
    score='dice_with_background',
)


@pytest.mark.parametrize('rows', [r for table in published.TABLES.values() for r in table.values()])
def test_published_averages_and_deviations_follow_from_the_clients(rows):
    for name, row in rows.items():
        means = np.array([mean for mean, _ in row[:-1]])
        if np.isnan(means).any():
            continue
        assert row[-1][0] == pytest.approx(means.mean(), abs=0.03), name
        assert row[-1][1] == pytest.approx(means.std(ddof=1), abs=0.01), name


def test_every_method_of_the_tables_exists_and_has_its_published_rows():
    for recipe, own in {**METHODS, **CAUSES, **BANDS}.values():
        make_methods(recipe, own.get('hyper'))
    for table in published.TABLES.values():
        for rows in table.values():
            assert set(rows) <= set(METHODS)
    assert {recipe for recipe, _ in OURS.values()} == {'harmofl', 'harmofl_release'}


def test_the_presets_are_the_papers_hospitals():
    """Five of equal size to classify, six that keep theirs to segment."""
    for preset, sizes in (('smoke', [100] * 5), ('smoke_segmentation', [80, 60, 100, 50, 70, 40])):
        words = dict(
            line.split('=', 1) for line in (HERE / f'{preset}.flags').read_text().splitlines() if '#' not in line
        )
        names = {'num_clients': int, 'task': str, 'truncate': lambda v: v == 'true'}
        options = {k: convert(words[k]) for k, convert in names.items() if k in words}
        if 'client_sizes' in words:
            options['client_sizes'] = [int(n) for n in words['client_sizes'].split(',')]
        data = make_scenario(words['scenario'], **options, test_size=1, image_size=16)
        assert data.sizes.tolist() == sizes and data.task == words.get('task', 'classification')
        assert int(words['rounds']) * int(words['local_epochs']) % math.lcm(*figures.EPOCHS) == 0  # Figure 5b


def test_decide_is_smoke_with_five_seeds():
    smoke = preset_config('harmofl', 'smoke')
    assert preset_config('harmofl', 'decide') == smoke.changed(seeds=(0, 1, 2, 3, 4), checkpoint_every=16)


@pytest.fixture(scope='module')
def study(tmp_path_factory):
    return Study(SMALL, tmp_path_factory.mktemp('study'), quiet=True)


@pytest.fixture(scope='module')
def run(study):
    return study.run('harmofl', norm='stateless')[0]


def test_scores_of_a_run_are_those_of_its_summary(run):
    names, cells = scores(run)
    summary = json.loads((run / 'summary.json').read_text())
    means = 100 * np.array(summary['global']['group_accuracy']['mean'])
    assert names == ('hospital 1', 'hospital 2', 'hospital 3')
    np.testing.assert_allclose([mean for mean, _ in cells], [*means, means.mean()])
    assert cells[-1][1] == pytest.approx(means.std(ddof=1))
    rounds, values = curve(run)
    assert rounds.tolist() == [1, 2] and values.shape == (2, 2)
    chosen = [values[seed, number - 1] for seed, number in enumerate(summary['selected_rounds'])]
    assert np.mean(chosen) == pytest.approx(means.mean())


def test_pictures_of_classification(study, run, monkeypatch):
    monkeypatch.setattr(pictures, 'folder_of', lambda study, method: run)
    monkeypatch.setattr(pictures, 'AROUND', ('HarmoFL',))
    for figure in ('1', '2', '3'):
        figures.FIGURES[figure](study)
        assert (study.out / f'figure{figure}.png').stat().st_size > 5_000
    numbers = json.loads((study.out / 'figure1.json').read_text())['numbers']['HarmoFL']
    assert len(numbers['centre']) == 2 and all(np.isfinite(numbers['centre'])) and numbers['distance'] >= 0
    with pytest.raises(ValueError, match='figure=4 shows segmentation, but the data are for classification'):
        figures.FIGURES['4'](study)
    with pytest.raises(ValueError, match='choose preset=smoke_segmentation, or another preset of it'):
        need(study, 'segmentation', '`table`=1')


def test_the_common_amplitude_counts_hospitals_the_same():
    data = load_federation(SMALL.changed(client_sizes=(4, 6, 5), validation=0.0, select='last_k'))
    rows = [data.index[c, :n] for c, n in enumerate(data.sizes)]
    each = [mean_amplitude(as_float(np.asarray(data.x[r]))) for r in rows]
    found = pictures.common_amplitude(data)
    np.testing.assert_allclose(found, np.mean(each, 0), rtol=1e-5, atol=1e-4)
    own = amplitude_normalize(as_float(np.asarray(data.x[rows[0]])), found)
    np.testing.assert_allclose(mean_amplitude(own), found, rtol=1e-3, atol=1e-2)


def test_outlines_are_drawn_with_the_models_of_clients(tmp_path, monkeypatch):
    study = Study(NUCLEI, tmp_path, quiet=True)
    folder = study.run('fedbn')[0]
    found = pictures._segmented(folder)
    assert found.shape == (3, 4, 16, 16) and set(np.unique(found)) <= {0, 1}
    found = json.loads((folder / 'summary.json').read_text())['deployed']
    nuclei, all_classes = (100 * np.array(found[f'group_{name}']['mean']) for name in ('dice', 'dice_with_background'))
    assert foreground(folder) == pytest.approx((nuclei.mean(), nuclei.std(ddof=1)))
    np.testing.assert_allclose([mean for mean, _ in scores(folder)[1][:-1]], all_classes)  # the published metric
    monkeypatch.setattr(pictures, 'folder_of', lambda study, method: folder)
    figures.FIGURES['4'](study)
    assert (tmp_path / 'figure4.png').stat().st_size > 5_000


ENTRY = {'baseline': 'FedAvg', 'margin': 1.0, 'counts': 'nothing', 'seeds': [0], 'notes': [], 'measures': {}}


@pytest.fixture
def asked(monkeypatch):
    """What tables and figures ask for, answered without running it."""
    found = []

    def run(self, recipe, points=({},), **changes):
        found.append((recipe, changes))
        return [recipe for _ in points]

    monkeypatch.setattr(Study, 'run', run)
    cells = [(50.0, 1.0), (70.0, 2.0), (60.0, 10.0)]
    for module in (tables, figures):
        monkeypatch.setattr(module, 'scores', lambda folder: (('A', 'B'), cells))
    monkeypatch.setattr(tables, 'of_runs', lambda folders, baseline, keys: {**ENTRY, 'baseline': baseline})
    monkeypatch.setattr(tables, 'tested_on_one', lambda folder: False)
    monkeypatch.setattr(tables, 'foreground', lambda folder: (40.0, 3.0))
    monkeypatch.setattr(figures, 'curve', lambda folder: (np.array([1, 2, 3]), np.ones((2, 3))))
    return found


def test_tables_have_the_papers_shape(asked, tmp_path):
    for table, config, lines in (('1', NUCLEI, 2 + 15 + 14), ('2', SMALL, 2 + 15 + 7)):
        tables.show(Study(config, tmp_path), table)
        text = (tmp_path / f'table{table}.md').read_text().partition('against FedAvg')[0].splitlines()
        assert len([line for line in text if line.startswith('|')]) == lines, table
        ours = json.loads((tmp_path / f'table{table}.json').read_text())['numbers']['SiloBN']
        assert ours.get('foreground') == ([40.0, 3.0] if table == '1' else None)
    for recipe in ('harmofl', 'harmofl_release', 'amp_norm+uniform'):
        assert (recipe, {'norm': 'stateless'}) in asked
    assert ('fedbn', {}) in asked
    assert json.loads((tmp_path / 'table2.json').read_text())['data']['validation'] == [2, 2, 2]


@pytest.mark.parametrize(('figure', 'lines', 'values'), [('5a', len(CURVES), 3), ('5b', len(CURVES), 4), ('5c', 2, 5)])
def test_figures_of_the_ablation(asked, figure, lines, values, tmp_path):
    figures.FIGURES[figure](Study(SMALL.changed(rounds=8, eval_every=2), tmp_path))
    numbers = json.loads((tmp_path / f'figure{figure}.json').read_text())['numbers']
    assert len(numbers) == lines and all(len(line) == values for line in numbers.values())
    if figure == '5b':  # rounds times epochs stay the same
        assert ('fedbn', {'local_epochs': 4, 'rounds': 2, 'eval_every': 1}) in asked and ('fedbn', {}) in asked
        assert 'Epochs trained in all: 8, 8, 8, 8.' in (tmp_path / 'figure5b.md').read_text()
        figures.FIGURES[figure](Study(SMALL.changed(rounds=10), tmp_path))
        assert 'Epochs trained in all: 10, 10, 8, 8.' in (tmp_path / 'figure5b.md').read_text()


@pytest.mark.parametrize(('table', 'methods'), [('causes', CAUSES), ('bands', BANDS)])
def test_deciding_tables_compare_all_methods_with_every_baseline(asked, table, methods, tmp_path):
    tables.TABLES[table](Study(SMALL, tmp_path))
    record = json.loads((tmp_path / f'{table}.json').read_text())
    assert list(record['numbers']) == list(methods)
    assert asked == list(methods.values())
    baselines = {'causes': {'FedAvg', 'FedBN', NETWORK}, 'bands': {NETWORK}}[table]
    assert {one['baseline'] for one in record['evidence'].values()} == baselines <= set(methods)


def test_halves_are_those_of_the_released_code():
    """Mean alone and perturbation alone are HarmoFL's released code without one of its two methods."""
    (both, own), parts = OURS['HarmoFL, released code'], ('mean alone', 'perturbation alone')
    halves = [make_methods(CAUSES[part][0], CAUSES[part][1].get('hyper')) for part in parts]
    names = [{method.name for method in half} for half in halves]
    assert names[0] | names[1] == {method.name for method in make_methods(both)}
    assert CAUSES['mean alone'][1]['hyper'] == {'amp_norm.band': 'dc', 'amp_norm.seed': 'frozen_first_batch'}
    assert all(CAUSES[part][1]['norm'] == own['norm'] for part in parts)


def test_evidence_and_drift_end_to_end(tmp_path, monkeypatch):
    """Two methods, two seeds and a network that compiles fast: paired differences, and Gamma of every round."""
    fast = {'model': 'logreg', 'model_options': {}, 'norm': None, 'validation': 0.0, 'select': 'last_k'}
    study = Study(SMALL.changed(eval_every=2, **fast), tmp_path, quiet=True)
    two = {name: (DRIFTING[name][0], {**DRIFTING[name][1], 'norm': None}) for name in (NETWORK, 'mean alone')}
    monkeypatch.setattr(figures, 'DRIFTING', two)
    figures.FIGURES['drift'](study)
    record = json.loads((tmp_path / 'drift.json').read_text())
    drifts = {name: np.array(one['drift']) for name, one in record['numbers'].items()}
    assert all(values.shape == (2, 2) and np.all(values > 0) for values in drifts.values())
    (entry,) = record['evidence'].values()
    differ = np.log2(drifts['mean alone']).mean() - np.log2(drifts[NETWORK]).mean()
    assert entry['measures']['drift']['differences']['mean alone']['estimate'] == pytest.approx(differ)
    assert not entry['measures']['drift']['higher_is_better']
    found = tables.against(folders_of(study, two, '+track_drift'), (NETWORK,))[f'against {NETWORK}']
    accuracies = [scores(folder)[1][-1][0] for folder in folders_of(study, two, '+track_drift').values()]
    level = found['measures']['avg']['levels']['mean alone']
    assert np.mean(level['values']) == pytest.approx(accuracies[1])
    assert found['measures']['avg']['differences']['mean alone']['estimate'] == pytest.approx(-np.subtract(*accuracies))


def test_clients_of_one_test_patient_are_judged_by_seeds(study, run, monkeypatch):
    """They keep their part in the mean over clients; whatever is between two runs here is between their seeds."""
    folders = {'FedAvg': study.run('fedavg')[0], 'HarmoFL': run}
    assert tables.against(folders, ('FedAvg',))['against FedAvg']['counts'] == 'seeds and test examples'
    monkeypatch.setattr(tables, 'tested_on_one', lambda folder: True)
    (entry,) = tables.against(folders, ('FedAvg',)).values()
    assert entry['counts'] == 'seeds alone' and 'single patient' in entry['notes'][0]
    for name, folder in folders.items():
        each, (_, cells) = by_seed(folder), scores(folder)
        np.testing.assert_allclose(each.mean(0), [mean for mean, _ in cells[:-1]])
        values = [entry['measures'][key]['levels'][name]['values'] for key in ('avg', 'spread', 'worst')]
        np.testing.assert_allclose(values, [each.mean(1), each.std(1, ddof=1), each.min(1)])
    assert not entry['measures']['spread']['higher_is_better'] and entry['measures']['worst']['higher_is_better']


@pytest.mark.parametrize(('patients', 'told'), [([5, 1, 3], True), ([5, 2, 3], False), (None, False)])
def test_single_test_patients_are_found_in_the_summary(patients, told, tmp_path, monkeypatch):
    monkeypatch.setattr(study_of_harmofl.results, 'summary', lambda folder: {'tests': {'patients': patients}})
    assert study_of_harmofl.tested_on_one(tmp_path) == told


def test_claims_name_what_the_deciding_tables_compare():
    rows = {'causes': CAUSES, 'bands': BANDS, 'drift': DRIFTING}
    claims = claims_of('harmofl')
    for place in (place for claim in claims for place in claim.places):
        preset, table = place.record.removesuffix('.json').split('/')
        assert (HERE / f'{preset}.flags').exists()
        assert place.method in rows[table] and place.entry.removeprefix('against ') in rows[table]
        assert place.measure in (('drift',) if table == 'drift' else ('avg', 'spread', 'worst'))


def test_claims_name_the_reading_of_harmofl():
    readings = {'HarmoFL': "the paper's reading", 'HarmoFL, released code': 'released code', 'band full': "the paper's"}
    readings['perturbation alone'] = 'both readings'
    for claim in claims_of('harmofl'):
        assert readings[claim.place.method] in claim.words
        if claim.place.entry in ('against FedAvg', 'against FedBN'):  # whose network is another one
            assert 'another batch norm' in claim.words
            assert 'against FedAvg, its network' in {place.entry for place in claim.follow_ups.values()}
