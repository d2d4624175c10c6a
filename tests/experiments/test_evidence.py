"""Evidence of tables: values by seed and paired differences, by hand and from kept predictions."""

import json

import numpy as np
import pytest
from scipy.stats import ttest_rel

from experiments import evidence
from experiments.study import Study, differences
from fedjax_fair import results
from fedjax_fair.results.measures import Difference
from fedjax_fair.training import Config

CONFIG = Config(scenario='gaussian_toy_1', model='logreg', rounds=2, seeds=(0, 1, 2), eval_every=1, last_k=1, devices=1)
NAMES = {'FedAvg': 'fedavg', 'q-FedAvg': 'qfedavg'}


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    study = Study(CONFIG, tmp_path_factory.mktemp('study'), quiet=True)
    return {name: study.run(recipe)[0] for name, recipe in NAMES.items()}


def test_differences_over_seeds_are_those_of_a_paired_t_test():
    rng = np.random.default_rng(0)
    base, other = rng.normal(loc=[[3], [5]], size=(2, 6))
    found = evidence.of_values(
        {'loss': {'a': base.tolist(), 'b': other.tolist()}}, 'a', {'loss': 'test loss'}, ['loss'], seeds=range(3, 9)
    )
    assert found['seeds'] == [3, 4, 5, 6, 7, 8]
    entry = found['measures']['loss']
    difference, reference = entry['differences']['b'], ttest_rel(other, base)
    low, high = reference.confidence_interval(0.95)
    assert difference['estimate'] == pytest.approx((other - base).mean())
    assert (difference['lo'], difference['hi']) == pytest.approx((low, high))
    assert difference['p'] == pytest.approx(reference.pvalue, rel=1e-4)
    assert difference['a'] == pytest.approx((other - base).var(ddof=1) / 6) and difference['kappa'] == 0
    assert difference['verdict'] == 'worse'
    assert entry['levels']['a']['values'] == base.tolist()


def test_one_seed_has_levels_and_no_differences():
    found = evidence.of_values({'loss': {'a': [1.0], 'b': [2.0]}}, 'a', {'loss': 'test loss'}, seeds=[0])
    assert found['measures']['loss']['differences'] == {}
    assert found['measures']['loss']['levels']['b'] == {'values': [2.0], 'estimate': 2.0, 'lo': None, 'hi': None}


def test_values_of_what_diverged_are_left_out_with_a_note():
    values = {'loss': {'a': [1.0, 2.0], 'b': [2.0, float('nan')]}, 'acc': {'a': [5.0, 6.0], 'b': [7.0, 8.0]}}
    about = {'loss': 'test loss', 'acc': 'accuracy'}
    found = evidence.of_values(values, 'a', about, seeds=[0, 1], notes=['few'])
    assert found['notes'] == ['few', 'b diverged and is left out']
    assert all(set(one['levels']) == {'a'} and one['differences'] == {} for one in found['measures'].values())
    assert evidence.of_values(values, 'b', about, seeds=[0, 1]) == {}
    words = ['', 'x: no differences with a.', '', '- few', '- b diverged and is left out']
    words += ['', 'y: no differences, since the baseline diverged.']
    assert differences({'x': found, 'y': {}}) == words


def test_runs_that_diverged_are_left_out_with_a_note(runs, tmp_path):
    lost = Study(CONFIG, tmp_path, quiet=True).run('fedavg', lr=1e30)[0]
    found = evidence.of_runs({'lost': lost, **runs}, 'FedAvg', ('avg',))
    assert found['notes'][-1] == 'lost diverged and is left out'
    assert set(found['measures']['avg']['levels']) == set(NAMES)
    assert set(found['measures']['avg']['differences']) == {'q-FedAvg'}
    alone = evidence.of_runs({'FedAvg': runs['FedAvg'], 'lost': lost}, 'FedAvg', ('avg',))
    assert alone['measures']['avg']['differences'] == {}
    assert evidence.of_runs({'lost': lost, **runs}, 'lost', ('avg',)) == {}


def test_evidence_of_runs_is_that_of_their_comparison(runs):
    found = evidence.of_runs(runs, 'FedAvg', ('avg', 'spread'))
    compared = results.load_runs(runs.values())
    by_seed = [[line['global']['avg'] for line in run.history if line['round'] == 2] for run in compared]
    levels = found['measures']['avg']['levels']
    for name, row in zip(NAMES, by_seed, strict=True):
        assert levels[name]['values'] == pytest.approx([100 * value for value in row])
    assert found['seeds'] == [0, 1, 2] and found['baseline'] == 'FedAvg'
    assert set(found['measures']['avg']['differences']['q-FedAvg']) == set(Difference._fields)
    json.dumps(found, allow_nan=False)


def test_a_table_shows_and_keeps_its_evidence(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr('sys.argv', ['tables', '--table=1'])
    found = {'accuracy': evidence.of_runs(runs, 'FedAvg', ('avg',))}
    Study(CONFIG, tmp_path, quiet=True).table('table1', ['a'], [['b']], 'A note.', {}, evidence=found)
    text = capsys.readouterr().out
    assert 'accuracy: minus FedAvg, with 95 % intervals (3 seeds; intervals count seeds and test examples).' in text
    assert (tmp_path / 'table1.md').read_text() in text
    kept = json.loads((tmp_path / 'table1.json').read_text())['evidence']['accuracy']['measures']['avg']
    assert (
        kept['differences']['q-FedAvg']['estimate']
        == found['accuracy']['measures']['avg']['differences']['q-FedAvg']['estimate']
    )


def test_no_evidence_is_no_table():
    assert differences({}) == []
