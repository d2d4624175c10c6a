"""A user's mistake: one line on standard error that names the flag, exit code 2, nothing compiled, nothing left."""

import errno
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from fedjax_fair.cli import main
from fedjax_fair.cli.mistakes import one_line, output_may_fail
from fedjax_fair.core import client_map
from fedjax_fair.data.samplers import cohort_size
from fedjax_fair.errors import UserError
from fedjax_fair.results import point_name
from fedjax_fair.training import Config, loop
from fedjax_fair.training.checks import checked
from fedjax_fair.training.grid import grid_points
from fedjax_fair.training.output import check_out

TOY = '--scenario=gaussian_toy_1'
CHOICES = 'is not one of '
RUN_MISTAKES = [
    (['--recipe=nope'], "recipe 'nope'", 'fedavg, uniform, fedprox'),
    (['--recipe=fedprx'], "recipe 'fedprx'", "did you mean 'fedprox'?"),
    (['--recipe='], "recipe ''", 'fedavg'),
    (['--recipe=fedavg+fedavg'], 'fedavg', 'listed twice'),
    (['--recipe=fedadam+fedyogi'], 'server_adam and server_yogi', 'only one method'),
    (['--scenario=nope'], '--scenario=nope', 'digits_domains, digits_labels, '),
    (['--scenario=npz'], '--scenario=npz', 'npz:PATH'),
    (['--scenario=npz:/no/such.npz'], '--scenario=npz:/no/such.npz', 'no such file'),
    (['--model=nope'], '--model=nope', CHOICES + 'auto, logreg, mlp'),
    (['--model=cnn'], '--model=cnn', 'inputs of shape (2,)'),
    (['--norm=nope'], '--norm=nope', CHOICES + 'batch, group, none, stateless'),
    (['--norm=batch'], 'norm', 'choose one of cnn, lenet, resnet10'),
    (['--local_optimizer=nope'], '--local_optimizer=nope', CHOICES + 'sgd, nesterov, adam'),
    (['--sampler=nope'], '--sampler=nope', CHOICES + 'uniform, size, schedule'),
    (['--client_map=nope'], '--client_map=nope', CHOICES + 'auto, vmap, chunked, sharded'),
    (['--conv=nope'], '--conv=nope', CHOICES + 'auto, exact'),
    (['--augment=crop+nope'], "--augment=crop+nope: 'nope'", CHOICES + 'crop, flip, affine'),
    (['--augment=crop'], '--augment=crop', 'needs images'),
    (['--recipe=fedprox', '--fedprox.nu=1'], '--fedprox.nu=1', 'it has: mu'),
    (['--recipe=fedprox', '--fedprox.mu=much'], '--fedprox.mu=much', 'such as 0.01'),
    (['--recipe=fedprox', '--fedprox.mu=nan'], '--fedprox.mu=nan', 'finite'),
    (['--fedprox.mu=1'], '--fedprox.mu=1', "not a part of recipe 'fedavg'"),
    (['--fedprox.mu'], '--fedprox.mu', 'write --fedprox.mu=VALUE'),
    (['--lr=fast'], '--lr=fast', 'expected a number'),
    (['--lr=0'], '--lr=0.0', 'above 0'),
    (['--lr=inf'], '--lr=inf', 'finite'),
    (['--lr=1e-320'], '--lr=1e-320', 'is 0 in the 32 bits'),
    (['--lr=1e39'], '--lr=1e+39', 'is infinite in the 32 bits'),
    (['--normalize=nan/1'], '--normalize=nan/1', '(finite) means'),
    (['--normalize=inf/1'], '--normalize=inf/1', '(finite) means'),
    (['--normalize=0.5/0'], '--normalize=0.5/0', '(positive) deviations'),
    (['--normalize=0.5/1e-320'], '--normalize=0.5/1e-320', '(positive) deviations'),
    (['--resume', '--overwrite'], '--resume', 'that --overwrite would delete; give one of them'),
    (['--local_optimizer=adam', '--momentum=0.9'], '--momentum=0.9', '--local_optimizer=adam has none'),
    (['--momentum=1'], '--momentum=1', 'below 1'),
    (['--momentum=0.99999999999'], '--momentum=0.99999999999', 'below 1, also in the 32 bits'),
    (['--local_optimizer=adam', '--adam_b1=0.9999999999'], '--adam_b1', 'below 1, also in the 32 bits'),
    (['--recipe=fedadam', '--fedadam.b1=0.9999999999'], '--fedadam.b1', 'below 1, also in the 32 bits'),
    (['--recipe=fedyogi', '--fedyogi.tau=1e38'], '--fedyogi.tau=1e+38', 'at most 9.22337e+18'),
    (['--recipe=fedyogi', '--fedyogi.tau=1e-30'], '--fedyogi.tau=1e-30', 'at least 1.0842e-19'),
    (['--lr=1e-30', '--lr_decay=1e-10', '--rounds=2'], '--lr_decay=1e-10', 'the learning rate of round 2 would be 0'),
    (['--lr=1e10', '--lr_decay=1e-30', '--rounds=3'], '--lr_decay=1e-30', 'the learning rate of round 3 would be 0'),
    (['--lr_decay=10', '--lr=1e-9', '--rounds=40'], '--lr_decay=10', 'learning rate of round 40 would be infinite'),
    (['--quiet=maybe'], '--quiet=maybe', 'must be true or false'),
    (['--noquiet=1'], '--noquiet=1', 'does not take an argument'),
    (['--client_map=vmap', '--chunk=3'], '--chunk=3', 'does not apply to --client_map=vmap'),
    (['--lrr=1'], 'unknown flag --lrr; --help shows all flags', "did you mean 'lr'?"),
    (['--trials=2'], 'unknown flag --trials', '--help shows all flags'),
    (['--lrr', '0.1'], 'unknown flag --lrr', "did you mean 'lr'?"),
    (['--nolr'], 'unknown flag --nolr', "did you mean 'norm'?"),
    (['--participation=0'], '--participation=0.0', 'above 0'),
    (['--participation=2'], '--participation=2.0', 'at most 1'),
    (['--dropout=1.5'], '--dropout=1.5', 'at most 1'),
    (['--outliers=pixels', '--outlier_share=1.5'], '--outlier_share=1.5', 'at most 1'),
    (['--outliers=pixels', '--outlier_strength=7'], '--outlier_strength=7.0', 'between 0 and 1'),
    (['--outlier_share=0'], '--outlier_share=0.0', 'needs --outliers=pixels'),
    (['--batch_size=1000000000000'], '--batch_size=1000000000000', 'at most 2147483647'),
    (['--local_epochs=1000000000000'], '--local_epochs=1000000000000', 'at most'),
    (['--uniform.participation=0.5'], '--uniform.participation=0.5', "no option 'participation'"),
    (['--augment=resized_crop', '--resized_crop.largest=0.5'], '--resized_crop.smallest=0.6', 'at most'),
    (['--model=mlp', '--model_options=widths=-1'], '--model_options', 'widths=-1'),
    (['--validation=1'], '--validation=1.0', 'below 1'),
    (['--dropout=nan'], '--dropout=nan', 'finite'),
    (['--rounds=-1'], '--rounds=-1', 'at least 1'),
    (['--rounds=0'], '--rounds=0', 'at least 1'),
    (['--rounds=2147483647', '--eval_every=1'], '--rounds=2147483647', 'at most 1000000'),
    (['--rounds=2.5'], '--rounds=2.5', 'expected a whole number'),
    (['--seeds=0,1,0'], '--seeds=0,1,0', 'different whole numbers'),
    (['--seeds=a'], '--seeds=a', 'expected whole numbers'),
    (['--seeds='], '--seeds=', 'different whole numbers'),
    (['--batch_size=0'], '--batch_size=0', 'at least 1'),
    (['--devices=999'], '--devices=999', 'available'),
    (['--num_clients=3'], '--num_clients=3', '--data_seed'),
    (['--scenario=digits_labels', '--classes_per_client=11'], 'classes_per_client', 'between 1 and the 10 classes'),
    (['--schedule=0;1'], '--schedule=0;1', '--sampler=schedule'),
    (['--sampler=schedule'], '--sampler=schedule', 'needs --schedule'),
    (['--sampler=schedule', '--schedule=0;x'], '--schedule', '0,1;2,3'),
    (['--sampler=schedule', '--schedule=0;1', '--participation=0.5'], '--participation=0.5', 'does not apply'),
    (['--config=/no/such/file'], '--config=/no/such/file', 'No such file'),
    (['--config'], '--config=FILE', 'write'),
    (['--resume=perhaps'], '--resume=perhaps', 'must be true or false'),
    (['--last_k=0'], '--last_k=0', 'at least 1'),
    (['--score=dice'], '--score=dice', 'does not apply to --task=classification'),
    (['--data_seeds=0,1,0'], '--data_seeds=0,1,0', 'different whole numbers'),
    (['--data_seeds=0,-1'], '--data_seed=-1', 'at least 0'),
    (['--data_seeds=0', '--profile'], '--profile', 'leave out --data_seeds'),
    (['--recipes=fedavg'], '--recipes', 'flag of compare and tune'),
    (['--budget=3'], '--budget', 'flag of tune'),
    (['--grid=lr=1'], '--grid', 'flag of sweep'),
    (['junk'], "'junk'", '--name=value'),
]
OTHER_MISTAKES = [
    ('compare', ['--recipes=fedavg,nope'], "recipe 'nope'", 'fedprox'),
    ('compare', ['--recipes=fedavg,fedavg'], '--recipes=fedavg,fedavg', 'twice'),
    ('compare', ['--recipes=fedavg,fedadam+fedyogi'], 'server_adam and server_yogi', 'only one'),
    ('compare', ['--recipe=fedavg'], '--recipes', 'not --recipe'),
    ('compare', ['--recipes=fedavg', '--fedprox.mu=1'], '--fedprox.mu=1', '--recipes=fedavg'),
    ('compare', ['--frontier=lr=1,2'], '--frontier=lr', 'hyper-parameter of a recipe'),
    ('compare', ['--frontier=fedism.q=1,1'], '--frontier', 'twice'),
    ('compare', ['--frontier=fedism.q=1'], '--frontier=fedism.q', 'two values'),
    ('compare', ['--frontier=fedism.q=-1,1'], '--fedism.q=-1.0', 'at least 0'),
    ('compare', ['--frontier=fedism.schedule=1,2'], '--frontier=fedism.schedule', 'only float settings'),
    (
        'compare',
        ['--frontier=fedism.q=0,1', '--data_seeds=0,1'],
        '--frontier=fedism.q',
        'leave out one of them',
    ),
    ('compare', ['--frontier=nope.q=1,2'], "recipe 'nope'", 'fedprox'),
    ('tune', ['--recipe=fedavg'], '--recipes', 'not --recipe'),
    ('tune', ['--budget=1'], '--budget=1', 'at least 2'),
    ('tune', ['--objective=best'], '--objective=best', 'mean, worst'),
    ('tune', ['--halving=1'], '--halving=1', '2 or more'),
    ('tune', ['--space=lr=0..1'], '--space=lr', 'above 0'),
    ('tune', ['--space=lr=a'], '--space=lr=a', 'LOW..HIGH'),
    ('tune', ['--space=rounds=1,2'], '--space=rounds', 'float setting'),
    ('tune', ['--recipes=fedavg', '--fedprox.mu=1'], '--fedprox.mu=1', '--recipes=fedavg'),
    ('sweep', [], '--grid', 'name=v1,v2'),
    ('sweep', ['--grid=lr'], '--grid=lr', 'with numbers'),
    ('sweep', ['--grid=lr=0.1,0.1'], 'lr', 'different values'),
    ('sweep', ['--grid=lr=0.1', '--grid=lr=0.2'], '--grid=lr=0.2', 'twice'),
    ('sweep', ['--grid=lr=1e-3,1e-37', '--lr_decay=0.1', '--rounds=3'], '--lr_decay=0.1', 'from --lr=1e-37'),
    ('sweep', ['--grid=momentum=0,0.99999999999'], 'momentum', 'below 1, also in the 32 bits'),
    ('sweep', ['--grid=rounds=1,2'], '--grid=rounds', 'lr, momentum, weight_decay'),
    ('sweep', ['--grid=lr=1', '--data_seeds=0,1'], '--data_seeds', 'flag of run and compare, not of sweep'),
    ('report', [], '--out', 'directory with results'),
    ('list', ['--grid=lr=1'], '--grid', 'flag of sweep'),
    ('run', ['--margin=2'], '--margin', 'flag of compare and tune and report and verdict'),
    ('compare', ['--recipes=fedavg,fedprox', '--baseline=fedprx'], '--baseline=fedprx', 'not one of fedavg, fedprox'),
    ('compare', ['--margin=0'], '--margin=0.0', 'above 0'),
    ('compare', ['--margin=wide'], '--margin=wide', 'expected a number such as 1.0'),
    ('compare', ['--metric=acuracy'], '--metric', 'not one of accuracy, balanced_accuracy, auc, dice, '),
    ('compare', ['--metric=auc', '--nokeep_predictions'], '--metric=auc', 'leave out --keep_predictions=false'),
    ('verdict', ['one', 'two', '--metric=acuracy'], '--metric', "did you mean 'accuracy'?"),
    ('tune', ['--metric=auc'], '--metric', 'flag of compare and report and verdict'),
    ('verdict', ['one'], 'verdict', 'two run directories'),
    ('verdict', ['one', 'two', '--margin=-1'], '--margin=-1.0', 'above 0'),
]


