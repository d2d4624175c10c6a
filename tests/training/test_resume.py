"""Stopping and going on: a resumed run is the uninterrupted one bit for bit; nothing is overwritten by accident."""

import dataclasses
import json
import re
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair.core.types import FedState
from fedjax_fair.errors import UserError
from fedjax_fair.results import History
from fedjax_fair.training import Config, Interrupted, loop, prepare, run
from fedjax_fair.training.checkpoint import Checkpoints
from fedjax_fair.training.output import check_out, check_same, resumed
from fedjax_fair.training.progress import Display

pytestmark = pytest.mark.xdist_group('resume')


@pytest.fixture(scope='module')
def config(sites):
    """Client rows (scaffold), a server optimiser, partial participation and dropout."""
    return Config(
        recipe='scaffold+server_adam', scenario=sites, data={'clients_per_domain': 2}, rounds=6, eval_every=3,
        seeds=(0, 1),
        batch_size=16, lr=0.05, participation=0.5, dropout=0.3, devices=1, checkpoint_every=4, model='logreg',
    )  # fmt: skip


@pytest.fixture(scope='module')
def whole(config, tmp_path_factory):
    out = tmp_path_factory.mktemp('whole') / 'out'
    return out, run(config, out, quiet=True)


def at_round(monkeypatch, round_, act):
    """Do something when the display shows that a round is done."""
    update = Display.update

    def patched(self, done, *args):
        update(self, done, *args)
        if done == round_:
            act()

    monkeypatch.setattr(Display, 'update', patched)
    monkeypatch.setattr(loop, 'SECONDS_PER_CALL', 0.0)  # one round at a time


def interrupt(monkeypatch, round_):
    at_round(monkeypatch, round_, lambda: signal.raise_signal(signal.SIGINT))


def final_states(config, out):
    experiment = prepare(config)
    checkpoints = Checkpoints(out)
    states, _ = checkpoints.restore(experiment.listed(experiment.program.init(experiment.lanes)))
    checkpoints.close()
    return states


def assert_equal(config, whole, out):
    """States, metrics.jsonl and the summary's numbers are equal bit for bit."""
    assert (out / 'metrics.jsonl').read_bytes() == (whole / 'metrics.jsonl').read_bytes()
    one, two = (json.loads((path / 'summary.json').read_text()) for path in (whole, out))
    for key in ('global', 'adapted', 'failures', 'bytes_per_round', 'padding_waste'):
        assert one[key] == two[key], key
    leaves = zip(*(jax.tree.leaves(final_states(config, path)) for path in (whole, out)), strict=True)
    for a, b in leaves:
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_interrupted_and_resumed_equals_uninterrupted(config, whole, tmp_path, monkeypatch):
    out, handler = tmp_path / 'out', signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        interrupt(patch, 2)
        with pytest.raises(Interrupted) as stop:
            run(config, out, quiet=True)
    assert re.search(r'stopped after round 2 of 6; checkpoint in .*; go on .* --resume', stop.value.with_flags())
    assert signal.getsignal(signal.SIGINT) is handler
    assert not (out / 'summary.json').exists()
    first = (out / 'config.json').read_bytes()
    run(config, out, resume=True, quiet=True)
    assert_equal(config, whole[0], out)
    assert (out / 'config.json').read_bytes() == first


def test_a_killed_run_goes_on_from_its_last_checkpoint(config, whole, tmp_path, monkeypatch):
    """A crash in round 5 leaves the checkpoint of round 4; a line written after it, and half a line, are dropped."""
    out = tmp_path / 'out'

    def crash():
        raise RuntimeError('power failure')

    with monkeypatch.context() as patch:
        at_round(patch, 5, crash)
        with pytest.raises(RuntimeError, match='power failure'):
            run(config, out, quiet=True)
    late = json.loads((out / 'metrics.jsonl').read_text().splitlines()[0]) | {'round': 5}
    with (out / 'metrics.jsonl').open('a') as file:
        file.write(json.dumps(late) + '\n{"round": 6, "seed": 0, "glo')
    run(config, out, resume=True, quiet=True)
    assert_equal(config, whole[0], out)


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(config, whole, tmp_path, monkeypatch, capfd):
    out = tmp_path / 'out'
    with monkeypatch.context() as patch:
        interrupt(patch, 5)
        with pytest.raises(Interrupted):
            run(config, out, quiet=True)
    index = out / 'checkpoints' / '5' / 'state' / 'manifest.ocdbt'
    index.write_bytes(index.read_bytes()[:-1])
    (out / 'checkpoints' / '99').mkdir()
    capfd.readouterr()
    run(config, out, resume=True, quiet=True)
    *told, failures = capfd.readouterr().err.splitlines()
    assert failures.endswith('a client dropped out')
    assert [re.search(r'checkpoints/(\d+) is damaged \(.*\); it is set aside', line)[1] for line in told] == ['99', '5']
    assert all(line.endswith('the run goes on from round 4') for line in told)
    assert {path.name for path in (out / 'checkpoints').glob('damaged-*')} == {'damaged-5', 'damaged-99'}
    assert_equal(config, whole[0], out)


