"""Where FedLD's loss comes from: its terms add up, and are measured in a training run."""

import pytest
from small_fedld import CONFIG, invented, read, small

from experiments.fedld import figures, terms
from experiments.study import Study


@pytest.fixture(scope='module')
def measured(tmp_path_factory):
    """At both ends of heterogeneity, after the first and the fifth round."""
    own = small(tmp_path_factory.mktemp('terms'), local_epochs=3, seeds=(0,), rounds=7)
    return {alpha: terms.decomposed(own, alpha) for alpha in (100.0, 0.01)}


def test_clients_lose_more_on_each_other_the_more_they_differ(measured):
    alike, apart = (measured[alpha]['1']['naive'] for alpha in (100.0, 0.01))
    assert apart['shift'][0] > 3 * abs(alike['shift'][0])
    assert apart['local'][0] < alike['local'][0]
    assert apart['total'][0] == pytest.approx(sum(apart[term][0] for term in ('local', 'shift', 'aggregation')))


def test_a_training_run_is_measured_in_the_rounds_that_it_has(measured):
    assert list(measured[100.0]) == ['1', '5']
    first, fifth = (measured[100.0][number]['naive']['total'][0] for number in ('1', '5'))
    assert fifth < 0.8 * first


def test_naive_and_principal_aggregation_have_the_same_local_models(measured):
    for ways in measured[0.01].values():
        assert ways['principal']['local'] == ways['naive']['local']
        assert ways['principal']['shift'] == ways['naive']['shift']
        assert ways['principal']['aggregation'] != ways['naive']['aggregation']
        assert ways['margin']['local'][0] > ways['naive']['local'][0]


def test_terms_are_measured_once_for_the_same_settings(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(terms, 'decomposed', lambda study, alpha: asked.append(alpha) or {'1': {'naive': alpha}})
    for changes in ({}, {}, {'lr': 0.5}):
        found = terms.kept(small(tmp_path, **changes), 1.0)
    assert found == {'1': {'naive': 1.0}} and asked == [1.0, 1.0]


def test_settings_of_a_run_reach_the_terms(tmp_path, measured):
    own = small(tmp_path, local_epochs=3, seeds=(0,), outliers='pixels', outlier_share=1.0)
    way = {'naive': terms.measured(own, terms.WAYS['naive'], {'alpha': 100.0})}
    spoiled = terms.in_training(way, 0, (1,))[1, 'naive']
    assert float(spoiled.local) != measured[100.0]['1']['naive']['local'][0]


def test_the_figure_is_drawn_from_given_terms(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, 'kept', lambda study, alpha: invented(-alpha))
    figures.figure2(Study(CONFIG, tmp_path / 'new'))
    assert (tmp_path / 'new' / 'figure2.png').stat().st_size > 0
    assert capsys.readouterr().out.count('-100.0000 (0.0000)') == len(terms.MOMENTS) * len(terms.TERMS)
    kept = read(tmp_path / 'new' / 'figure2.json')
    assert kept['numbers']['0.01']['20']['margin']['shift'] == [-0.01, 0.99, -1.01]
    assert [one['alpha'] for one in kept['data']['columns'].values()] == list(figures.ALPHAS)
    shift = kept['evidence']['shift with margin, round 20']['measures']['alpha 0.01']
    assert not shift['higher_is_better']
    assert shift['levels']['margin']['values'] == pytest.approx([-1.0, 99.0, -101.0])
    assert shift['differences']['margin']['estimate'] == pytest.approx(0, abs=1e-6)
