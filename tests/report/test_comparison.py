"""Runs side by side: paired by seed and test example, or refused with the reason."""

import dataclasses
import pathlib

import numpy as np
import pytest

from fedjax_fair import stats
from fedjax_fair.results.comparison import NotComparable, compare_runs, samples_of
from fedjax_fair.results.prediction_file import Predictions, write_predictions
from fedjax_fair.results.runs import Run

SETS, EACH, CLIENTS = 3, 10, 6
LABEL = np.tile(np.arange(EACH) % 2, SETS)


def kept(chance=0.8, seeds=(0, 1, 2), kind='global', seed=0, **changes):
    """What six clients of three sites, two and two with a common test set, got right with some chance."""
    rng = np.random.default_rng(seed)
    test_of = np.arange(CLIENTS) // 2
    client = np.repeat(np.arange(CLIENTS), EACH) if kind != 'global' else np.full(SETS * EACH, -1)
    sets = np.repeat(test_of, EACH) if kind != 'global' else np.repeat(np.arange(SETS), EACH)
    example = sets * EACH + np.tile(np.arange(EACH), len(sets) // EACH)
    label = LABEL[example]
    right = rng.random((len(seeds), 2, len(sets))) < chance
    base = Predictions(
        task='classification', metric='accuracy', kind=kind, seed=np.array(seeds), round=np.full((len(seeds), 2), 5),
        set=sets, client=client, example=example, cluster=example // 2, sets=('a', 'b', 'c'), groups=('x', 'y', 'z'),
        test_of=test_of, group_of=test_of, label=label, prediction=np.where(right, label, 1 - label).astype(np.uint8),
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


def run_of(folder: pathlib.Path, predictions: Predictions) -> Run:
    folder.mkdir(exist_ok=True)
    write_predictions(folder, predictions)
    summary = {'recipe': folder.name, 'scenario': 'made up', 'score': 'accuracy', 'headline': predictions.kind}
    return Run(folder, {}, [], summary, folder.name)


def test_scores_of_a_comparison_are_those_of_the_predictions(tmp_path):
    one, other = kept(), kept(0.6, seed=1)
    found = compare_runs([run_of(tmp_path / 'one', one), run_of(tmp_path / 'other', other)])
    assert found.seeds == (0, 1, 2) and found.over == 'groups' and found.patients == 15 and found.patients_known
    right = (other.prediction == other.label).mean(1)
    by_set = np.stack([right[:, other.set == s].mean(1) for s in range(SETS)], -1)
    np.testing.assert_allclose(found.analysis.sample.scores[1], by_set)
    np.testing.assert_allclose(found.clients.sample.scores[1], by_set[:, other.test_of])
    np.testing.assert_allclose(found.analysis.outcomes['avg'].values[1], by_set.mean(1))
    assert found.analysis.sample.separate and not found.clients.sample.separate


def test_the_order_of_rows_in_a_file_does_not_matter(tmp_path):
    one, other = kept(), kept(0.6, seed=1)
    order = np.random.default_rng(5).permutation(len(other.set))
    rows = {n: getattr(other, n)[order] for n in ('set', 'client', 'example', 'cluster', 'label')}
    mixed = dataclasses.replace(other, **rows, prediction=other.prediction[..., order])
    samples = [samples_of((one, two), ('one', 'two')) for two in (other, mixed)]
    plain, shuffled = (stats.analyse_sample(s.groups).outcomes['avg'] for s in samples)
    np.testing.assert_allclose(plain.pairs.estimate, shuffled.pairs.estimate)
    np.testing.assert_allclose(plain.p, shuffled.p)


def test_a_global_model_is_compared_with_models_of_clients_own(tmp_path):
    shared, own = kept(), kept(0.9, kind='deployed', seed=2)
    found = compare_runs([run_of(tmp_path / 'fedavg', shared), run_of(tmp_path / 'ditto', own)])
    right = (own.prediction == own.label).mean(1)
    by_client = np.stack([right[:, own.client == n].mean(1) for n in range(CLIENTS)], -1)
    np.testing.assert_allclose(found.clients.sample.scores[1], by_client)
    np.testing.assert_allclose(found.analysis.sample.scores[1], by_client.reshape(3, SETS, 2).mean(-1))
    in_both = found.clients.sample.scores[0]
    np.testing.assert_allclose(in_both[:, ::2], in_both[:, 1::2])


def test_balanced_accuracy_and_auc_are_judged_on_request(tmp_path):
    score = np.random.default_rng(0).random((3, 2, SETS * EACH, 1)).astype(np.float32)
    runs = [run_of(tmp_path / name, kept(score=score)) for name in ('one', 'two')]
    for metric in ('balanced_accuracy', 'auc'):
        assert compare_runs(runs, metric=metric).analysis.outcomes['avg'].verdict.tolist() == ['identical predictions']
    with pytest.raises(NotComparable, match='auc cannot be judged'):
        compare_runs([run_of(tmp_path / 'three', kept())], metric='auc')


def test_seeds_that_not_all_runs_have_are_left_out_and_named(tmp_path):
    runs = [run_of(tmp_path / 'one', kept(seeds=(0, 1, 2))), run_of(tmp_path / 'two', kept(seeds=(1, 2, 3)))]
    found = compare_runs(runs)
    assert found.seeds == (1, 2) and 'seeds 0, 3 are left out: not all runs have them' in found.notes
    with pytest.raises(NotComparable, match='one and three have no seed in common'):
        compare_runs([runs[0], run_of(tmp_path / 'three', kept(seeds=(7, 8)))])


def test_what_limits_a_verdict_is_said(tmp_path):
    unknown = np.full(SETS * EACH, -1)
    found = compare_runs([run_of(tmp_path / name, kept(seeds=(0,), cluster=unknown)) for name in ('one', 'two')])
    text = '; '.join(found.notes)
    assert 'patients are unknown' in text and 'one seed' in text and 'one of 3 groups only' in text


def test_runs_with_other_tests_are_refused(tmp_path):
    one = run_of(tmp_path / 'one', kept())
    for name, change in {'examples': {'example': np.arange(30) + 1}, 'labels': {'label': 1 - LABEL}}.items():
        with pytest.raises(NotComparable, match=f'{name} and one are not tested on the same examples'):
            compare_runs([one, run_of(tmp_path / name, kept(**change))])
    with pytest.raises(NotComparable, match='other is judged by auc, one by accuracy'):
        compare_runs([one, run_of(tmp_path / 'other', kept(metric='auc'))])
