"""A grid times seeds as one program: compiled once, and every point the run one would have made alone."""

import json
import pathlib
import subprocess

import pytest

from fedjax_fair.methods import RECIPES
from fedjax_fair.results import failure_lines, files, point_name
from fedjax_fair.training import Config, Interrupted, loop, prepare, run, setup, writer_lock

pytestmark = pytest.mark.xdist_group('grid_run')
POINTS = [{'fedprox.mu': mu, 'lr': lr} for mu in (0.0, 2.0) for lr in (0.1, 0.01)]


@pytest.fixture
def builds(monkeypatch):
    """How often the algorithm was built: once per trace."""
    count, build = [], setup.build
    monkeypatch.setattr(setup, 'build', lambda *args, **kwargs: count.append(1) or build(*args, **kwargs))
    return count


def settings(toy):
    return toy(recipe='fedprox', rounds=3, seeds=(0, 1), batch_size=32, local_epochs=2)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('sweep') / 'out'


@pytest.fixture
def swept(toy, folder, builds):
    """The sweep, run once for all tests of this file."""
    if not folder.exists():
        run(settings(toy), folder, points=POINTS, quiet=True)
        (folder / 'builds').write_text(str(len(builds)))
    return folder


def losses(path):
    lines = map(json.loads, (path / 'metrics.jsonl').read_text().splitlines())
    return [(line['round'], line['seed'], line['train_loss'], line['global']['loss']) for line in lines]


def test_every_point_has_a_directory_that_repeats_it(swept, builds, tmp_path):
    """And the whole grid is traced as often as this one run."""
    names = {path.name for path in swept.iterdir() if path.is_dir()}
    assert names == {'fedprox.mu=0,lr=0.1', 'fedprox.mu=0,lr=0.01', 'fedprox.mu=2,lr=0.1', 'fedprox.mu=2,lr=0.01'}
    for point in POINTS:
        config = Config.of_run(swept / point_name(point))
        assert config.hyper == {'fedprox.mu': point['fedprox.mu']} and config.lr == point['lr']
    chosen = swept / 'fedprox.mu=2,lr=0.1'
    builds.clear()
    (summary,) = run(Config.of_run(chosen), tmp_path / 'alone', quiet=True)
    assert len(builds) == int((swept / 'builds').read_text())
    for one, two in zip(losses(tmp_path / 'alone'), losses(chosen), strict=True):
        assert one == pytest.approx(two, rel=1e-5)
    kept = json.loads((chosen / 'summary.json').read_text())
    assert summary['global']['client_accuracy'] == kept['global']['client_accuracy']


def test_validation_data_choose_a_point(toy, tmp_path):
    points = [{'lr': 1e-6}, {'lr': 0.5}]
    found = run(toy(rounds=1, validation=0.2), tmp_path / 'out', points=points, quiet=True)
    kept = json.loads((tmp_path / 'out' / 'sweep.json').read_text())
    scores = [summary['validation']['mean'] for summary in found]
    assert scores[1] > scores[0] and kept['chosen'] == 1
    assert [line['chosen'] for line in kept['points']] == [False, True]
    assert [line['folder'] for line in kept['points']] == ['lr=1e-06', 'lr=0.5']
    assert kept['points'][0]['test']['avg'] == found[0]['global']['avg']


def test_without_validation_data_nothing_is_chosen(swept):
    kept = json.loads((swept / 'sweep.json').read_text())
    assert kept['chosen'] is None
    assert len(kept['points']) == len(POINTS) and {line['chosen'] for line in kept['points']} == {None}


def test_points_differ_and_share_the_seeds(swept):
    found = {point_name(point): losses(swept / point_name(point)) for point in POINTS}
    finals = {values[-1] for values in found.values()}
    assert len(finals) == len(POINTS)
    assert {seed for values in found.values() for _, seed, *_ in values} == {0, 1}


def test_a_sweep_is_resumed_and_other_settings_are_refused(toy, tmp_path, monkeypatch):
    config, points = settings(toy), [{'lr': 0.1}, {'lr': 0.2}]
    with monkeypatch.context() as patch:
        patch.setattr(loop.StopFlag, '__enter__', lambda flag: flag.__dict__.update(asked=True) or flag)
        with pytest.raises(Interrupted, match='stopped after round 0 of 3'):
            run(config, tmp_path / 'out', points=points, quiet=True)
    with pytest.raises(ValueError, match='resume: seeds=3 differs from 0,1'):
        run(toy(**{**vars(config), 'seeds': (3,)}), tmp_path / 'out', points=points, resume=True)
    found = run(config, tmp_path / 'out', points=points, resume=True, quiet=True)
    assert found == run(config, tmp_path / 'out', points=points, resume=True, quiet=True)
    assert [json.loads((tmp_path / 'out' / f'lr={lr}' / 'summary.json').read_text()) for lr in (0.1, 0.2)] == found


