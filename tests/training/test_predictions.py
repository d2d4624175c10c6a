"""What every test example got is kept, for the evaluations that are reported, and gives the metrics again."""

import dataclasses
import json

import numpy as np
import pytest

from fedjax_fair import results
from fedjax_fair.errors import UserError
from fedjax_fair.results import prediction_file, reported
from fedjax_fair.results.comparison import compare_runs
from fedjax_fair.training import Config, Interrupted, loop, prepare, run, run_data_seeds
from fedjax_fair.training.prediction_log import count_evaluations, reported_rounds

pytestmark = pytest.mark.xdist_group('predictions')


@pytest.fixture
def config(sites):
    settings = {'rounds': 4, 'eval_every': 1, 'batch_size': 16, 'last_k': 2, 'checkpoint_every': 1, 'devices': 1}
    return Config(scenario=sites, data={'clients_per_domain': 2}, model='logreg', seeds=(0, 3), **settings)


def test_the_file_gives_the_reported_scores_again(config, tmp_path):
    (summary,) = run(config, tmp_path / 'out', quiet=True)
    kept = results.predictions(tmp_path / 'out')
    federation = prepare(config).federation
    assert kept.round.tolist() == [[3, 4], [3, 4]] and kept.seed.tolist() == [0, 3]
    assert (kept.client == -1).all() and (kept.cluster == -1).all() and kept.sets == federation.tests.names
    assert kept.prediction.dtype == np.uint8 and kept.score.shape == (2, 2, len(kept.set), 3)
    right = (kept.prediction == kept.label).mean(1)  # over evaluations
    by_set = np.stack([right[:, kept.set == s].mean(1) for s in range(len(kept.sets))], -1)
    np.testing.assert_array_equal(results.example_scores(kept).mean(1), right)
    clients = by_set[:, kept.test_of].mean(0)
    np.testing.assert_allclose(clients, summary['global']['client_accuracy']['mean'], atol=1e-6)
    assert not (tmp_path / 'out' / 'evaluated_examples').exists()
    assert summary['predictions_bytes']['global'] == (tmp_path / 'out' / 'predictions.npz').stat().st_size
    for place, (rows, length) in enumerate(zip(federation.partition.tests, federation.tests.mask.sum(1), strict=True)):
        assert kept.example[kept.set == place].tolist() == list(rows) and len(rows) == length


def test_own_models_have_a_file_with_a_row_for_every_client_and_example(config, tmp_path):
    (summary,) = run(dataclasses.replace(config, recipe='ditto', last_k=None), tmp_path / 'out', quiet=True)
    kept = results.predictions(tmp_path / 'out', 'deployed')
    assert kept.round.tolist() == summary['rounds_reported'] == [[4], [4]]  # the last quarter of four evaluations
    assert summary['headline'] == 'deployed' and results.load(tmp_path / 'out').result() == summary['deployed']
    right = (kept.prediction == kept.label).mean(1)
    clients = np.stack([right[:, kept.client == n].mean(1) for n in range(6)], -1).mean(0)
    np.testing.assert_allclose(clients, summary['deployed']['client_accuracy']['mean'], atol=1e-6)
    assert (kept.set == kept.test_of[kept.client]).all()
    assert results.predictions(tmp_path / 'out', 'adapted').round.tolist() == [[4], [4]]


def test_a_stopped_run_ends_with_the_same_file(config, tmp_path, monkeypatch):
    run(config, tmp_path / 'whole', quiet=True)
    stop = loop.StopFlag.__enter__
    with monkeypatch.context() as patch:
        rounds = loop._Runner._rounds

        def three_rounds(self, *args):
            self.config = dataclasses.replace(self.config, rounds=3)
            rounds(self, *args)
            self.config = dataclasses.replace(self.config, rounds=4)

        patch.setattr(loop._Runner, '_rounds', three_rounds)
        with pytest.raises(Interrupted):
            run(config, tmp_path / 'part', quiet=True)
    assert stop is loop.StopFlag.__enter__ and (tmp_path / 'part' / 'evaluated_examples').exists()
    run(config, tmp_path / 'part', quiet=True, resume=True)
    whole, part = ((tmp_path / name / 'predictions.npz').read_bytes() for name in ('whole', 'part'))
    assert whole == part


