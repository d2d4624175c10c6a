"""What a run writes, with the numbers of its summary computed again by hand."""

import dataclasses
import json
import math
import shlex
import statistics
import sys

import numpy as np
import pytest

from fedjax_fair.report import did_not_learn
from fedjax_fair.results import load
from fedjax_fair.training import Config, load_federation, run

pytestmark = pytest.mark.xdist_group('run_outputs')


@pytest.fixture(scope='module')
def config(sites):
    return Config(
        scenario=sites, data={'clients_per_domain': 2}, rounds=7, eval_every=2, last_k=2, seeds=(0, 1),
        batch_size=8, lr=1.0,
        devices=1, chunk=1, checkpoint_every=0, model='logreg',
    )  # fmt: skip


@pytest.fixture(scope='module')
def done(config, tmp_path_factory, read):
    out = tmp_path_factory.mktemp('run') / 'out'
    (summary,) = run(config, out, quiet=True)
    return out, summary, read(out / 'metrics.jsonl')


def test_config_json_holds_every_setting_and_what_decides_the_numbers(config, done, read):
    out, _, _ = done
    written = read(out / 'config.json')
    assert {f.name for f in dataclasses.fields(Config)} <= written.keys()
    assert Config.of_run(out) == config
    assert {'python', 'jax', 'jaxlib', 'flax', 'optax', 'numpy', 'fedjax-fair'} <= written['versions'].keys()
    assert written['versions']['numpy'] == np.__version__
    assert written['commit'] is None or len(written['commit'].removesuffix('-dirty')) == 40
    assert shlex.split(written['command'])[1:] == sys.argv[1:]
    assert written['device_count'] >= 1 and written['platform'] == 'cpu'


def test_metrics_has_one_line_per_evaluation_and_seed(done):
    _, _, lines = done
    assert [(line['round'], line['seed']) for line in lines] == [(r, s) for r in (2, 4, 6, 7) for s in (0, 1)]
    assert all(math.isfinite(line['train_loss']) for line in lines)
    assert [('adapted' in line) for line in lines] == [False] * 6 + [True] * 2


def test_summary_json_is_what_run_returns(done, read):
    out, summary, _ = done
    assert read(out / 'summary.json') == summary
    facts = {'recipe': 'fedavg', 'model': 'logreg', 'rounds': 7, 'seeds': [0, 1], 'clients': 6, 'scenario': 'npz:sites'}
    assert facts.items() <= summary.items()
    assert summary['groups'] == ['0', '1', '2'] and summary['group_of'] == GROUP_OF
    assert summary['deployed'] is None and summary['adapted'] is not None
    assert summary['failures'] == {'dropped': 0, 'non_finite': 0, 'empty_rounds': 0}
    assert summary['never_sampled'] == [[]] * len(summary['seeds'])
    assert summary['seconds'] > 0 and summary['compile_seconds'] > 0
    assert summary['rounds_reported'] == [[6, 7], [6, 7]] and summary['selected_rounds'] is None
    assert summary['headline'] == 'global' and summary['validation'] is None


def test_summary_says_how_large_test_sets_are_and_what_guessing_scores(config, done, read):
    out, summary, _ = done
    tests = load_federation(config).tests
    sizes = tests.mask.sum(1)
    assert summary['tests'] == {'names': list(tests.names), 'examples': sizes.tolist(), 'patients': None}
    shares = np.array([np.bincount(y[real], minlength=3) for y, real in zip(tests.y, tests.mask, strict=True)])
    shares = shares / sizes[:, None]
    own = shares[tests.test_of]
    by_group = np.array([own[np.array(GROUP_OF) == g].mean(0) for g in range(3)])
    assert summary['chance']['global'] == pytest.approx(by_group.mean(0).max())
    assert summary['remarks'] == [] and summary['problems'] == []
    assert did_not_learn(load(out)) is False


GROUP_OF = [1, 1, 2, 2, 0, 0]  # as the federation deals its clients


def by_hand(lines, seed, kind, last):
    """Accuracies are averaged over the last evaluations first; every statistic comes from these averages."""
    found = [line[kind] for line in lines if line['seed'] == seed and kind in line][-last:]
    client = [statistics.fmean(e['client_accuracy'][c] for e in found) for c in range(6)]
    group = [statistics.fmean(client[c] for c in range(6) if GROUP_OF[c] == g) for g in range(3)]
    return {
        'client_accuracy': client,
        'group_accuracy': group,
        'avg': statistics.fmean(group),
        'std': statistics.stdev(group),
        'worst': min(group),
        'group_std': statistics.stdev(group),
        'group_gap': max(group) - min(group),
        'client_mean': statistics.fmean(client),
        'client_std': statistics.pstdev(client),
        'client_worst': min(client),
        'client_gap': max(client) - min(client),
        'loss': statistics.fmean(e['loss'] for e in found),
        'accuracy': statistics.fmean(e['accuracy'] for e in found),
    }


