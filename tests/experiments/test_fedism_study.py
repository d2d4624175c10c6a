"""The study of FedISM: its numbers by hand, its published rows in agreement with themselves, one run end to end."""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from absl.testing import flagsaver

from experiments.claims import method_of
from experiments.fedism import claims, deciding, figures, published, sharpness, tables
from experiments.fedism.landscape import SETS, landscape
from experiments.fedism.study import ABLATION, COLUMNS, HERE, METHODS, SALTED, evidence_of, folders_of, scores
from experiments.landscape import direction
from experiments.published import preset_config
from experiments.study import Study, cell, known_hyper, main, markdown
from fedjax_fair.errors import UserError
from fedjax_fair.methods import make_methods
from fedjax_fair.results import write_json
from fedjax_fair.training import Config, finished
from fedjax_fair.training.tuning import make_plan

CONFIG = Config().changed(
    scenario='quality_shift:digits',
    num_clients=4,
    corrupted_ratio=0.25,
    test_size=40,
    model='logreg',
    rounds=2,
    seeds=(0, 1),
    eval_every=1,
    devices=1,
)


def test_columns_pool_the_last_evaluations_of_all_seeds(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.uniform(size=(7, 3, 2, 2))  # round, seed, score, kind
    with (tmp_path / 'metrics.jsonl').open('w') as file:
        for number, per_seed in enumerate(values):
            for seed, (acc, auc) in enumerate(per_seed):
                found = {'group_balanced_accuracy': acc.tolist(), 'group_auc_ovo': auc.tolist()}
                file.write(json.dumps({'round': number, 'seed': seed, 'global': found}) + '\n')
    found, last = scores(tmp_path), 100 * values[2:].reshape(15, 2, 2)
    assert tuple(found) == COLUMNS
    assert found['corrupted AUC'] == pytest.approx((last[:, 1, 1].mean(), last[:, 1, 1].std()))
    average = last[:, 0].mean(1)
    assert found['average ACC'] == pytest.approx((average.mean(), average.std()))


@pytest.mark.parametrize('table', [*published.NOISE.values(), *published.BLUR.values(), *published.RATIOS.values()])
def test_published_averages_are_the_means_of_clean_and_corrupted(table):
    for row in table.values():
        for score in range(2):
            assert row[4 + score][0] == pytest.approx((row[score][0] + row[2 + score][0]) / 2, abs=0.02)


def test_every_method_of_the_tables_exists_and_has_its_published_row():
    for recipe in (*METHODS.values(), *SALTED.values(), *ABLATION.values()):
        make_methods(recipe)
    for table in (*published.NOISE.values(), *published.BLUR.values()):
        assert set(METHODS) <= set(table)
    for table in published.RATIOS.values():
        assert set(ABLATION) <= set(table)
    assert set(published.SALT) == set(SALTED) and set(published.SHARPNESS) == set(METHODS)


def test_filters_of_a_direction_are_as_long_as_the_models():
    params = {'conv': jnp.arange(24.0).reshape(2, 3, 4), 'bias': jnp.ones(4)}
    found = direction(jax.random.key(0), params)
    np.testing.assert_allclose(
        np.linalg.norm(found['conv'].reshape(6, 4), axis=0),
        np.linalg.norm(params['conv'].reshape(6, 4), axis=0),
        rtol=1e-5,
    )
    assert not found['bias'].any()


def test_a_table_is_aligned():
    assert markdown(['a', 'bb'], [['ccc', 'd']]) == ['| a   | bb |', '| --- | -- |', '| ccc | d  |']
    assert cell((1.0, 0.5)) == '1.00 (0.50)' and cell((1.0, float('nan'))) == '1.00'


@pytest.fixture(scope='module')
def study(tmp_path_factory):
    return Study(CONFIG, tmp_path_factory.mktemp('study'), quiet=True)


def test_a_run_is_measured_and_found_again(study):
    (folder,) = study.run('fedavg')
    before = (folder / 'summary.json').stat().st_mtime_ns
    assert study.run('fedavg') == [folder] and (folder / 'summary.json').stat().st_mtime_ns == before
    found = sharpness.sharpness_of_clients(folder)
    assert found.shape == (2, 4) and (found > 0).all()
    around = landscape(folder)
    assert set(around.losses) == set(SETS)
    for losses in around.losses.values():
        middle = len(around.axis) // 2
        assert np.isfinite(losses).all() and losses[middle, middle] < losses.mean()


def test_a_sweep_is_drawn_beside_its_rivals(study, monkeypatch, capsys):
    monkeypatch.setattr(figures, 'METHODS', {'FedAvg': 'fedavg', 'q-FedAvg': 'qfedavg', 'FedISM': 'fedavg'})
    figures.swept(study, 'figure5', 'fedism.q', (0.5, 2.0))
    assert (study.out / 'figure5.png').stat().st_size > 10_000
    kept = json.loads((study.out / 'figure5.json').read_text())
    assert set(kept['numbers']) == {'FedISM', 'FedAvg', 'second best: q-FedAvg'}
    assert kept['numbers']['FedISM']['0.5'] != kept['numbers']['FedISM']['2.0']
    assert kept['data']['name'] == 'quality_shift:digits' and sum(kept['data']['train']) == 1258
    assert 'Compare methods within a column' in capsys.readouterr().out


def test_evidence_has_the_means_of_the_kept_evaluations(study):
    folders = folders_of(study, {'FedAvg': 'fedavg', 'other': 'fedprox'})
    found = evidence_of(folders, 'FedAvg', 'other')
    assert set(found) == {f'{score} against {name}' for score in ('ACC', 'AUC') for name in folders}
    for score in ('ACC', 'AUC'):
        levels = found[f'{score} against FedAvg']['measures']['site:corrupted']['levels']
        lines = [json.loads(line) for line in (folders['FedAvg'] / 'metrics.jsonl').read_text().splitlines()]
        name = {'ACC': 'group_balanced_accuracy', 'AUC': 'group_auc_ovo'}[score]
        last = [100 * line['global'][name][1] for line in lines if line['round'] == 2]
        assert levels['FedAvg']['values'] == pytest.approx(last, abs=1e-3)


def test_a_length_is_that_of_all_parameters(study):
    (folder,) = study.run('fedavg')
    length = deciding.length_of(folder)
    _, states = finished(folder)
    last = [optax.tree.norm(jax.tree.map(lambda leaf, s=s: leaf[s], states.variables['params'])) for s in range(2)]
    assert length.first == 0.0, 'logistic regression starts at zero'
    assert length.last == pytest.approx(np.mean(last)) and length.last > 0


@pytest.fixture
def asked(monkeypatch):
    """What tables and figures ask for, answered without running it."""
    found = []

    def run(study, recipe, points=({},), **changes):
        found.append((recipe, {**changes, **study.config.hyper}))
        return [recipe for _ in points]

    monkeypatch.setattr(Study, 'run', run)
    for module in (tables, figures, deciding):
        monkeypatch.setattr(module, 'scores', lambda recipe: {name: (50.0 + len(recipe), 1.0) for name in COLUMNS})
        monkeypatch.setattr(module, 'evidence_of', lambda folders, *baselines: {})
    monkeypatch.setattr(deciding, 'length_of', lambda folder: deciding.Length(5.0, 10.0))
    values = np.array([[1.0, 3.0], [1.0, 5.0]])
    monkeypatch.setattr(sharpness, 'sharpness_of_clients', lambda recipe: values * len(recipe))
    return found


def test_every_table_has_the_papers_shape(asked, tmp_path):
    study = Study(CONFIG, tmp_path)
    lines = {'1': 14, '2': 8, '3': 12, '5': 8, '6': 8, '8': 14}
    for table, count in lines.items():
        tables.TABLES[table](study)
        text = (tmp_path / f'table{table}.md').read_text()
        assert len([line for line in text.splitlines() if line.startswith('|')]) == count + 2, table
    assert ('fedism', {'corrupted_ratio': 0.3}) in asked and ('fedism', {'corrupted_ratio': 0.1}) in asked
    assert ('fedga+logit_adjust+salt', {}) in asked
    assert ('fedce+logit_adjust', {'corruption': 'motion_blur', 'severity': 1}) in asked


def test_sharpness_over_clients_is_compared_with_fedavg_seed_by_seed(asked, tmp_path):
    tables.TABLES['7'](Study(CONFIG, tmp_path))
    kept = json.loads((tmp_path / 'table7.json').read_text())
    assert kept['numbers']['FedISM']['std'] == [6.0, 12.0] and len(kept['numbers']) == 9
    spread = kept['evidence']['sharpness']['measures']['std']
    assert spread['differences']['FedISM']['estimate'] == pytest.approx(9.0 - 1.5 * len('fedavg+logit_adjust'))
    assert not spread['higher_is_better']


def test_deciding_tables_have_a_row_for_every_run(asked, tmp_path):
    names = [name for name in deciding.TABLES if name != 'tuned']
    for name in names:
        tables.TABLES[name](Study(CONFIG, tmp_path))
    rows = {name: set(json.loads((tmp_path / f'{name}.json').read_text())['numbers']) for name in names}
    assert rows['decide'] == rows['sharpness'] == {*ABLATION, 'q-FedAvg', 'FairFed'}
    assert rows['matched'] == set(ABLATION) and rows['batch_norm'] == {'FedAvg', 'FedISM'}
    assert len(rows['radius']) == 1 + 2 * len(deciding.RADII)
    radii = {'salt.rho': 0.002, 'saga.rho': 0.002, 'fedism.rho': 0.002}  # 0.05 x 5 / 111.7
    assert (
        ('fedism', radii) in asked and ('fedism', {'norm': 'batch'}) in asked and ('fedism', {'seeds': (0, 1)}) in asked
    )
    assert {'FedISM, rho 0.002 (0.02 %)', 'FedAvg+SALT, rho 0.1 (1 %)'} < rows['radius']  # of a length of 10


def test_q_and_beta_alone_are_tuned(asked, monkeypatch, tmp_path, capsys):
    """Trials are planned as the program plans them, and none is run."""
    points = []

    def planned(config, recipes, out, *, budget, space, resume, quiet):
        options = {'objective': 'mean', 'halving': 0, 'seeds_per_trial': 1, 'search_seed': 0}
        plan = make_plan(config, recipes, budget=budget, space=space, **options)
        points.extend(plan.points['fedism'])
        out.mkdir(parents=True)
        write_json(out / 'tuning.json', plan.record())
        return plan.record()

    monkeypatch.setattr(deciding, 'tune', planned)
    monkeypatch.setattr(deciding, 'scores', lambda folder: dict.fromkeys(COLUMNS, (50.0, 1.0)))
    tables.TABLES['tuned'](Study(preset_config('fedism', 'smoke'), tmp_path))
    tried = {name: {point[name] for point in points} for name in points[0]}
    assert {name for name, values in tried.items() if len(values) > 1} == {'fedism.q', 'fedism.beta'}
    assert len(points) == 8 and tried['lr'] == {0.001} and tried['fedism.rho'] == {0.05}
    assert points[0] == {name: min(values) for name, values in tried.items()} | {'fedism.q': 2.0, 'fedism.beta': 0.5}
    kept = json.loads((tmp_path / 'tuned.json').read_text())
    assert set(kept['numbers']['scores']) == {'FedISM, as published', 'FedISM, tuned'}
    assert len(kept['numbers']['tuning']['recipes']['fedism']['trials']) == 8
    assert 'Every recipe has the same budget: 8 trials of 40 rounds' in (tmp_path / 'tuned.md').read_text()


def test_claims_name_differences_that_the_deciding_tables_have(asked, monkeypatch, tmp_path):
    def entries(folders, *baselines):
        rows = {'measures': {key: {'differences': dict.fromkeys(folders)} for key in ('site:clean', 'site:corrupted')}}
        return {f'{score} against {baseline}': rows for score in ('ACC', 'AUC') for baseline in baselines}

    monkeypatch.setattr(deciding, 'evidence_of', entries)
    monkeypatch.setattr('experiments.study.differences', lambda evidence: [])
    for name in [name for name in deciding.TABLES if name != 'tuned']:
        tables.TABLES[name](Study(CONFIG, tmp_path))
    for place in (place for claim in claims.CLAIMS for place in claim.places):
        record = json.loads((tmp_path / place.record.removeprefix('fashion-mnist/')).read_text())
        differences = record['evidence'][place.entry]['measures'][place.measure]['differences']
        assert method_of(differences, place.method) in differences


def test_claims_say_which_rivals_are_not_tuned():
    untuned = {'q-FedAvg': 'qfedavg.q', 'FairFed': 'fairfed.beta'}
    for claim in claims.CLAIMS:
        if name := untuned.get(claim.place.method):
            key = name.partition('.')[2]
            value = published.SETTINGS['paper'][name].expected
            assert f'({key} = {value:g}; the paper tunes {key}, here it is not tuned)' in claim.words


@pytest.mark.parametrize(
    ('name', 'stands_for'),
    [
        ('quality_shift:digits', published.ISIC),
        ('quality_shift:ffl4mia:ISIC2019_20', published.ISIC),
        ('quality_shift:fed_isic2019:flamby', published.ISIC),
        ('quality_shift:npz:ham10000_sites_64', published.ISIC),
        ('quality_shift:ffl4mia:ICH_20', published.ICH),
        ('quality_shift:tissue', published.ICH),
    ],
)
def test_lesions_stand_beside_the_rows_of_isic(name, stands_for):
    assert tables.place(name) == stands_for


@pytest.mark.parametrize('preset', sorted(path.stem for path in HERE.glob('*.flags')))
def test_every_preset_trains_one_local_epoch_and_reports_five_rounds(preset):
    config = preset_config('fedism', preset)
    assert (config.local_epochs, config.eval_every, config.last_k) == (1, 1, 5)


def test_options_of_augmentations_apply_to_every_recipe(tmp_path):
    config = Config(augment='affine')
    given = known_hyper({'affine.translate': '0.02', 'fedism.q': '1'}, config)
    assert given == {'affine.translate': 0.02, 'fedism.q': 1.0}
    study = Study(config.changed(hyper=given), tmp_path)
    assert study.settings('fedavg').hyper == {'affine.translate': 0.02}
    with pytest.raises(UserError, match=r'affine\.translate=0\.02: '):
        known_hyper({'affine.translate': '0.02'})


@pytest.mark.parametrize(('figure', 'points'), [('4', 3), ('5', 6), ('6', 5)])
def test_every_figure_has_its_three_lines(asked, figure, points, tmp_path):
    figures.FIGURES[figure](Study(CONFIG, tmp_path))
    kept = json.loads((tmp_path / f'figure{figure}.json').read_text())['numbers']
    assert len(kept) == 3 and all(len(line) == points for line in kept.values())
    assert (tmp_path / f'figure{figure}.png').exists()


def test_an_unknown_preset_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['tables', '--preset=large'])
    with flagsaver.flagsaver(), pytest.raises(SystemExit):  # forgets the program's flags
        main('table', {'1': print, '2': print}, HERE)
    assert '--preset=large is not one of decide, paper, paper_isic, smoke, tiny, tissue' in capsys.readouterr().err