def test_the_best_evaluation_of_every_seed_is_kept(config, tmp_path):
    config = dataclasses.replace(config, select='best_validation', validation=0.2)
    run(config, tmp_path / 'out', quiet=True)
    lines = [json.loads(line) for line in (tmp_path / 'out' / 'metrics.jsonl').read_text().splitlines()]
    best = [max((x for x in lines if x['seed'] == s), key=lambda x: x['validation'])['round'] for s in config.seeds]
    assert results.predictions(tmp_path / 'out').round[:, 0].tolist() == best


def test_streamed_clients_are_kept_too(config, tmp_path):
    config = dataclasses.replace(config, recipe='ditto', participation=0.5)
    files = []
    for rows in ('device', 'host'):
        own = dataclasses.replace(config, rows=rows, examples=rows)
        run(own, tmp_path / rows, quiet=True)
        files.append((tmp_path / rows / 'predictions_deployed.npz').read_bytes())
    assert files[0] == files[1]


def test_nothing_is_kept_where_nobody_asks(config, tmp_path):
    run(dataclasses.replace(config, keep_predictions=False), tmp_path / 'out', quiet=True)
    with pytest.raises(UserError, match='no such file; the run was made with keep_predictions=false'):
        results.predictions(tmp_path / 'out')


def test_what_is_too_large_is_left_out_and_told(config, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(prediction_file, 'MOST_BYTES', 600)
    run(config, tmp_path / 'out', quiet=False)
    kept = results.predictions(tmp_path / 'out')
    assert kept.score is None and kept.prediction is not None
    assert 'are not kept: no interval of an AUC' in capsys.readouterr().err


def test_damaged_files_are_named(config, tmp_path):
    (tmp_path / 'predictions.npz').write_bytes(b'no zip')
    with pytest.raises(UserError, match=r'predictions\.npz: cannot be read'):
        results.predictions(tmp_path)
    with pytest.raises(UserError, match="kind='mine' is not one of"):
        results.predictions(tmp_path, 'mine')


def test_generated_examples_of_several_data_seeds_are_different_ones(tmp_path):
    config = Config(scenario='gaussian_toy_1', model='logreg', rounds=1, batch_size=16, devices=1)
    run_data_seeds(config, tmp_path, (0, 1, 2), quiet=True)
    units = [results.predictions(tmp_path / f'data_seed={seed}') for seed in (0, 1, 2)]
    each = len(units[0].example)
    assert len(set(units[0].example.tolist())) == each and (units[0].example >= 0).all()
    found = compare_runs([results.load(tmp_path)])
    assert found.patients == 3 * each
    run(config, tmp_path / 'again', quiet=True)
    assert (results.predictions(tmp_path / 'again').example == units[0].example).all()


@pytest.mark.parametrize('rounds', [1, 9, 12, 20])
@pytest.mark.parametrize(('eval_every', 'adapt_every'), [(1, 0), (5, 0), (4, 6), (3, 100), (7, 7)])
def test_evaluations_are_known_without_a_list_of_all(rounds, eval_every, adapt_every):
    config = Config(rounds=rounds, eval_every=eval_every, adapt_every=adapt_every, last_k=3)
    every = [n for n in (eval_every, adapt_every, rounds) if n]
    due = [r for r in range(1, rounds + 1) if any(r % n == 0 for n in every)]
    assert count_evaluations(config) == len(due) and reported_rounds(config) == tuple(due[-3:])
    assert reported_rounds(config.changed(last_k=None)) == tuple(reported(due))
