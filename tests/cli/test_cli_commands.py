"""The commands from flags to files: run, compare, sweep, report, list, help."""

import json
import os
import pathlib
import re
import runpy
import shutil
import signal
import subprocess
import sys

import pytest

from fedjax_fair import results
from fedjax_fair.cli import main
from fedjax_fair.data import data_options, scenario_names
from fedjax_fair.interruption import Terminated
from fedjax_fair.methods import RECIPES, defaults
from fedjax_fair.models import MODELS
from fedjax_fair.training import Config, Interrupted, comparison, loop

pytestmark = pytest.mark.xdist_group('cli_commands')
REPORT = {'report.html', 'table.md', 'table.csv', 'table.json', 'table.tex'}
RUN = {'config.json', 'metrics.jsonl', 'summary.json'}


def names(folder: pathlib.Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope='module')
def compared(command, toy, tmp_path_factory):
    out = tmp_path_factory.mktemp('compare') / 'out'
    return out, command('compare', *toy, '--recipes=fedavg,fedprox', '--fedprox.mu=0.5', f'--out={out}')


def test_compare_prints_one_table_and_writes_one_report(compared):
    out, found = compared
    assert found.code == 0 and found.err == ''
    assert names(out) >= REPORT | {'fedavg', 'fedprox'}
    assert any(name.endswith('.png') for name in names(out))
    assert names(out / 'fedavg') >= RUN and names(out / 'fedprox') >= RUN
    for recipe in ('fedavg', 'fedprox'):
        assert re.search(rf'^ *{recipe} ', found.out, re.MULTILINE)
        assert recipe in (out / 'report.html').read_text() and recipe in (out / 'table.csv').read_text()
    assert found.out.rstrip().endswith(f'report: {out / "report.html"}')


def test_compare_gives_hyper_parameters_to_their_recipe(compared):
    out, _ = compared
    read = {name: json.loads((out / name / 'config.json').read_text()) for name in ('fedavg', 'fedprox')}
    assert read['fedavg']['hyper'] == {} and read['fedprox']['hyper'] == {'fedprox.mu': 0.5}


def test_compare_takes_five_seeds_unless_told(compared):
    out, _ = compared
    assert Config.of_run(out / 'fedavg').seeds == Config.of_run(out / 'fedprox').seeds == (0, 1, 2, 3, 4)


def test_compare_resumed_keeps_the_seeds_it_was_started_with(toy, tmp_path):
    out = tmp_path / 'fedavg'
    out.mkdir()
    (out / 'config.json').write_text(Config(seeds=(0,)).to_json())
    assert main._compared_seeds(tmp_path, ['fedprox', 'fedavg'], resume=True) == (0,)
    assert main._compared_seeds(tmp_path, ['fedprox', 'fedavg'], resume=False) == (0, 1, 2, 3, 4)


def test_every_data_seed_is_a_run_of_its_own(command, toy, tmp_path):
    out = tmp_path / 'out'
    words = [*toy, '--recipes=fedavg', '--seeds=0,1', '--data_seeds=4,1', f'--out={out}']
    found = command('compare', *words)
    assert found.code == 0 and 'each of 2 data seeds counts as one seed: the mean over its 2 seeds' in found.out
    run = results.load(out / 'fedavg')
    assert run.data_seeds == [1, 4] and run.folders == [out / 'fedavg' / f'data_seed={seed}' for seed in (1, 4)]
    assert [Config.of_run(folder).data_seed for folder in run.folders] == run.data_seeds
    assert run.folders[0].joinpath('metrics.jsonl').read_text() != run.folders[1].joinpath('metrics.jsonl').read_text()
    assert '2 data seeds · 2 seeds' in (out / 'report.html').read_text()
    assert command('report', f'--out={out}').out == found.out
    assert command('compare', *words, '--resume').code == 0


def test_run_takes_data_seeds_too(command, toy, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        comparison, 'run', lambda one, folder, **_: started.append((one.config.data_seed, folder)) or [{}]
    )
    monkeypatch.setattr(main.reporting, 'show', lambda folders, out: started.append(folders))
    out = tmp_path / 'out'
    assert command('run', *toy, '--data_seeds=0,7', f'--out={out}').code == 0
    assert started == [(0, out / 'data_seed=0'), (7, out / 'data_seed=7'), [out]]