@pytest.mark.parametrize('file', ['sweep.json', 'lr=0.1/summary.json', 'lr=0.2/summary.json'])
def test_a_sweep_that_is_killed_at_its_end_goes_on(toy, tmp_path, monkeypatch, capsys, file):
    """Predictions are there until all files are written, and the summaries come last of all."""
    config, points, out = toy(rounds=2, checkpoint_every=1), [{'lr': 0.1}, {'lr': 0.2}], tmp_path / 'out'
    write = files.publish

    def publish(path, content):
        if pathlib.Path(path) == out / file:
            raise RuntimeError('power failure')
        return write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(files, 'publish', publish)
        with pytest.raises(RuntimeError, match='power failure'):
            run(config, out, points=points, quiet=True)
    found = run(config, out, points=points, resume=True, quiet=True)
    assert 'lost' not in capsys.readouterr().err
    assert [summary['predictions_bytes'].keys() for summary in found] == [{'global', 'adapted'}] * 2
    assert len(json.loads((out / 'sweep.json').read_text())['points']) == 2
    assert not list(out.glob('*/evaluated_examples')) and (out / 'lr=0.2' / 'predictions.npz').exists()


def test_what_a_process_left_that_was_killed_after_its_summaries_is_removed(toy, tmp_path, monkeypatch):
    config, out, dead = toy(rounds=2, checkpoint_every=1), tmp_path / 'out', subprocess.Popen(['true'])
    dead.wait()
    with monkeypatch.context() as patch:
        patch.setattr(loop.PredictionLog, 'forget', lambda kept: None)
        found = run(config, out, quiet=True)
    (out / writer_lock.LOCK).write_text(json.dumps(writer_lock._this_process() | {'process': dead.pid}))
    (out / 'evaluated_examples' / 'mine.npz').write_text('')
    assert run(config, out, resume=True, quiet=True) == found
    assert [path.name for path in (out / 'evaluated_examples').iterdir()] == ['mine.npz']
    (out / 'evaluated_examples' / 'mine.npz').unlink()
    assert run(config, out, resume=True, quiet=True) == found
    assert not (out / 'evaluated_examples').exists() and not (out / writer_lock.LOCK).exists()


def test_failures_name_the_point():
    failures = {'dropped': 2, 'non_finite': 0, 'empty_rounds': 1}
    summaries = [{'failures': dict.fromkeys(failures, 0) | f, 'seeds': [0], 'rounds': 3} for f in (failures, {})]
    told = '2 times a client dropped out, 1 rounds were empty and left the model unchanged'
    assert failure_lines(summaries, [{'lr': 0.1}, {'lr': 0.2}]) == [f'lr=0.1, 3 rounds: {told}']


@pytest.mark.parametrize(
    ('points', 'message'),
    [
        ([{'rounds': 1.0}], 'grid=rounds: only float settings can be swept .*: lr, momentum, weight_decay, part.a'),
        ([{'part.n': 1.0}], 'grid=part.n: only float'),
        ([{'part.how': 1.0}], 'grid=part.how: only float'),
        ([{'fedprox.mu': 1.0}], 'grid=fedprox.mu: only float'),
        ([{'lr': 0.0}], 'lr=0.0 must be above 0'),
        ([{'lr': 0.1}, {'lr': 0.1}], 'grid: a value of lr is given twice'),
        ([{'momentum': 0.0}, {'momentum': 0.9}], 'momentum=0.9 is of local_optimizer=sgd'),
        ([{'lr': 0.1}, {'lr': 1e38}], 'the learning rate of round 6 would be infinite'),
    ],
)
def test_what_cannot_be_swept_is_refused(toy, monkeypatch, points, message):
    def part(a: float = 1.0, n: int = 2, how: str = 'mean'):
        """A recipe with a hyper-parameter of every type."""
        return RECIPES['fedavg']()

    monkeypatch.setitem(RECIPES, 'part', part)
    with pytest.raises(ValueError, match=message):
        prepare(toy(recipe='part', local_optimizer='adam', rounds=6, lr_decay=2), points)


def test_sweeping_what_a_method_fixes_is_refused(toy):
    with pytest.raises(ValueError, match='grid=momentum: scaffold fixes it'):
        prepare(toy(recipe='scaffold'), [{'momentum': 0.5}])


def test_point_names_never_collide():
    assert point_name({'lr': 0.123456789}) != point_name({'lr': 0.12345679})