@pytest.mark.parametrize(
    ('name', 'words', 'flag', 'help'), [('run', *mistake) for mistake in RUN_MISTAKES] + OTHER_MISTAKES
)
def test_one_line_nothing_compiled_nothing_left(command, tmp_path, monkeypatch, name, words, flag, help):
    def refuse(*args, **kwargs):
        raise AssertionError('got as far as running')

    monkeypatch.setattr(loop, '_Runner', refuse)
    out = tmp_path / 'out'
    given = [] if any(word.startswith('--scenario') for word in words) else [TOY]
    found = command(name, *given, f'--out={out}', *words)
    assert found.code == 2 and found.out == ''
    assert found.err.startswith('fedjax-fair: error: ') and found.err.endswith('\n') and found.err.count('\n') == 1
    assert flag in found.err and help in found.err
    assert not out.exists()


def test_out_is_a_file(command, tmp_path):
    (tmp_path / 'file').write_text('kept')
    found = command('run', TOY, f'--out={tmp_path / "file"}')
    assert found.code == 2 and f'--out={tmp_path / "file"} is a file; name a directory' in found.err
    below = command('run', TOY, f'--out={tmp_path / "file" / "below"}')
    assert below.code == 2 and 'cannot be written: Not a directory' in below.err
    assert (tmp_path / 'file').read_text() == 'kept'