def test_compare_resumed_skips_finished_recipes(compared, command, toy, monkeypatch):
    out, _ = compared
    kept = (out / 'fedavg' / 'summary.json').stat().st_mtime_ns
    (out / 'fedprox' / 'summary.json').unlink()
    started = []
    runner = loop._Runner
    monkeypatch.setattr(loop, '_Runner', lambda one, *rest: started.append(one.config.recipe) or runner(one, *rest))
    words = ['compare', *toy, '--recipes=fedavg,fedprox', '--fedprox.mu=0.5', f'--out={out}']
    assert command(*words).code == 2  # taken
    assert command(*words, '--resume').code == 0
    assert started == ['fedprox'] and (out / 'fedprox' / 'summary.json').exists()
    assert (out / 'fedavg' / 'summary.json').stat().st_mtime_ns == kept


def test_report_is_drawn_again(compared, command):
    out, found = compared
    (out / 'report.html').unlink()
    again = command('report', f'--out={out}')
    assert again.code == 0 and (out / 'report.html').exists()
    assert again.out == found.out


def test_report_names_runs_that_it_leaves_out_and_goes_on(compared, command, tmp_path):
    out = tmp_path / 'runs'
    shutil.copytree(compared[0], out)
    (out / 'fedprox' / 'summary.json').unlink()
    found = command('report', f'--out={out}')
    assert found.code == 0
    said = f'{out / "fedprox"} is left out: the run is not finished'
    assert said in found.out and said in (out / 'report.html').read_text()
    assert not re.search(r'^ *fedprox ', found.out, re.MULTILINE)
    (out / 'fedavg' / 'config.json').write_text('{')
    found = command('report', f'--out={out}')
    assert found.code == 2 and f'holds no finished run: {out / "fedavg"} is left out: config.json' in found.err


def test_report_keeps_order_baseline_and_margin_until_told_otherwise(compared, command):
    out, found = compared
    again = command('report', f'--out={out}', '--baseline=fedprox', '--margin=30')
    assert 'vs fedprox' in again.out and 'margin 30 points' in again.out
    assert command('report', f'--out={out}').out == again.out
    wrong = command('report', f'--out={out}', '--baseline=fedadam')
    assert wrong.code == 2 and '--baseline=fedadam is not one of fedavg, fedprox' in wrong.err
    assert command('report', f'--out={out}', '--baseline=fedavg', '--margin=1').out == found.out


def test_tables_and_verdicts_may_be_about_another_score(compared, command):
    out, found = compared
    again = command('report', f'--out={out}', '--metric=balanced_accuracy')
    assert again.code == 0 and 'numbers are of balanced accuracy' in again.out
    assert json.loads((out / 'table.json').read_text())['scenarios'][0]['score'] == 'balanced_accuracy'
    assert command('report', f'--out={out}').out == again.out  # until told otherwise
    runs = [str(out / name) for name in ('fedprox', 'fedavg')]
    assert 'Numbers are of AUC' in command('verdict', *runs, '--metric=auc').out
    wrong = command('report', f'--out={out}', '--metric=dice')
    told = '--metric=dice is not one of accuracy, balanced_accuracy, auc, which these runs keep predictions for'
    assert wrong.code == 2 and told in wrong.err and wrong.err.count('\n') == 1
    assert command('report', f'--out={out}', '--metric=accuracy').out == found.out


def test_verdict_is_one_paragraph_or_json(compared, command, tmp_path):
    out, _ = compared
    runs = [str(out / name) for name in ('fedprox', 'fedavg')]
    (tmp_path / 'link.json').symlink_to('verdict.json')
    found = command('verdict', *runs, '--margin=2', f'--out={tmp_path / "link.json"}')
    assert found.code == 0 and found.out.count('\n') == 1 and found.out.startswith('fedprox: ')
    record = json.loads(command('verdict', '--json', '--margin', '2', *runs).out)
    assert record['text'] == found.out.strip() and record['margin'] == 2
    assert json.loads((tmp_path / 'verdict.json').read_text()) == record
    three = command('verdict', *runs, str(out / 'fedavg'))
    assert three.code == 2 and 'a verdict is about two runs, got 3' in three.err


