"""The study of FedLD: every published row is there, and tables read runs of each split."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds
from small_fedld import CONFIG, invented, read, small

from experiments.fedld import claims, figures, published, study, tables
from experiments.published import preset_config
from experiments.study import Study
from fedjax_fair.data.sources.tfds_store import prepare
from fedjax_fair.errors import UserError
from fedjax_fair.training import load_federation

TWO = {name: study.PAPER[name] for name in ('FedAvg', 'FedLD')}


def test_every_table_has_all_rows():
    assert set(published.TABLE1) == set(published.TABLE3) == set(study.PAPER)
    assert set(published.TABLE2) == set(study.HALVES)
    assert set(study.LAMBDAS) == {*published.SPLITS, published.PRINTED, published.MANY, published.SITES}
    assert study.ALPHAS[published.PRINTED] == 0.1 and study.ALPHAS['Split-2'] == 1


def test_a_row_has_the_margin_of_its_column():
    assert study.PAPER['FedLD'].at('Split-1') == {'fedld.lam': 0.1}
    frozen = study.FROZEN['FedLD, code, frozen statistics'].at(published.SITES)
    assert frozen == {'fedld_code.lam': 0.01, 'fedld_code.frozen': True}
    assert study.PAPER['FedGH'].at('Split-1') == {}


def test_a_run_of_a_split_is_kept_by_its_settings(tmp_path):
    found = study.ran(small(tmp_path), study.HALVES[True, False], study.SPLITS['Split-2'])
    (summary,) = (tmp_path / 'runs').rglob('summary.json')
    assert summary.parent == found and found.parent.name == 'alpha=1.0,margin.lam=0.03'
    kept, shown = read(summary)['global'], study.accuracies(found)
    assert shown == {'global': (100 * kept['accuracy']['mean'], 100 * kept['accuracy']['std'])}
    assert shown['global'][0] == pytest.approx(100 * kept['client_mean']['mean'])  # one test set: the same


@pytest.fixture
def asked(monkeypatch):
    """What tables ask for, without a run: the rows, columns and pairs that are compared."""
    found = []

    def ran(study, row, column):
        found.append((study.config.scenario, row.recipe, column))
        return row.recipe

    def compared(runs, baseline, methods):
        others = methods or [name for name in runs if name != baseline]
        differences = {name: {'estimate': 1.0, 'lo': 0.5, 'hi': 1.5, 'verdict': 'better'} for name in others}
        measures = {'avg': {'about': 'accuracy', 'differences': differences}}
        return {'baseline': baseline, 'seeds': [0], 'counts': 'all', 'notes': [], 'measures': measures}

    def accuracies(folder):
        return {'global': (1.5, 0.25)} | ({'own': (2.5, 0.75)} if folder == 'fedpac' else {})

    monkeypatch.setattr(tables, 'ran', ran)
    monkeypatch.setattr(tables, 'compared', compared)
    monkeypatch.setattr(tables, 'accuracies', accuracies)
    return found


PAPERS_OWN = {'1': '52.81', 'printed': '71.64', 'sites': '56.34', '2': '81.96', '3': '71.30'}


@pytest.mark.parametrize('table', PAPERS_OWN)
def test_tables_show_both_sides(table, asked, tmp_path, capsys):
    tables.TABLES[table](tables.arranged(Study(CONFIG, tmp_path), table))
    shown = capsys.readouterr().out
    assert shown.count('1.50 (0.25)') == len(asked)
    assert ('own 2.50 (0.75)' in shown) == (table != '2')
    assert PAPERS_OWN[table] in shown and '+1.00 [0.50, 1.50] better' in shown
    assert {scenario for scenario, *_ in asked} == {'tissue' if table == 'sites' else 'digits_common'}
    assert (asked[0][2].changes == {'num_clients': 50, 'participation': 0.1}) == (table == '3')


def test_fifty_clients_are_also_shown_without_batch_statistics(asked, tmp_path, capsys):
    tables.many(Study(CONFIG, tmp_path))
    columns = read(tmp_path / 'table3.json')['data']['columns']
    assert [one.get('norm') for one in columns.values()] == [None, 'group']
    assert {one['num_clients'] for one in columns.values()} == {50}
    shown = capsys.readouterr().out
    (paper,) = [line.split('|') for line in shown.splitlines() if '71.30' in line]
    assert 'digits_common, 50 clients with' in shown and not paper[4].strip()
    asked.clear()
    tables.many(Study(CONFIG.changed(pretrained='$DATA/resnet50.npz'), tmp_path))
    assert {column.changes.get('norm') for *_, column in asked} == {None}


@pytest.mark.parametrize('preset', sorted(path.stem for path in study.HERE.glob('*.flags')))
def test_every_preset_warms_the_authors_code_up(preset):
    own = Study(preset_config('fedld', preset), study.HERE)
    for row in (study.CODE['FedLD, code'], *study.FROZEN.values()):
        hyper = own.settings(row.recipe, row.at(published.MANY)).hyper
        assert hyper['fedld_code.warmed_up'] is True


def test_the_deciding_tables_average_evaluations(tmp_path):
    own = Study(preset_config('fedld', 'decide'), tmp_path)
    assert own.config.last_k == 5 and own.config.rounds // own.config.eval_every >= 2 * 5


@pytest.mark.parametrize(('table', 'name'), [('1', 'table1'), ('2', 'table2')])
def test_other_readings_and_lengths_stand_beside_the_paper(table, name, asked, tmp_path, capsys):
    tables.TABLES[table](Study(CONFIG, tmp_path))
    (entry,) = [one for key, one in read(tmp_path / f'{name}.json')['evidence'].items() if key == 'Split-3']
    others = {'FedLD, code', 'FedLD, code, frozen statistics', 'principal, sum of all', 'FedAvg, step x 1.2'}
    assert others < set(entry['measures']['avg']['differences'])
    assert ('fedgh_pcgrad' in {recipe for _, recipe, _ in asked}) == (table == '1')


def test_claims_are_about_differences_that_tables_and_figures_record(asked, tmp_path, capsys):
    (tmp_path / 'decide').mkdir()
    own = Study(CONFIG, tmp_path / 'decide')
    tables.decide(own)
    tables.many(own)
    records = {f'decide/{name}.json': read(own.out / f'{name}.json')['evidence'] for name in ('decide', 'table3')}
    records['decide/figure2.json'] = figures.evidence_of(
        {f'{alpha:g}': invented(alpha) for alpha in figures.ALPHAS}, own.config.seeds
    )
    for place in (place for claim in claims.CLAIMS for place in claim.places):
        assert place.method in records[place.record][place.entry]['measures'][place.measure]['differences'], place


def test_evidence_is_that_of_the_predictions(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, 'PAPER', TWO)
    tables.printed(small(tmp_path))
    kept = read(tmp_path / 'table1_printed.json')
    measure = kept['evidence'][published.PRINTED]['measures']['avg']
    for name in TWO:
        assert np.mean(measure['levels'][name]['values']) == pytest.approx(
            kept['numbers'][published.PRINTED][name]['global'][0], abs=1e-4
        )
    difference = measure['differences']['FedLD']
    assert difference['lo'] < difference['estimate'] < difference['hi'] and difference['kappa'] > 0


def test_results_tell_what_every_column_ran(asked, tmp_path, capsys):
    tables.splits(Study(CONFIG, tmp_path))
    tables.many(Study(CONFIG, tmp_path))
    columns = read(tmp_path / 'table1.json')['data']['columns']
    assert {name: (one['alpha'], one['lam']) for name, one in columns.items()} == {
        'Split-1': (100.0, 0.1),
        'Split-2': (1.0, 0.03),
        'Split-3': (0.5, 0.03),
    }
    spread = [np.std(one['train']) for one in columns.values()]
    assert all(len(one['train']) == 5 for one in columns.values()) and spread[0] < spread[1] and spread[0] < spread[2]
    many = read(tmp_path / 'table3.json')['data']['columns'][published.MANY]
    assert (many['num_clients'], many['participation'], many['alpha'], len(many['train'])) == (50, 0.1, 0.5, 50)


# --- data as their publishers ship them ------------------------------------------------------------------------------

DEALT = {'split_1': (8, 8, 8), 'split_2': (12, 8, 4), 'split_3': (16, 4, 4)}  # images of each client


@pytest.fixture
def retina(tmp_path):
    """24 training images and six for testing in the layout of SSL-FL, dealt out in three ways."""
    folder = tmp_path / 'retina'
    names = [f'{k}.npy' for k in range(30)]
    for phase, chosen in (('train', range(24)), ('test', range(24, 30))):
        (folder / phase).mkdir(parents=True)
        for k in chosen:
            np.save(folder / phase / names[k], np.full((8, 8, 3), 8.0 * k, np.float32))
    (folder / 'labels.csv').write_text(''.join(f'{name},{k % 2}\n' for k, name in enumerate(names)))
    (folder / 'test.csv').write_text('\n'.join(names[24:]))
    for split, sizes in DEALT.items():
        (folder / '5_clients' / split).mkdir(parents=True)
        ends = np.cumsum(sizes)
        for number, (end, size) in enumerate(zip(ends, sizes, strict=True)):
            (folder / '5_clients' / split / f'client_{number + 1}.csv').write_text('\n'.join(names[end - size : end]))
    return f'ssl_fl:{folder}'


def test_published_splits_are_run_with_their_own_margins(retina, asked, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, 'ran', study.ran)
    runs = []
    monkeypatch.setattr(Study, 'run', lambda self, recipe, **changes: runs.append((recipe, changes)) or [recipe])
    own = small(tmp_path, scenario=retina, source_options='split=split_1', num_clients=2)
    tables.splits(tables.arranged(own, '1'))
    columns = read(tmp_path / 'table1.json')['data']['columns']
    assert [tuple(one['train']) for one in columns.values()] == list(DEALT.values())
    assert all(one['test'] == [6] for one in columns.values())
    margins = {one['source_options']: one['hyper']['fedld.lam'] for recipe, one in runs if recipe == 'fedld'}
    assert margins == {'split=split_1': 0.1, 'split=split_2': 0.03, 'split=split_3': 0.03}
    assert len(runs) == 3 * len(tables.ALL_METHODS) and all('alpha' not in one for _, one in runs)


def test_splits_of_the_papers_own_are_drawn_from_the_published_images(retina, tmp_path):
    own = small(tmp_path, scenario=retina, source_options='split=split_1')
    assert study.settings(own, study.PRINTED[published.PRINTED]) == {'alpha': 0.1}
    assert study.settings(own, study.MANY[published.MANY])['alpha'] == 0.5


class TinyFashion(tfds.core.GeneratorBasedBuilder):
    """Three classes of images in the form of Fashion-MNIST, made without a network."""

    VERSION = tfds.core.Version('1.0.0')

    def _info(self):
        features = {
            'image': tfds.features.Tensor(shape=(8, 8, 1), dtype=np.uint8),
            'label': tfds.features.ClassLabel(num_classes=3),
        }
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(count) for split, count in (('train', 120), ('test', 30))}

    def _generate_examples(self, count):
        for key in range(count):
            yield key, {'image': np.full((8, 8, 1), 80 * (key % 3), np.uint8), 'label': key % 3}


def test_a_set_of_tensorflow_datasets_is_read_for_a_table(asked, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    prepare('tiny_fashion', str(tmp_path / 'sets'))
    options = f'data_dir={tmp_path / "sets"}'
    own = small(tmp_path, scenario='tfds:tiny_fashion', source_options=options, classes=(0, 2), num_clients=2)
    tables.printed(own)
    kept = read(tmp_path / 'table1_printed.json')
    (column,) = kept['data']['columns'].values()
    assert sum(column['train']) == 80 and column['test'] == [20]
    assert list(column['sha256']) == ['training examples'] and str(tmp_path) not in json.dumps(kept)
    assert 'classes 0, 2 alone' in capsys.readouterr().out


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
    monkeypatch.setattr(tables, 'PAPER', TWO)
    monkeypatch.setattr(tables, 'CODE', {})
    own = tables.arranged(small(tmp_path / 'out', scenario=three_sites, batch_size=10, lr=0.03), 'sites')
    own.out.mkdir()
    tables.sites(own)
    kept = read(tmp_path / 'out' / 'table1_sites.json')
    data = kept['data']['columns'][published.SITES]
    assert len(data['train']) == len(data['test']) == 3
    assert sorted(np.add(data['train'], data['test'])) == sorted(count for count, _ in SITES.values())
    (history,) = (tmp_path / 'out').rglob('fedld/metrics.jsonl')
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