@pytest.mark.parametrize(('method', 'told'), [('mkdir', 'cannot be written'), ('is_dir', 'cannot be read')])
def test_out_is_forbidden(command, tmp_path, monkeypatch, method, told):
    """The test may run as root, who may do anything: let the file system say no."""
    kept = getattr(pathlib.Path, method)

    def forbidden(self, *args, **kwargs):
        if self == tmp_path / 'out':
            raise PermissionError(13, 'Permission denied')
        return kept(self, *args, **kwargs)

    monkeypatch.setattr(pathlib.Path, method, forbidden)
    found = command('run', TOY, f'--out={tmp_path / "out"}')
    assert (found.code, found.err) == (2, f'fedjax-fair: error: --out={tmp_path / "out"} {told}: Permission denied\n')


def test_report_of_a_directory_without_runs(command, tmp_path):
    found = command('report', f'--out={tmp_path}')
    assert found.code == 2 and 'holds no finished run' in found.err


def test_only_mistakes_of_users_are_one_line(capsys):
    with pytest.raises(SystemExit) as left, one_line():
        raise UserError('`alpha`=-1 must be above 0')
    assert left.value.code == 2 and capsys.readouterr().err == 'fedjax-fair: error: --alpha=-1 must be above 0\n'
    with pytest.raises(ValueError, match='a bug'), one_line():
        raise ValueError('a bug')