def test_run_repeated_from_its_config_json(compared, command, tmp_path):
    out, _ = compared
    kept, again = out / 'fedprox', tmp_path / 'again'
    found = command('run', f'--config={kept / "config.json"}', '--quiet', f'--out={again}')
    assert found.code == 0 and names(again) >= RUN | REPORT
    assert any(name.endswith('.png') for name in names(again))
    assert (again / 'metrics.jsonl').read_text() == (kept / 'metrics.jsonl').read_text()


def test_sweep_writes_a_directory_per_point_and_one_report(command, toy, tmp_path):
    out = tmp_path / 'out'
    found = command('sweep', *toy, '--recipe=fedprox', '--grid=fedprox.mu=0,1', '--grid=lr=0.1', f'--out={out}')
    assert found.code == 0
    assert names(out) >= REPORT | {'fedprox.mu=0,lr=0.1', 'fedprox.mu=1,lr=0.1', 'sweep.json'}
    assert 'choosing a setting by them is selection on test data' in found.out
    assert command('report', f'--out={out}').out == found.out
    assert 'fedprox.mu=1,lr=0.1' in (out / 'report.html').read_text()


@pytest.mark.parametrize(
    ('stop', 'code'),
    [
        (Interrupted('stopped after round 3; go on with --resume'), 130),
        (Interrupted('stopped after round 3; go on with --resume', signal.SIGTERM), 75),
        (KeyboardInterrupt(), 130),
        (Terminated(), 75),
    ],
)
def test_interruption_is_told_and_has_its_exit_code(command, toy, tmp_path, monkeypatch, stop, code):
    def interrupted(*args, **kwargs):
        raise stop

    monkeypatch.setattr(main, 'train', interrupted)
    found = command('run', *toy, f'--out={tmp_path / "out"}')
    assert found.code == code and found.err.count('\n') == 1 and '--resume' in found.err


def test_list_names_everything(command):
    text = command('list').out
    for part in (*RECIPES, *MODELS, *scenario_names()):
        assert re.search(rf'^  {re.escape(part)} ', text, re.MULTILINE), part
    assert f'--fedprox.mu={defaults("fedprox")["mu"]}' in text
    for recipe in RECIPES:
        for key in defaults(recipe):  # one with the name of a setting, too: --personal.lr
            assert re.search(rf'^ +--{recipe}\.{key}\b', text, re.MULTILINE), (recipe, key)


def test_list_describes_files_of_arrays_and_shows_each_option_once(command):
    text = command('list', 'npz').out
    assert 'train_images, train_labels' in text and text.count('--npz_keys') == 1 and '--source_options' not in text
    assert 'join with + in any order' in command('list').out


def test_list_for_machines(command):
    found = json.loads(command('list', '--json').out)
    assert set(found) >= {
        'recipes',
        'scenarios',
        'models',
        'sources',
        'partitions',
        'tasks',
        'augmentations',
        'samplers',
    }
    assert set(found['recipes']) == set(RECIPES) and set(found['models']) == set(MODELS)
    assert found['recipes']['fedprox']['hyper'] == defaults('fedprox')
    assert all(recipe['about'] for recipe in found['recipes'].values())


def test_list_shows_what_is_tuned(command):
    shown = command('list', 'fedadam').out
    assert '--fedadam.lr=0.01 (above 0; tuned over 0.001 to 1, log-uniform)' in shown
    assert 'of every recipe --lr=0.1 (above 0; tuned over' in shown
    found = json.loads(command('list', '--json').out)['recipes']['moon']['options']
    assert found['temperature']['search'] == 'one of 0.1, 0.5, 1' and found['frozen']['search'] == ''


def test_flags_of_tune_are_arguments_of_the_function(command, toy, tmp_path, monkeypatch):
    given, shown = [], []
    monkeypatch.setattr(main, 'search', lambda *args, **options: given.append((args, options)))
    monkeypatch.setattr(main.reporting, 'show', lambda folders, out, **asked: shown.extend(folders))
    words = [
        '--recipes=fedavg,fedprox',
        '--budget=5',
        '--objective=worst',
        '--space=lr=0.1,0.2',
        '--space=fedprox.mu=0..1',
    ]
    assert command('tune', *toy, *words, f'--out={tmp_path / "out"}').code == 0
    (_, recipes, out), options = given[0]
    assert recipes == ['fedavg', 'fedprox'] and out == tmp_path / 'out'
    assert options == {
        'budget': 5, 'objective': 'worst', 'halving': 0, 'space': ['lr=0.1,0.2', 'fedprox.mu=0..1'],
        'seeds_per_trial': 1, 'search_seed': 0, 'resume': False, 'overwrite': False, 'quiet': True,
    }  # fmt: skip
    assert [path.name for path in shown] == ['fedavg', 'fedavg_tuned', 'fedprox', 'fedprox_tuned']


