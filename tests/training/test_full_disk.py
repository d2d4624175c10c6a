"""Disks that are full, read-only or gone: one line, earlier checkpoints stay whole, and the run goes on later."""

import errno
import functools
import os
import re
import time

import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_fair import publishing, results
from fedjax_fair.core.tree import num_bytes
from fedjax_fair.core.types import FedState
from fedjax_fair.errors import UserError
from fedjax_fair.publishing import CannotWrite, disk_error
from fedjax_fair.results import journal
from fedjax_fair.training import Config, disk_space, prepare, run
from fedjax_fair.training.checkpoint import Checkpoints
from fedjax_fair.training.disk_space import Space, check_space
from fedjax_fair.training.progress import Display

pytestmark = pytest.mark.xdist_group('full_disk')

ERRORS = {
    'full': OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    'no quota': OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
    'read-only': OSError(errno.EROFS, os.strerror(errno.EROFS)),
    'told by another library': ValueError(
        'UNKNOWN: Error writing "d/1f" [OS error 28: ENOSPC No space left on device]'
    ),
    'a limit of files': ValueError("OUT_OF_RANGE: Failed to write 9 bytes: File too large [os_error_code='27']"),
    'in many lines': RuntimeError('a thread has failed:\n  Read-only file system\n'),
}


class Failing:
    """Orbax's manager, which cannot save a round and all that follow: it says so at once, or in the background."""

    def __init__(self, manager, error, round, at):
        self.manager, self.error, self.round, self.at, self.failed = manager, error, round, at, False

    def __getattr__(self, name):
        return getattr(self.manager, name)

    def save(self, round, args):
        self.failed = round >= self.round
        if self.failed and self.at == 'once':
            raise self.error
        if not self.failed:
            self.manager.save(round, args=args)

    def check_for_errors(self):
        if self.failed:
            raise self.error

    def wait_until_finished(self):
        self.check_for_errors()
        self.manager.wait_until_finished()


def fail(patch, error, round, at='the background'):
    make = Checkpoints._manager.func
    failing = functools.cached_property(lambda store: Failing(make(store), error, round, at))
    failing.__set_name__(Checkpoints, '_manager')
    patch.setattr(Checkpoints, '_manager', failing)


def state(round, place=jnp.asarray):
    rows = {'own': place(np.full((1, 3, 1000), round, np.float32))}
    return FedState(jnp.full(1, round, jnp.int32), {}, {}, {}, rows, jnp.zeros((1, 3), jnp.int32))


def assert_saves_again(folder, place=jnp.asarray):
    """The first checkpoint is whole, and the second can be saved once there is room."""
    store = Checkpoints(folder)
    assert store.saved() == [1]
    assert np.array_equal(store.restore(state(0, place))[0].clients['own'], state(1).clients['own']) and not store.notes
    store.save(2, state(2, place), {})
    store.close()
    assert store.saved() == [1, 2]


@pytest.mark.parametrize('at', ['once', 'the background'])
@pytest.mark.parametrize('error', ERRORS)
def test_a_checkpoint_that_cannot_be_written_is_told_in_one_line(tmp_path, monkeypatch, error, at):
    with monkeypatch.context() as patch:
        fail(patch, ERRORS[error], 2, at)
        store = Checkpoints(tmp_path)
        store.save(1, state(1), {})
        with pytest.raises(CannotWrite, match=r'checkpoints cannot be written: ') as told:
            store.save(2, state(2), {})
            store.check()
        assert '\n' not in str(told.value) and len(str(told.value)) < len(str(tmp_path)) + 100
        store._manager.manager.close()
    assert_saves_again(tmp_path)


def test_rows_that_cannot_be_written_are_told_in_one_line(tmp_path, monkeypatch):
    def full(*args):
        raise ERRORS['full']

    store = Checkpoints(tmp_path)
    store.save(1, state(1, np.asarray), {})
    with monkeypatch.context() as patch:
        patch.setattr('numpy.save', full)
        with pytest.raises(CannotWrite, match=r'No space left on device \(.* are free\)$'):
            store.save(2, state(2, np.asarray), {})
    store.close()
    assert_saves_again(tmp_path, np.asarray)


def test_a_bug_is_no_full_disk(tmp_path, monkeypatch):
    fail(monkeypatch, RuntimeError('a bug'), 1, 'once')
    store = Checkpoints(tmp_path)
    with pytest.raises(RuntimeError, match='a bug'):
        store.save(1, state(1), {})
    store._manager.manager.close()