def test_resuming_a_finished_run_does_no_work(config, whole, monkeypatch):
    out, summaries = whole
    before = (out / 'summary.json').read_bytes()

    def refuse(*args):
        raise AssertionError('worked')

    monkeypatch.setattr(loop, 'prepare', refuse)
    assert run(config, out, resume=True) == summaries
    assert (out / 'summary.json').read_bytes() == before


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'lr': 0.25}, 'lr=0.25 differs from 0.05'),
        ({'rounds': 8}, 'rounds=8 differs from 6'),
        ({'seeds': (0, 2)}, 'seeds=0,2 differs from 0,1'),
        ({'participation': 1.0}, 'participation=1.0 differs from 0.5'),
        ({'hyper': {'server_adam.lr': 0.5}}, 'server_adam.lr=0.5 differs from its default'),
        ({'data': {}}, 'clients_per_domain=its default differs from 2'),
        ({'model_options': {'projection': 4}}, 'model_options=projection=4 differs from '),
        ({'recipe': 'scaffold'}, 'recipe=scaffold differs from scaffold.server_adam'),
    ],
)
def test_resuming_with_other_settings_is_refused(config, whole, change, message):
    with pytest.raises(ValueError, match=f'^resume: {message}'):
        run(dataclasses.replace(config, **change), whole[0], resume=True)


def test_a_run_of_an_earlier_version_is_resumed(config, whole, tmp_path):
    """Options of data stood beside the other settings, and there were no plug-ins."""
    shutil.copytree(whole[0], tmp_path / 'out')
    written = json.loads((tmp_path / 'out' / 'config.json').read_text())
    for name in ('plugins', 'plugin_files'):
        del written[name]
    old = {**written, **written.pop('data'), 'alpha': None, 'truncate': False, 'model_options': ''}
    (tmp_path / 'out' / 'config.json').write_text(json.dumps(old))
    assert run(config, tmp_path / 'out', resume=True) == whole[1]
    with pytest.raises(UserError, match=r'^resume: clients_per_domain=3 differs from 2'):
        run(config.changed(clients_per_domain=3), tmp_path / 'out', resume=True)


def test_an_older_run_keeps_what_had_another_default(config, tmp_path):
    settings = json.loads(dataclasses.replace(config, last_k=5).to_json())
    del settings['score']
    (tmp_path / 'config.json').write_text(json.dumps(settings))
    assert resumed(config, tmp_path).last_k == 5 and resumed(config, tmp_path).score is None
    assert resumed(dataclasses.replace(config, last_k=2), tmp_path).last_k == 2
    assert resumed(config, tmp_path / 'new') == config

    (tmp_path / 'metrics.jsonl').write_text(
        '{"round": 3, "seed": 0, "global": {"dice": 0.9, "dice_foreground": 0.8}}\n'
    )
    again = resumed(config, tmp_path)
    assert again.score == 'dice_with_background'  # a segmentation, whose score had no other name
    check_same(again, tmp_path)
    assert History(tmp_path, upto=3).lines[0]['global'] == {'dice_with_background': 0.9, 'dice': 0.8}


def test_how_it_is_computed_may_change(config, whole):
    other = dataclasses.replace(config, devices=2, chunk=2, checkpoint_every=1, model='auto')
    assert run(other, whole[0], resume=True) == whole[1]