@pytest.mark.parametrize('word', ['--help', '-h', '--helpfull', '--help=1'])
def test_help_shows_the_flags_in_groups(monkeypatch, capsys, word):
    monkeypatch.setattr(sys, 'argv', ['fedjax-fair', 'run', word])
    with pytest.raises(SystemExit) as left:
        main.console()
    shown = capsys.readouterr().out
    assert left.value.code == 0
    settings = set(Config.__dataclass_fields__) - {'hyper', 'data', 'plugins'}
    for name in settings | {'plugin'} | set(data_options()):
        assert shown.count(f'  --{name} ') == 1, name
    for title in ('what is run', 'local training', 'who takes part', 'data', 'evaluation', 'how it is computed'):
        assert f'\n{title}:\n' in shown
    assert '--out' in shown and '--resume' in shown and '--grid' not in shown
    assert '--fedprox' not in shown and '--recipe.key=value' in shown


@pytest.mark.parametrize(('words', 'code'), [(['--help'], 0), (['help'], 0), ([], 2)])
def test_usage(monkeypatch, capsys, words, code):
    monkeypatch.setattr(sys, 'argv', ['fedjax-fair', *words])
    with pytest.raises(SystemExit) as left:
        main.console()
    shown = capsys.readouterr().out
    assert left.value.code == code and all(f'\n  {name} ' in shown for name in main.COMMANDS)


@pytest.mark.parametrize(('signum', 'code'), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_signals_in_a_real_process(toy, tmp_path, signum, code):
    """Ctrl-C or SIGTERM, a checkpoint, an exit code, a hint; no chatter of libraries on the way."""
    program = shutil.which('fedjax-fair') or str(pathlib.Path(sys.executable).parent / 'fedjax-fair')
    words = [*toy[:-1], '--rounds=1000000', '--eval_every=100', f'--out={tmp_path / "out"}']
    environment = {**os.environ, 'JAX_PLATFORMS': 'cpu', 'MPLBACKEND': 'agg'}
    process = subprocess.Popen([program, 'run', *words], stderr=subprocess.PIPE, text=True, env=environment)
    seen = []
    for line in process.stderr:
        seen.append(line)
        if ' round 100/' in line:
            process.send_signal(signum)
            break
    seen += process.stderr.readlines()
    assert process.wait(60) == code
    assert re.fullmatch(
        r'fedjax-fair: stopped after round \d+ of 1000000; checkpoint in .*/checkpoints; '
        r'go on with the same command and --resume\n',
        seen[-1],
    )
    assert all(line.startswith('fedavg on gaussian_toy_1: ') for line in seen[:-1]), seen
    assert any('compiling rounds' in line for line in seen)
    assert any((tmp_path / 'out' / 'checkpoints').iterdir())


@pytest.mark.parametrize(
    ('module', 'words', 'told'),
    [
        ('fedjax_fair', ['help'], 'usage: fedjax-fair COMMAND'),
        ('experiments.run', ['--help'], 'Run one recipe'),
        ('experiments.sweep', ['--help'], 'Run a grid'),
    ],
)
def test_commands_are_modules_too(monkeypatch, capsys, module, words, told):
    monkeypatch.setattr(sys, 'argv', [module, *words])
    with pytest.raises(SystemExit) as left:
        runpy.run_module(module, run_name='__main__')
    assert left.value.code == 0 and capsys.readouterr().out.startswith(told)


def test_the_module_is_the_command_also_where_it_is_written_down(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, 'argv', ['/somewhere/fedjax_fair/__main__.py', 'list'])
    monkeypatch.setattr('fedjax_fair.cli.console', lambda: seen.append(sys.argv))
    runpy.run_module('fedjax_fair', run_name='__main__')
    assert seen == [['fedjax-fair', 'list']]