def test_a_library_that_does_not_say_why_is_asked_for_room(tmp_path, monkeypatch):
    monkeypatch.setattr('fedjax_fair.publishing.free_bytes', lambda path: 100)
    assert disk_error(RuntimeError('?'), tmp_path, needed=50) is None
    assert disk_error(RuntimeError('?'), tmp_path, needed=200).errno == errno.ENOSPC
    assert disk_error(RuntimeError('?'), tmp_path / 'gone').errno == errno.ENOENT
    made_again = ValueError('NOT_FOUND: Error opening "zarr" driver: Error reading local file "d/82"')
    assert disk_error(made_again, tmp_path).errno == errno.ENOENT


@pytest.mark.parametrize('bug', [TypeError('?'), KeyError('?'), AttributeError('?'), NotImplementedError('?')])
def test_a_bug_is_never_asked_for_room(tmp_path, bug):
    assert disk_error(bug, tmp_path, needed=10**18) is None and disk_error(bug, tmp_path / 'gone') is None


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """Settings, and a folder where they ran to their end."""
    often = {'rounds': 4, 'eval_every': 1, 'checkpoint_every': 1, 'last_k': 2}
    config = Config(scenario='gaussian_toy_1', batch_size=64, devices=1, **often)
    out = tmp_path_factory.mktemp('whole') / 'out'
    run(config, out, quiet=True)
    return config, out


def assert_stops(config, out, message):
    told = r'stopped after round [34] of 4; a checkpoint needs 10\d kB, that of round 2 is whole; go on with the same'
    with pytest.raises(UserError, match=f'^.*{message}; {told} command and resume$') as raised:
        run(config, out, quiet=True)
    assert '\n' not in str(raised.value)


def assert_goes_on_as(reference, config, out):
    run(config, out, resume=True, quiet=True)
    for name in ('metrics.jsonl', 'predictions.npz'):
        assert (out / name).read_bytes() == (reference / name).read_bytes()
    assert results.summary(out)['global'] == results.summary(reference)['global']


@pytest.mark.parametrize('error', ['full', 'read-only'])
def test_a_run_whose_checkpoint_cannot_be_written_goes_on_later(whole, tmp_path, monkeypatch, capfd, error):
    config, reference = whole
    with monkeypatch.context() as patch:
        fail(patch, ERRORS[error], 3)
        assert_stops(config, tmp_path / 'out', f'checkpoints cannot be written: {ERRORS[error].strerror}.*')
    assert_goes_on_as(reference, config, tmp_path / 'out')
    assert capfd.readouterr().err == ''


@pytest.mark.parametrize('file', ['metrics.jsonl', 'global-3.npz'])
def test_a_run_whose_results_cannot_be_written_goes_on_later(whole, tmp_path, monkeypatch, file):
    to_disk = publishing.to_disk

    def full(path):
        history = tmp_path / 'out' / 'metrics.jsonl'
        if file in path.name and history.exists() and '"round": 3' in history.read_text():
            raise ERRORS['full']
        to_disk(path)

    with monkeypatch.context() as patch:
        patch.setattr(publishing, 'to_disk', full)
        patch.setattr(journal, 'to_disk', full)
        assert_stops(whole[0], tmp_path / 'out', rf'{file} cannot be written: No space left .* are free\)')
    assert_goes_on_as(whole[1], whole[0], tmp_path / 'out')


def wait_until(done, seconds=60):
    begun = time.monotonic()
    while not done():
        assert time.monotonic() - begun < seconds
        time.sleep(0.01)


def test_a_folder_that_is_gone_ends_a_run_in_one_line(whole, tmp_path, monkeypatch):
    out = tmp_path / 'out'
    update = Display.update

    def remove(display, done, *args):
        update(display, done, *args)
        if done == 2:
            wait_until(lambda: not list((out / 'checkpoints').glob('*tmp*')))  # its threads would make the folder again
            out.rename(tmp_path / 'elsewhere')

    monkeypatch.setattr(Display, 'update', remove)
    gone = (
        r'cannot be written: (No such file or directory|the folder is gone); stopped after round \d of 4; .* none yet; '
    )
    with pytest.raises(UserError, match=gone):
        run(whole[0], out, quiet=True)


# --- before the first round ------------------------------------------------------------------------------------------