def test_our_checks_are_mistakes_of_the_user(tmp_path):
    for mistake in (
        lambda: cohort_size(3, 0.0),
        lambda: client_map.resolve('nope'),
        lambda: check_out(tmp_path.parent, resume=False, overwrite=False),
        lambda: checked(Config(lr=-1.0)),
        lambda: grid_points({'lr': []}),
    ):
        with pytest.raises(UserError):
            mistake()


def test_errors_of_libraries_and_builtins_are_bugs(tmp_path):
    with pytest.raises(ValueError) as raised:
        point_name({'lr': 'fast'})
    assert not isinstance(raised.value, UserError)


def test_a_bug_shows_its_traceback(command, tmp_path, monkeypatch):
    monkeypatch.setattr(loop.results, 'point_name', lambda point: float('not a number'))
    with pytest.raises(ValueError, match='could not convert'):
        command('sweep', TOY, f'--out={tmp_path / "out"}', '--grid=lr=0.1')


def _fedjax_fair(*words, **options):
    program_ = shutil.which('fedjax-fair') or str(pathlib.Path(sys.executable).parent / 'fedjax-fair')
    environment = {**os.environ, 'MPLBACKEND': 'agg', 'JAX_PLATFORMS': 'cpu'}
    return subprocess.run([program_, *words], capture_output=True, text=True, env=environment, timeout=120, **options)