@pytest.mark.parametrize(('kind', 'last'), [('global', 2), ('adapted', 1)])
def test_summary_numbers_by_hand(done, kind, last):
    _, summary, lines = done
    zero, one = (by_hand(lines, seed, kind, last) for seed in (0, 1))
    assert len(set(zero['client_accuracy'])) > 1  # or the test would not tell much
    for name, value in zero.items():
        pair = np.array([value, one[name]])
        np.testing.assert_allclose(summary[kind][name]['mean'], pair.mean(0), atol=1e-12, err_msg=name)
        np.testing.assert_allclose(summary[kind][name]['std'], pair.std(0), atol=1e-12, err_msg=name)


def test_averages_first_and_statistics_after_differ_from_the_reverse(done):
    """The rule matters: the std of averaged accuracies is not the average of the stds."""
    _, summary, lines = done
    reverse = np.mean([line['global']['client_std'] for line in lines if line['round'] in (6, 7)])
    assert summary['global']['client_std']['mean'] <= reverse + 1e-12


def test_costs_by_hand(config, done):
    _, summary, _ = done
    federation = load_federation(config)
    parameters = 4 * 3 + 3
    assert summary['bytes_per_round'] == {'down': 6 * 4.0 * parameters, 'up': 6 * 4.0 * parameters}
    paid = sum(8 * math.ceil(n / 8) for n in federation.sizes)
    assert summary['padding_waste'] == pytest.approx(1 - federation.sizes.sum() / paid)
    assert summary['rounds_per_second'] == pytest.approx(7 * 2 / summary['seconds'])
    steps, examples = (2 * sum(counts) for counts in (np.ceil(federation.sizes / 8), federation.sizes))
    expected = {'steps': steps, 'examples': examples, 'gradient_passes': steps, 'forward_passes': 0}
    assert summary['work_per_round'] == pytest.approx(expected)
    assert summary['load_per_core'] >= 0 and summary['cores'] >= 1


def test_seeds_together_equal_seeds_apart(config, done, tmp_path, read):
    _, _, together = done
    for seed in (0, 1):
        run(dataclasses.replace(config, seeds=(seed,)), tmp_path / str(seed), quiet=True)
        apart = read(tmp_path / str(seed) / 'metrics.jsonl')
        own = [line for line in together if line['seed'] == seed]
        assert [line['round'] for line in apart] == [line['round'] for line in own]
        for one, two in zip(apart, own, strict=True):
            assert one['train_loss'] == pytest.approx(two['train_loss'], rel=1e-5)
            assert one['global']['client_accuracy'] == two['global']['client_accuracy']
            assert one['global']['loss'] == pytest.approx(two['global']['loss'], rel=1e-5)


def test_seeds_differ_in_training_and_data_seed_in_the_partition(config, done):
    _, _, lines = done
    assert lines[0]['train_loss'] != lines[1]['train_loss']
    first = load_federation(config)
    same = load_federation(dataclasses.replace(config, seeds=(5,)))
    other = load_federation(dataclasses.replace(config, data_seed=1))
    assert np.array_equal(first.index, same.index) and np.array_equal(first.x, same.x)
    assert not (np.array_equal(first.index, other.index) and np.array_equal(first.x, other.x))


def test_a_run_repeated_from_its_config_gives_equal_metrics(done, tmp_path):
    out, summary, _ = done
    (again,) = run(Config.of_run(out), tmp_path / 'again', quiet=True)
    assert (tmp_path / 'again' / 'metrics.jsonl').read_text() == (out / 'metrics.jsonl').read_text()
    assert json.dumps(again['global']) == json.dumps(summary['global'])


def test_an_option_of_zero_is_an_option():
    data = {'num_clients': 2, 'client_sizes': (2,), 'test_size': 2, 'image_size': 16}
    config = Config(scenario='tissue', data=data)
    looks_alike, differing = (load_federation(config.changed(shift=shift)) for shift in (0.0, None))
    assert np.any(looks_alike.x != differing.x)
