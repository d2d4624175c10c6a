"""Files that a run appends to while it goes on: what is lost or changed is noticed, and repaired where possible."""

import json
import pathlib
import re
import shutil

import pytest
from test_resume import interrupt

from fedjax_fair.errors import UserError
from fedjax_fair.results import History
from fedjax_fair.training import Config, Interrupted, file_checksums, run
from fedjax_fair.training.checkpoint import OLDER_TALLIES, history_copy

pytestmark = pytest.mark.xdist_group('histories')

HARMS = {
    'deleted': lambda path: path.unlink(),
    'empty': lambda path: path.write_bytes(b''),
    'lines lost': lambda path: path.write_bytes(b''.join(path.read_bytes().splitlines(keepends=True)[3:])),
    'last line torn': lambda path: path.write_bytes(path.read_bytes()[:-5]),
    'a bad line': lambda path: path.write_bytes(b'{"round": 1,\n' + path.read_bytes()),
    'an empty record': lambda path: path.write_bytes(b'{}\n' + path.read_bytes()),
    'not UTF-8': lambda path: path.write_bytes(b'\xff\xfe' + path.read_bytes()[2:]),
    'a digit edited': lambda path: path.write_bytes(re.sub(rb'0\.5', b'0.6', path.read_bytes(), count=1)),
}
LATER = {
    'lines after the checkpoint': b'{"round": 7, "seed": 0, "global": {}}\n',
    'and a torn one': b'{"round": 7, "seed": 0, "global": {}}\n{"round": 8, "se',
    'the beginning of one': b'{"ro',
}
STRANGE = {
    'lines of earlier rounds': b'{"round": 6, "seed": 0, "global": {}}\n',
    'notes': b'looks good\n',
    'half a note': b'looks good',
    'zeros': b'\0\0\0',
    'not UTF-8': b'\xff\n',
    'a bad record': b'{"round": 7}\n',
}


def line(round, seed=0, avg=0.5):
    return {'round': round, 'seed': seed, 'global': {'avg': avg}}


@pytest.fixture
def written(tmp_path):
    """A history of six rounds that was sealed, its seal, and its copy."""
    folder, copy = tmp_path / 'run', tmp_path / 'checkpoints' / 'history-0.jsonl'
    folder.mkdir()
    history = History(folder, copy=copy)
    for rounds in ((1, 2), (3, 4, 5, 6)):
        history.append([line(round) for round in rounds])
        seal = history.seal_with_copy()
    return folder, seal, copy


@pytest.mark.parametrize('harm', HARMS)
def test_damage_is_told_and_repaired_from_the_copy(written, harm):
    folder, seal, copy = written
    path = folder / 'metrics.jsonl'
    before = path.read_bytes()
    HARMS[harm](path)
    again = History(folder, 6, seal, copy)
    assert again.note == f'{path} was lost or changed; it is restored from {copy}'
    assert path.read_bytes() == before and [one['round'] for one in again.lines] == [1, 2, 3, 4, 5, 6]
    assert History(folder, 6, seal, copy).note == ''


@pytest.mark.parametrize('harm', HARMS)
def test_where_the_copy_is_damaged_too_the_run_is_refused(written, harm):
    folder, seal, copy = written
    for path in (folder / 'metrics.jsonl', copy):
        HARMS[harm](path)
    with pytest.raises(
        UserError, match=r'^.*metrics\.jsonl was lost or changed since .* round 6, and so was .*-0'
    ) as told:
        History(folder, 6, seal, copy)
    assert '\n' not in str(told.value) and str(told.value).endswith(
        'bring the file back, or start again with overwrite'
    )


@pytest.mark.parametrize('harm', HARMS)
def test_a_damaged_copy_is_written_again(written, harm):
    folder, seal, copy = written
    before = copy.read_bytes()
    HARMS[harm](copy)
    again = History(folder, 6, seal, copy)
    assert again.note == '' and again.seal_with_copy() == seal and copy.read_bytes() == before


@pytest.mark.parametrize('more', LATER)
def test_what_a_run_wrote_after_its_checkpoint_is_dropped(written, more):
    folder, seal, copy = written
    path = folder / 'metrics.jsonl'
    before = path.read_bytes()
    path.write_bytes(before + LATER[more])
    assert History(folder, 6, seal, copy).note == '' and path.read_bytes() == before


@pytest.mark.parametrize('more', STRANGE)
def test_what_no_run_wrote_is_told(written, more):
    folder, seal, copy = written
    path = folder / 'metrics.jsonl'
    before = path.read_bytes()
    path.write_bytes(before + STRANGE[more])
    told = f'{path}: no run wrote what follows the lines of round 6; it is dropped'
    assert History(folder, 6, seal, copy).note == told and path.read_bytes() == before


