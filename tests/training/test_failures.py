"""Clients that drop out or diverge: left out, counted, told, and never written as NaN."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.data.samplers import survivors, uniform
from fedjax_fair.training import prepare, run
from fedjax_fair.training.program import SAMPLE, key_of

pytestmark = pytest.mark.xdist_group('failures')


def test_dropped_clients_are_counted(toy, tmp_path, capsys):
    """The tosses are known from the seeds: count them again."""
    (summary,) = run(toy(rounds=5, dropout=0.5, seeds=(0, 1)), tmp_path / 'out', quiet=True)
    dropped, empty = 0, 0
    for seed in (0, 1):
        for t in range(5):
            key = jax.random.fold_in(key_of(jnp.uint32(seed), SAMPLE), t)
            here = survivors(jax.random.fold_in(key, 1), uniform(2, 2)(key, t), 0.5)
            dropped, empty = dropped + 2 - int(here.sum()), empty + int(not here.any())
    assert 0 < dropped < 20 and empty > 0
    assert summary['failures'] == {'dropped': dropped, 'non_finite': 0, 'empty_rounds': empty}
    told = capsys.readouterr().err
    assert f'2 seeds of 5 rounds: {dropped} times a client dropped out, {empty} rounds were empty' in told


def test_a_round_without_clients_changes_nothing(toy):
    x = prepare(toy(recipe='fedadam', dropout=1.0, rounds=3))
    before = x.program.init(x.lanes)
    after, log = x.program.advance(x.lanes, x.program.init(x.lanes), x.examples(), jnp.int32(2))
    assert int(after.round[0]) == 2
    for part in ('variables', 'opt', 'server', 'clients', 'seen'):
        for one, two in zip(*(jax.tree.leaves(getattr(s, part)) for s in (before, after)), strict=True):
            np.testing.assert_array_equal(one, two)
    assert log['empty'][0, :2].tolist() == [1, 1] and log['dropped'][0, :2].tolist() == [2, 2]


def test_an_empty_run_has_no_loss(toy, tmp_path, read, capsys):
    (summary,) = run(toy(rounds=2, dropout=1.0), tmp_path / 'out')
    assert summary['failures'] == {'dropped': 4, 'non_finite': 0, 'empty_rounds': 2}
    assert [line['train_loss'] for line in read(tmp_path / 'out' / 'metrics.jsonl')] == [None]
    assert 'loss nan' in capsys.readouterr().err


def test_divergence_is_survived_reported_and_valid_json(toy, tmp_path, read, capsys):
    config = toy(model='mlp', lr=1e30, rounds=3, eval_every=1, local_epochs=3)
    (summary,) = run(config, tmp_path / 'out', quiet=True)
    assert summary['failures']['non_finite'] == 6 and summary['failures']['empty_rounds'] == 3
    told = capsys.readouterr().err
    assert '6 times a client failed with a non-finite update, which was left out, 3 rounds were empty' in told
    for name in ('config.json', 'summary.json', 'metrics.jsonl'):
        read(tmp_path / 'out' / name)  # refuses NaN and Infinity
    assert all(line['train_loss'] is None for line in read(tmp_path / 'out' / 'metrics.jsonl'))
    assert summary['global']['avg']['mean'] is not None  # the model nobody managed to change


def test_a_run_begins_with_what_is_run_and_which_parts_change_nothing(toy, tmp_path, capsys):
    points = [{'fedprox.mu': 0.0}, {'fedprox.mu': 0.5}]
    idle, active = run(toy(recipe='fedprox', rounds=1, local_steps=2), tmp_path / 'out', points=points)
    told = [line.partition(': ')[2] for line in capsys.readouterr().err.splitlines()]
    assert told[:4] == [
        'data: gaussian_toy_1, data_seed=0',
        '2 clients; 2 test sets of 40 examples: client 0, client 1',
        'network logreg; 1 round; 1 seed: 0',
        'local training: 2 steps, batches of 64, sgd, learning rate 0.1',
    ]
    assert 'fedprox is the same as fedavg here: mu is 0 (at fedprox.mu=0)' in told
    said = {'part': 'fedprox', 'subject': 'fedprox', 'reason': 'mu is 0', 'same_as': 'fedavg'}
    assert idle['remarks'] == [said] and active['remarks'] == []


def test_a_quiet_run_tells_which_parts_change_nothing(toy, tmp_path, capsys):
    run(toy(recipe='fedprox', hyper={'fedprox.mu': 0.0}, rounds=1), tmp_path / 'out', quiet=True)
    assert 'fedprox is the same as fedavg here: mu is 0' in capsys.readouterr().err
    note = json.loads((tmp_path / 'out' / 'config.json').read_text())['notes'][-1]
    assert note == 'fedprox is the same as fedavg here: mu is 0'


def test_a_sound_run_says_nothing(toy, tmp_path, capsys):
    (summary,) = run(toy(rounds=1), tmp_path / 'out', quiet=True)
    assert capsys.readouterr().err == '' and not any(summary['failures'].values())
