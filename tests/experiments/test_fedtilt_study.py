"""The study of FedTilt: every published row is there, tables read runs, and tilting moves the toys' boundaries."""

import dataclasses
import json

import pytest

from experiments.fedtilt import figures, published, tables
from experiments.fedtilt.study import COLUMNS, CONDITIONS, TOY, data_set, measured
from experiments.study import Study
from fedjax_fair.training import Config

CONFIG = Config().changed(
    scenario='digits_labels',
    num_clients=5,
    participation=0.6,
    model='logreg',
    rounds=2,
    seeds=(0, 1),
    eval_every=2,
    last_k=1,
    devices=1,
)


def test_every_table_has_all_rows_and_tilts():
    assert set(published.NUMBERS) == set(published.TILTS) == set(CONDITIONS)
    for table in CONDITIONS:
        assert set(published.NUMBERS[table]) == set(published.TILTS[table]) == set(figures.LAMBDAS)
        for rows in published.NUMBERS[table].values():
            assert set(rows) == {'FedAvg', 'Ditto', 'FedTilt'}


@pytest.mark.parametrize(
    ('scenario', 'name'),
    [('idx:$DATA/fashion-mnist', 'F-MNIST'), ('npz:a/cifar10.npz', 'CIFAR10'), ('digits_labels', 'MNIST')],
)
def test_a_data_set_is_known_by_its_name(scenario, name, tmp_path):
    assert data_set(Study(CONFIG.changed(scenario=scenario), tmp_path)) == name


def test_a_run_under_outliers_gives_the_numbers_of_all_three_models(tmp_path):
    found = measured(Study(CONFIG, tmp_path, quiet=True), '3', 'FedTilt')
    assert set(found) == {'global', 'adapted', 'personal'}
    assert found['personal'] != found['global']
    (summary,) = (tmp_path / 'runs').rglob('summary.json')
    assert summary.parent.parent.name == 'outliers=pixels,fedtilt.tau=-0.5,fedtilt.lam=1.0'
    kept = json.loads(summary.read_text())
    assert found['personal']['mu_sigma'][0] == pytest.approx(100 * kept['deployed']['mu_sigma']['mean'])


def test_a_table_shows_the_papers_rows_and_what_was_not_run(tmp_path, monkeypatch, capsys):
    numbers = {'personal': {column: (1.5, 0.25) for column in COLUMNS}}
    monkeypatch.setattr(tables, 'measured', lambda study, table, method: numbers)
    tables.show(Study(CONFIG, tmp_path), '3')
    assert json.loads((tmp_path / 'table3.json').read_text())['numbers']['Ditto']['personal']['acc'] == [1.5, 0.25]
    shown = capsys.readouterr().out
    assert shown.count('not run') == 6 and shown.count('1.50 (0.25)') == 12
    assert '34.83' in shown and 'tau = -0.5 and lambda = 1' in shown


def test_a_negative_tilt_of_examples_gives_up_the_wide_class_of_the_third_toy(tmp_path):
    toy = Study(
        dataclasses.replace(TOY, scenario='gaussian_toy_3', rounds=5, eval_every=5, devices=1),
        tmp_path,
        quiet=True,
    )
    plain, tilted = (figures.boundaries(toy, *tilts) for tilts in ((0.0, 0.0), (100.0, -100.0)))
    assert (tilted[:, 2] > plain[:, 2]).all()  # the boundary moves into class 1