def test_an_older_checkpoint_has_an_older_seal(tmp_path):
    """The newest one may be damaged."""
    copy = tmp_path / 'copy.jsonl'
    history = History(tmp_path, copy=copy)
    history.append([line(1)])
    seal = history.seal_with_copy()
    history.append([line(2)])
    history.seal_with_copy()
    again = History(tmp_path, 1, seal, copy)
    assert again.note == '' and [one['round'] for one in again.lines] == [1]
    again.append([line(2, avg=0.75)])
    newer = again.seal_with_copy()
    assert copy.read_bytes() == (tmp_path / 'metrics.jsonl').read_bytes()
    (tmp_path / 'metrics.jsonl').unlink()
    assert History(tmp_path, 2, newer, copy).of(0, 'global') == [{'avg': 0.5}, {'avg': 0.75}]


@pytest.mark.parametrize('harm', ['a bad line', 'an empty record', 'not UTF-8'])
def test_damage_of_an_older_run_is_told_in_one_line(written, harm):
    folder, _, _ = written
    HARMS[harm](folder / 'metrics.jsonl')
    with pytest.raises(UserError, match=r'metrics\.jsonl( line 1)?: ') as told:
        History(folder, 6)
    assert '\n' not in str(told.value)


@pytest.mark.parametrize(('harm', 'first'), [('deleted', 1), ('lines lost', 1), ('last line torn', 6)])
def test_evaluations_that_an_older_run_has_lost_are_noticed(written, harm, first):
    folder, _, _ = written
    History(folder, 6).check_complete(range(1, 7), [0])
    HARMS[harm](folder / 'metrics.jsonl')
    lost = rf'metrics\.jsonl has lost the evaluation of round {first}, seed 0: bring the file back'
    with pytest.raises(UserError, match=lost):
        History(folder, 6).check_complete(range(1, 7), [0])


def test_another_program_that_changes_the_file_is_noticed(written):
    folder, seal, copy = written
    history = History(folder, 6, seal, copy)
    with (folder / 'metrics.jsonl').open('a') as file:
        file.write('mine\n')
    with pytest.raises(UserError, match='another program has changed it while the run went on'):
        history.append([line(7)])


# --- runs ------------------------------------------------------------------------------------------------------------

POINTS = [{'lr': 0.1}, {'lr': 0.2}]


