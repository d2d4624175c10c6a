"""Model selection: the evaluation with the best validation score, resumed or not."""

import dataclasses
import json

import numpy as np
import pytest
from test_resume import interrupt

from fedjax_fair.results import History, mean_score
from fedjax_fair.training import Config, Interrupted, load_federation, run


@pytest.fixture(scope='module')
def config(sites):
    return Config(
        recipe='fedbn', scenario=sites, rounds=6, eval_every=1, seeds=(0, 1), batch_size=8, lr=0.3, devices=1,
        checkpoint_every=4, model='logreg', select='best_validation', validation=0.25,
    )  # fmt: skip


@pytest.fixture(scope='module')
def whole(config, tmp_path_factory):
    out = tmp_path_factory.mktemp('whole') / 'out'
    return out, run(config, out, quiet=True)[0]


def test_the_summary_is_the_evaluation_that_validates_best(config, whole, read):
    out, summary = whole
    lines = read(out / 'metrics.jsonl')
    for seed, chosen in zip(config.seeds, summary['selected_rounds'], strict=True):
        best, expected = -np.inf, None
        for line in lines:
            if line['seed'] == seed and line['validation'] > best:  # strictly better: the first of equals stays
                best, expected = line['validation'], line['round']
        assert chosen == expected
    picked = [next(li for li in lines if (li['seed'], li['round']) == one)
              for one in zip(config.seeds, summary['selected_rounds'], strict=True)]  # fmt: skip
    assert summary['rounds_reported'] == [[chosen] for chosen in summary['selected_rounds']]
    assert summary['validation']['mean'] == pytest.approx(np.mean([line['validation'] for line in picked]))
    assert summary['headline'] == 'deployed'
    for kind in ('global', 'deployed'):
        assert summary[kind]['avg']['mean'] == pytest.approx(np.mean([line[kind]['avg'] for line in picked]))


def test_validation_examples_are_not_trained_on(config):
    plain, split = (load_federation(dataclasses.replace(config, validation=v, select='last_k')) for v in (0.0, 0.25))
    assert plain.validation is None
    np.testing.assert_array_equal(split.sizes + split.validation.mask.sum(1), plain.sizes)


def test_a_resumed_run_selects_the_same(config, whole, tmp_path, monkeypatch):
    out = tmp_path / 'out'
    with monkeypatch.context() as patch:
        interrupt(patch, 5)
        with pytest.raises(Interrupted):
            run(config, out, quiet=True)
    run(config, out, quiet=True, resume=True)
    assert (out / 'metrics.jsonl').read_bytes() == (whole[0] / 'metrics.jsonl').read_bytes()
    again = json.loads((out / 'summary.json').read_text())
    for key in ('selected_rounds', 'global', 'deployed', 'adapted'):
        assert again[key] == whole[1][key]


def test_ties_and_undefined_scores(tmp_path):
    history = History(tmp_path)
    history.append([{'round': r, 'seed': 0, 'validation': v} for r, v in enumerate((None, 0.5, 0.7, 0.7, 0.6))])
    assert history.best(0)['round'] == 2
    assert mean_score(np.array([np.nan, 0.5, 1.0])) == 0.75 and mean_score(np.array([np.nan])) is None


def test_what_is_refused(config, tmp_path):
    for change, message in (
        ({'validation': 0.0}, 'select=best_validation needs validation'),
        ({'select': 'best'}, "select='best' is not one of 'last_k', 'best_validation'"),
        ({'validation': 1.5}, 'validation=1.5'),
    ):
        with pytest.raises(ValueError, match=message):
            run(dataclasses.replace(config, **change), tmp_path / 'out', quiet=True)
