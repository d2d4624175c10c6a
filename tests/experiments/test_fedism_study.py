"""The study of FedISM: its numbers by hand, its published rows in agreement with themselves, one run end to end."""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.fedism import figures, published, tables
from experiments.fedism.landscape import SETS, landscape
from experiments.fedism.study import ABLATION, COLUMNS, HERE, METHODS, SALTED, scores
from experiments.landscape import direction
from experiments.study import Study, cell, main, markdown
from fedjax_fair.methods import make_methods
from fedjax_fair.training import Config

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
    sharpness = tables.sharpness_of_clients(folder)
    assert sharpness.shape == (2, 4) and (sharpness > 0).all()
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


@pytest.fixture
def asked(monkeypatch):
    """What tables and figures ask for, answered without running it."""
    found = []

    def answer(study, recipe, **changes):
        found.append((recipe, changes))
        return {column: (50.0 + len(recipe), 1.0) for column in COLUMNS}

    for module in (tables, figures):
        monkeypatch.setattr(module, 'scores_of', answer)
    monkeypatch.setattr(figures, 'scores', lambda folder: answer(None, folder))
    monkeypatch.setattr(Study, 'run', lambda self, recipe, points=({},), **changes: [recipe for _ in points])
    monkeypatch.setattr(tables, 'sharpness_of_clients', lambda folder: np.array([[1.0, 3.0], [1.0, 5.0]]))
    return found


def test_every_table_has_the_papers_shape(asked, tmp_path):
    study = Study(CONFIG, tmp_path)
    lines = {'1': 14, '2': 8, '3': 12, '5': 8, '6': 8, '7': 9, '8': 14}
    for table, count in lines.items():
        tables.TABLES[table](study)
        text = (tmp_path / f'table{table}.md').read_text()
        assert len([line for line in text.splitlines() if line.startswith('|')]) == count + 2, table
    assert ('fedism', {'corrupted_ratio': 0.3}) in asked and ('fedism', {'corrupted_ratio': 0.1}) in asked
    assert ('fedga+logit_adjust+salt', {}) in asked
    assert ('fedce+logit_adjust', {'corruption': 'motion_blur', 'severity': 1}) in asked
    assert json.loads((tmp_path / 'table7.json').read_text())['numbers']['FedISM']['std'] == [1.0, 2.0]


@pytest.mark.parametrize(('figure', 'points'), [('4', 3), ('5', 6), ('6', 5)])
def test_every_figure_has_its_three_lines(asked, figure, points, tmp_path):
    figures.FIGURES[figure](Study(CONFIG, tmp_path))
    kept = json.loads((tmp_path / f'figure{figure}.json').read_text())['numbers']
    assert len(kept) == 3 and all(len(line) == points for line in kept.values())
    assert (tmp_path / f'figure{figure}.png').exists()


def test_an_unknown_preset_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['tables', '--preset=large'])
    with pytest.raises(SystemExit):
        main('table', {'1': print, '2': print}, HERE)
    assert '--preset=large is not one of paper, smoke, tissue' in capsys.readouterr().err