@pytest.fixture(scope='module')
def grid(tmp_path_factory):
    """Settings of two points, a folder where they ran to their end, and one where they were stopped after round 4."""
    often = {'rounds': 6, 'eval_every': 1, 'last_k': 4, 'checkpoint_every': 0}
    config = Config(scenario='gaussian_toy_1', batch_size=64, devices=1, seeds=(0, 1), **often)
    folder = tmp_path_factory.mktemp('grid')
    run(config, folder / 'whole', points=POINTS, quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        interrupt(patch, 4)
        with pytest.raises(Interrupted):
            run(config, folder / 'stopped', points=POINTS, quiet=True)
    return config, folder


@pytest.fixture
def stopped(grid, tmp_path):
    return pathlib.Path(shutil.copytree(grid[1] / 'stopped', tmp_path / 'out'))


def resumed(config, out, capfd):
    """What is told when a run goes on."""
    capfd.readouterr()
    run(config, out, points=POINTS, resume=True, quiet=True)
    return [line.partition(': ')[2] for line in capfd.readouterr().err.splitlines()]


def assert_equal(whole, out, names):
    for point in ('lr=0.1', 'lr=0.2'):
        for name in names:
            assert (out / point / name).read_bytes() == (whole / point / name).read_bytes(), name


def test_every_point_of_a_grid_is_repaired(grid, stopped, capfd):
    """What follows the last checkpoint is dropped without a word."""
    config, folder = grid
    one, two = (stopped / point / 'metrics.jsonl' for point in ('lr=0.1', 'lr=0.2'))
    one.unlink()
    HARMS['a digit edited'](two)
    told = [f'{path} was lost or changed; it is restored from' for path in (one, two)]
    found = resumed(config, stopped, capfd)
    assert [line.rpartition(' ')[0] for line in found] == told
    assert [line.rpartition(' ')[2] for line in found] == [str(history_copy(stopped, number)) for number in (0, 1)]
    assert_equal(folder / 'whole', stopped, ['metrics.jsonl', 'predictions.npz'])


def test_a_run_without_its_history_is_refused(grid, stopped):
    for path in (stopped / 'lr=0.2' / 'metrics.jsonl', history_copy(stopped, 1)):
        HARMS['lines lost'](path)
    before = {path: path.read_bytes() for path in stopped.rglob('*') if path.is_file()}
    with pytest.raises(UserError, match=r'lr=0\.2/metrics\.jsonl was lost or changed since .* and so was .*history-1'):
        run(grid[0], stopped, points=POINTS, resume=True, quiet=True)
    assert {path: path.read_bytes() for path in stopped.rglob('*') if path.is_file()} == before


def without_seals(out):
    """As older versions saved checkpoints."""
    (tallies,) = (out / 'checkpoints').glob('*/tallies/metadata')
    old = {name: value for name, value in json.loads(tallies.read_text()).items() if name in OLDER_TALLIES}
    tallies.write_text(json.dumps(old))
    for pattern in ('history-*', f'*/{file_checksums.NAME}'):
        for path in (out / 'checkpoints').glob(pattern):
            path.unlink()


def test_an_older_run_goes_on_and_is_refused_where_evaluations_are_lost(grid, stopped, capfd):
    config, folder = grid
    without_seals(stopped)
    whole = (stopped / 'lr=0.2' / 'metrics.jsonl').read_bytes()
    HARMS['lines lost'](stopped / 'lr=0.2' / 'metrics.jsonl')
    with pytest.raises(UserError, match=r'lr=0\.2/metrics\.jsonl has lost the evaluation of round 1, seed 0: bring'):
        run(config, stopped, points=POINTS, resume=True, quiet=True)
    (stopped / 'lr=0.2' / 'metrics.jsonl').write_bytes(whole)
    assert resumed(config, stopped, capfd) == []
    assert_equal(folder / 'whole', stopped, ['metrics.jsonl', 'predictions.npz'])


def test_predictions_that_are_lost_or_changed_are_told(grid, stopped, capfd):
    """The run goes on, without the file that needs them."""
    config, folder = grid
    changed = stopped / 'lr=0.1' / 'evaluated_examples' / 'global-3.npz'
    changed.write_bytes(changed.read_bytes()[:-1] + b'?')
    lost = stopped / 'lr=0.2' / 'evaluated_examples' / 'global-4.npz'
    lost.unlink()
    (stopped / 'lr=0.2' / 'evaluated_examples' / 'mine.npz').write_bytes(b'')
    told = resumed(config, stopped, capfd)
    assert told[:2] == [f'{path} was lost or changed; what it predicted cannot be reported' for path in (changed, lost)]
    assert [re.search(r'has lost what round (\d) predicted; no intervals', line)[1] for line in told[2:]] == ['3', '4']
    assert_equal(folder / 'whole', stopped, ['metrics.jsonl', 'predictions_adapted.npz'])
    assert not list(stopped.glob('*/predictions.npz'))


def test_damaged_predictions_of_an_older_run_are_told(grid, stopped, capfd):
    without_seals(stopped)
    changed = stopped / 'lr=0.1' / 'evaluated_examples' / 'global-3.npz'
    changed.write_bytes(changed.read_bytes()[:200])
    (told,) = resumed(grid[0], stopped, capfd)
    assert 'has lost what round 3 predicted; no intervals' in told


# --- finished runs ---------------------------------------------------------------------------------------------------


def finished_grid(toy, out, **settings):
    config = toy(rounds=2, eval_every=1, **settings)
    run(config, out, points=POINTS, quiet=True)
    return config, out / 'lr=0.2' / 'metrics.jsonl'


@pytest.mark.parametrize('harm', ['deleted', 'last line torn', 'a digit edited', 'more'])
def test_the_history_of_a_finished_run_is_restored_and_told(toy, tmp_path, capfd, harm):
    config, path = finished_grid(toy, tmp_path, checkpoint_every=1)
    before = path.read_bytes()
    (HARMS | {'more': lambda path: path.write_bytes(before + LATER['and a torn one'])})[harm](path)
    (told,) = resumed(config, tmp_path, capfd)
    dropped = f'{path}: the run did not write what follows its last line; it is dropped'
    restored = f'{path} was lost or changed; it is restored from {history_copy(tmp_path, 1)}'
    assert told == (dropped if harm == 'more' else restored) and path.read_bytes() == before
    assert resumed(config, tmp_path, capfd) == []


def test_a_finished_run_without_its_history_is_refused(toy, tmp_path, capfd):
    """Without checkpoints there is no copy; of a run of an older version nobody can tell."""
    config, path = finished_grid(toy, tmp_path)
    path.write_bytes(path.read_bytes()[5:])
    with pytest.raises(UserError, match=rf'^{path} was lost or changed since the run ended: bring the file back'):
        run(config, tmp_path, points=POINTS, resume=True, quiet=True)
    place = path.with_name('summary.json')
    old = {name: value for name, value in json.loads(place.read_text()).items() if name != 'history'}
    place.write_text(json.dumps(old))
    assert resumed(config, tmp_path, capfd) == []