def test_an_existing_run_is_never_overwritten_by_accident(config, whole):
    before = {path: path.stat().st_mtime_ns for path in whole[0].rglob('*')}
    with pytest.raises(ValueError, match=r'out=.* exists; pass resume, overwrite or another out'):
        run(config, whole[0])
    assert {path: path.stat().st_mtime_ns for path in whole[0].rglob('*')} == before


@pytest.mark.parametrize('flag', ['overwrite', 'resume'])
def test_files_that_are_no_run_are_never_touched(toy, tmp_path, flag):
    (tmp_path / 'thesis.tex').write_text('years of work')
    (tmp_path / 'config.json').write_text('[1, 2]')
    with pytest.raises(ValueError, match=f'^{flag}: out=.* holds other files'):
        run(toy(), tmp_path, **{flag: True})
    assert (tmp_path / 'thesis.tex').read_text() == 'years of work'


def test_overwrite_waits_until_the_settings_are_checked(toy, tmp_path):
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'config.json').write_text('{"recipe": "fedavg"}')
    with pytest.raises(ValueError, match='scenario=nope'):
        run(toy(scenario='nope'), out, overwrite=True)
    assert (out / 'config.json').exists()
    check_out(out, resume=False, overwrite=True)


def test_a_stop_asked_for_in_the_last_round_still_writes_the_results(toy, tmp_path, monkeypatch):
    """A comparison must not go on to its next recipe."""
    interrupt(monkeypatch, 2)
    with pytest.raises(Interrupted, match='stopped after round 2 of 2; results in'):
        run(toy(rounds=2), tmp_path / 'out', quiet=True)
    assert (tmp_path / 'out' / 'summary.json').exists()
    (tmp_path / 'fresh').mkdir()
    check_out(tmp_path / 'fresh', resume=False, overwrite=False)  # empty: free to use


def test_history_keeps_whole_lines_up_to_the_checkpoint(tmp_path):
    history = History(tmp_path)
    history.append([{'round': 1, 'seed': 0, 'global': {'avg': 0.5}}, {'round': 2, 'seed': 0, 'global': {'avg': 0.6}}])
    with (tmp_path / 'metrics.jsonl').open('a') as file:
        file.write('{"round": 3')
    again = History(tmp_path, upto=1)
    assert again.of(0, 'global') == [{'avg': 0.5}]
    assert (tmp_path / 'metrics.jsonl').read_text() == '{"round": 1, "seed": 0, "global": {"avg": 0.5}}\n'


def test_a_checkpoint_keeps_the_tallies_of_its_moment(tmp_path):
    """What is counted while a checkpoint is still being written belongs to the next one."""

    class Recorder:
        def save(self, round, args):
            self.tallies = args['tallies'].item

        def latest_step(self):
            return None

    store, tallies = Checkpoints(tmp_path), {'sums': {'dropped': [1.0]}}
    store._manager = Recorder()
    store.save(1, FedState(*[jnp.zeros(1)] * 6), tallies)
    tallies['sums']['dropped'] = [9.0]
    saved = store._manager.tallies
    assert saved.pop('checksums') and saved == {'sums': {'dropped': [1.0]}}


def test_a_checkpoint_from_before_a_method_was_renamed_is_restored(tmp_path):
    def state(name, value):
        rows = {name: jnp.full((1, 3), value), 'scaffold': jnp.full((1, 3), value + 1)}
        return FedState(jnp.ones(1, jnp.int32), {}, {}, {}, rows, jnp.zeros(1))

    old = Checkpoints(tmp_path)
    old.save(1, state('local_models', 5.0), {})
    old.close()
    again, _ = Checkpoints(tmp_path).restore(state('keep_local_models', 0.0))
    assert {name: rows[0, 0] for name, rows in again.clients.items()} == {'keep_local_models': 5, 'scaffold': 6}


def test_a_run_that_goes_on_in_another_way_says_so(config, tmp_path, monkeypatch, capsys, read):
    out = tmp_path / 'out'
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt(patch, 2)
        run(config, out, quiet=True)
    capsys.readouterr()
    run(dataclasses.replace(config, devices=2, client_map='sharded'), out, resume=True, quiet=True)
    one, two = read(out / 'summary.json')['layouts']
    told = f'goes on as {two} after {one}: results differ by rounding that grows'
    assert told in ' '.join(capsys.readouterr().err.split())