@pytest.mark.parametrize(
    'words', [['--help'], ['run', '--help'], ['list'], ['data', '--help'], ['data', 'inspect', '--help']]
)
def test_a_reader_may_leave_early(words):
    """As `head` does; Python would complain about the broken pipe at its end."""
    program = shutil.which('fedjax-fair') or str(pathlib.Path(sys.executable).parent / 'fedjax-fair')
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, 'JAX_PLATFORMS': 'cpu'}
    found = subprocess.run([program, *words], stdout=writer, stderr=subprocess.PIPE, text=True, env=environment)
    os.close(writer)
    assert (found.returncode, found.stderr) == (0, '')


FULL = 'fedjax-fair: error: standard output cannot be written: No space left on device\n'


@pytest.mark.parametrize(
    ('words', 'code', 'told'),
    [
        ('list fedavg >&-', 0, ''),
        ('list >/dev/full', 2, FULL),
        ('run --help >/dev/full', 2, FULL),
        ('nonsense 2>&-', 2, ''),
        ('nonsense 2>/dev/full', 2, ''),
    ],
)
def test_output_that_is_closed_or_full(words, code, told):
    call = ['sh', '-c', f'"$0" -m fedjax_fair {words}', sys.executable]
    found = subprocess.run(call, capture_output=True, text=True, env={**os.environ, 'JAX_PLATFORMS': 'cpu'})
    assert (found.returncode, found.stdout, found.stderr) == (code, '', told)


def test_a_file_on_a_full_disk_is_not_our_output(capsys):
    with pytest.raises(OSError, match='full'), output_may_fail():
        raise OSError(errno.ENOSPC, 'full')


def test_unknown_command_in_a_real_process():
    found = _fedjax_fair('train', '--lr=1')
    assert (found.returncode, found.stdout) == (2, '')
    commands = 'run, compare, sweep, tune, plan, list, report, verdict, check-method, data'
    assert found.stderr == f"fedjax-fair: error: command 'train' is not one of {commands}\n"


def test_the_command_that_was_meant(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['fedjax-fair', 'comapre'])
    with pytest.raises(SystemExit):
        main.console()
    assert capsys.readouterr().err.endswith("check-method, data; did you mean 'compare'?\n")


def test_a_mistake_in_a_real_process(tmp_path):
    start = time.monotonic()
    found = _fedjax_fair('run', '--rounds=0', '--out=here', cwd=tmp_path)
    assert (found.returncode, found.stdout) == (2, '')
    assert found.stderr == 'fedjax-fair: error: --rounds=0 must be at least 1 and at most 1000000\n'
    assert not list(tmp_path.iterdir()) and time.monotonic() - start < 60