def test_a_run_is_told_that_the_disk_may_become_full(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_space, 'free_bytes', lambda path: 1000)
    assert check_space(tmp_path, Space(300, 100)) == ''
    full = f'{tmp_path} may become full: the run will need about 1.2 kB and 1 kB are free'
    assert check_space(tmp_path, Space(350, 150)) == full
    assert check_space(tmp_path, Space(0, 150)) == ''
    for folder in ('checkpoints/damaged-4', 'checkpoints/4'):  # of a run that is resumed: the first one stays
        assert check_space(tmp_path, Space(350, 150)) == full
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / 'numbers').write_bytes(bytes(300))
    assert check_space(tmp_path, Space(350, 150)) == ''
    with pytest.raises(
        UserError, match=r'a checkpoint needs 1\.1 kB and 1 kB are free; make room, or .* checkpoint_every=0$'
    ):
        check_space(tmp_path, Space(1100, 0))
    monkeypatch.setattr(disk_space, 'free_bytes', lambda path: None)
    assert check_space(tmp_path, Space(1100, 0)) == ''


def test_space_is_looked_at_before_the_first_round(whole, tmp_path, monkeypatch, capfd):
    config, reference = whole
    written = sum(path.stat().st_size for path in reference.rglob('*') if path.is_file())
    with monkeypatch.context() as patch:
        patch.setattr(disk_space, 'free_bytes', lambda path: 200_000)
        run(config, tmp_path / 'told', quiet=True)
        patch.setattr(disk_space, 'free_bytes', lambda path: 10)
        with pytest.raises(UserError, match=r'a checkpoint needs 10\d kB and 10 B are free'):
            run(config, tmp_path / 'refused', quiet=True)
    (line,) = capfd.readouterr().err.splitlines()
    needed = re.search(r'told may become full: the run will need about ([\d.]+) kB and 200 kB are free', line)[1]
    assert 0.3 * written < 1000 * float(needed) < 3 * written + 300_000
    assert not (tmp_path / 'refused').exists()


def test_rows_and_examples_on_disk_count_together(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_space, 'free_bytes', lambda path: 1000)
    assert check_space(tmp_path, Space(0, 100, 900)) == ''  # no checkpoints
    assert 'will need about 1.1 kB' in check_space(tmp_path, Space(0, 200, 900))
    with pytest.raises(UserError, match=r'rows and examples on disk need 1\.1 kB and 1 kB are free; make room, or'):
        check_space(tmp_path, Space(0, 0, 1100))
    with pytest.raises(UserError, match='a checkpoint needs 300 B, beside 800 B of rows and examples, and 1 kB are'):
        check_space(tmp_path, Space(300, 0, 800))
    for name in ('rows', 'examples'):  # of a run that was killed: they are written anew
        (tmp_path / name).mkdir()
        (tmp_path / name / '0').write_bytes(bytes(50))
    assert 'will need about 1.6 kB' in check_space(tmp_path, Space(300, 0, 800))
    (tmp_path / 'checkpoints' / '4').mkdir(parents=True)
    (tmp_path / 'checkpoints' / '4' / '0').write_bytes(bytes(600))
    with pytest.raises(UserError, match=r'on disk need 1\.2 kB and 1\.1 kB are free'):
        check_space(tmp_path, Space(0, 0, 1200))
    assert check_space(tmp_path, Space(0, 0, 1200), overwrite=True) == ''


@pytest.mark.parametrize('checkpoints', [0, 1])
def test_what_a_run_will_keep_on_disk_is_known(checkpoints):
    often = {'rounds': 4, 'recipe': 'scaffold', 'checkpoint_every': checkpoints}
    experiment = prepare(Config(scenario='gaussian_toy_1', model='logreg', rows='disk', examples='disk', **often))
    federation, states = experiment.federation, experiment.program.shapes(experiment.lanes)
    rows, examples = num_bytes(states.clients), federation.x.nbytes + federation.y.nbytes
    space = disk_space.space_of(experiment)
    assert space.kept == rows + examples and bool(space.checkpoint) == bool(checkpoints)


def test_a_run_that_cannot_begin_leaves_its_folder_free(whole, tmp_path, monkeypatch):
    def full(*args):
        raise UserError('no room')

    with monkeypatch.context() as patch:
        patch.setattr('fedjax_fair.training.loop.PredictionLog', full)  # after config.json and metrics.jsonl
        with pytest.raises(UserError, match='no room'):
            run(whole[0], tmp_path / 'out', quiet=True)
    assert not (tmp_path / 'out').exists()
