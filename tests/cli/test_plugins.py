"""Plug-ins: what others register is listed, checked, run, resumed and written down like our own."""

import dataclasses
import hashlib
import importlib.metadata
import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest
from my_plugin import MINE

from fedjax_fair import plugins, registry
from fedjax_fair.cli import main
from fedjax_fair.data import make_scenario
from fedjax_fair.errors import UserError
from fedjax_fair.methods import make_methods
from fedjax_fair.models import make_model
from fedjax_fair.training import Config, checked, finished, prepare, run

pytestmark = pytest.mark.xdist_group('plugins')
NAMES = {('recipe', 'mine'), ('model', 'my_model'), ('scenario', 'my_points')}


def test_a_file_is_loaded_once_and_again_when_it_changes(mine, tmp_path):
    first = plugins.load(mine)
    assert first.name == 'mine.py' and first.sha256 == hashlib.sha256((tmp_path / mine).read_bytes()).hexdigest()
    assert set(plugins.registered('mine.py')) == NAMES and first in plugins.loaded()
    assert registry.recipes.entry('mine').origin == 'mine.py'
    factory = registry.recipes['mine']
    assert plugins.load(str(tmp_path / mine)) == first and registry.recipes['mine'] is factory
    (tmp_path / mine).write_text(MINE.replace('def mine', 'def ours'))
    assert plugins.load(mine).sha256 != first.sha256
    assert 'ours' in registry.recipes and 'mine' not in registry.recipes
    assert registry.Registry.origin is None


def test_a_module_is_loaded_by_its_name(mine, tmp_path, monkeypatch):
    (tmp_path / 'my_package').mkdir()
    (tmp_path / 'my_package' / '__init__.py').touch()
    (tmp_path / 'my_package' / 'methods.py').write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    found = plugins.load('my_package.methods')
    assert found.name == 'my_package.methods' and found.sha256 == hashlib.sha256(MINE.encode()).hexdigest()
    assert registry.models.entry('my_model').origin == 'my_package.methods'
    assert plugins.load('my_package.methods') is found


def test_plug_ins_of_installed_packages_are_loaded_without_asking(mine, tmp_path, monkeypatch):
    (tmp_path / 'installed_methods.py').write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    point = importlib.metadata.EntryPoint('mine', 'installed_methods', plugins.GROUP)
    monkeypatch.setattr(
        importlib.metadata, 'entry_points', lambda group: [point] if group == plugins.GROUP else [], raising=True
    )
    plugins.load_installed.cache_clear()
    try:
        assert [method.name for method in make_methods('mine')] == ['fedprox']
        assert make_model('my_model', 3).init and make_scenario('my_points').name == 'my_points'
        plugins.unload('installed_methods')
        sys.modules.pop('installed_methods')
        plugins.load_installed.cache_clear()
        assert checked(Config(recipe='mine', hyper={'mine.strength': '2'})).hyper == {'mine.strength': 2.0}
    finally:
        plugins.load_installed.cache_clear()
    assert [plugin.name for plugin in plugins.loaded()] == ['installed_methods']


@pytest.mark.parametrize(
    ('text', 'told'),
    [
        ('x = 1', 'plugin=bad.py registers nothing'),
        (
            'from fedjax_fair.registry import register\n@register.recipe\ndef fedavg(): ...',
            "bad.py registers recipe 'fed",
        ),
    ],
)
def test_a_plug_in_that_cannot_be_used(mine, tmp_path, text, told):
    (tmp_path / 'bad.py').write_text(text)
    with pytest.raises(UserError, match=told):
        plugins.load('bad.py')
    assert 'bad.py' not in [plugin.name for plugin in plugins.loaded()]


@pytest.mark.parametrize(
    ('words', 'told'),
    [
        (['--plugin=nowhere.py'], '--plugin=nowhere.py: no such file'),
        (['--plugin=no.where'], '--plugin=no.where: no such module'),
        (['--plugin'], 'write --plugin=FILE'),
        (['--plugin=mine.py', '--plugin=./mine.py'], 'mine.py is given twice'),
        (['--plugin=mine.py', '--recipe=mine', '--mine.strength=-1'], '--mine.strength=-1.0 must be at least 0'),
        (['--plugin=mine.py', '--recipe=mine', '--mine.strength=13'], '13 brings bad luck'),
        (['--plugin=mine.py', '--recipe=mine', '--mine.strenght=1'], 'it has: strength'),
        (['--plugin=mine.py', '--recipe=mine', '--model=mi_model'], "did you mean 'my_model'?"),
        (['--plugin=mine.py', '--recipe=mine', '--times=2'], '--times=2.0 does not apply to --scenario=gaussian_toy_1'),
        (['--plugin=mine.py', '--scenario=my_points', '--times=0'], '--times=0.0 must be at least 1'),
        (['--recipe=mine'], "'mine' is not one of "),
    ],
)
def test_mistakes_are_one_line(mine, command, toy, words, told):
    found = command('run', *toy, *words)
    assert found.code == 2 and found.err.count('\n') == 1 and told in found.err and not pathlib.Path('runs').exists()


@pytest.mark.parametrize(
    ('text', 'error'), [('def broken(:', SyntaxError), ('nothing', NameError), ('1 / 0', Exception)]
)
def test_errors_of_a_plug_in_are_its_own(mine, tmp_path, command, toy, text, error):
    (tmp_path / 'broken.py').write_text(text)
    with pytest.raises(error):
        command('run', *toy, '--plugin=broken.py')


@pytest.fixture
def done(mine, command, toy):
    words = [*toy, f'--plugin={mine}', '--recipe=mine', '--mine.strength=2', '--model=my_model']
    words += ['--model_options=width=3', '--checkpoint_every=1', '--out=out']
    found = command('run', *words)
    assert found.code == 0, found.err
    return words, json.loads(pathlib.Path('out/config.json').read_text())


def test_a_run_writes_down_its_plug_ins(done):
    _, config = done
    assert config['plugins'] == ['mine.py']
    assert config['plugin_files'] == [{'name': 'mine.py', 'sha256': hashlib.sha256(MINE.encode()).hexdigest()}]
    assert config['model'] == 'my_model' and config['model_options'] == {'width': 3}


def test_a_run_is_repeated_from_its_config_json_and_looked_into(done, command):
    plugins.unload('mine.py')
    experiment, states = finished('out')
    assert experiment.config.recipe == 'mine'
    assert {leaf.shape[-1] for leaf in jax.tree.leaves(states.variables)} == {3, 2}  # hidden units and classes
    plugins.unload('mine.py')
    found = command('run', '--config=out/config.json', '--quiet', '--out=again')
    assert found.code == 0, found.err
    assert pathlib.Path('again/metrics.jsonl').read_text() == pathlib.Path('out/metrics.jsonl').read_text()


def test_a_run_finds_its_plug_in_from_elsewhere(done, command, tmp_path, monkeypatch):
    (tmp_path / 'away' / 'further').mkdir(parents=True)
    monkeypatch.chdir(tmp_path / 'away')
    assert Config.of_run('../out').plugins == (str(tmp_path / 'mine.py'),)
    found = command('run', '--config=../out/config.json', '--quiet', '--rounds=1', '--out=again')
    assert found.code == 0, found.err
    (tmp_path / 'mine.py').rename('further/mine.py')
    found = command('run', '--config=../out/config.json', '--quiet', '--rounds=1', '--out=third')
    assert found.code == 2 and f'--plugin=mine.py: no such file; the working folder is {tmp_path}/away' in found.err
    words = ['--config=../out/config.json', '--plugin=further/mine.py', '--quiet', '--rounds=1', '--out=third']
    assert command('run', *words).code == 0


def test_resuming_needs_the_same_plug_ins(done, command, tmp_path):
    words, _ = done
    assert command('run', *words, '--resume').code == 0
    (tmp_path / 'other.py').write_text('from fedjax_fair.registry import register\n@register.model\ndef other(c): ...')
    found = command('run', *words, '--plugin=other.py', '--resume')
    assert found.code == 2 and '--resume: out was started without the plug-in other.py' in found.err
    (tmp_path / 'mine.py').write_text(MINE + '\n# changed\n')
    found = command('run', *words, '--resume')
    assert found.code == 2 and '--resume: the plug-in mine.py has changed since out was started' in found.err
    with pytest.raises(UserError, match=r'^resume: out was started with the plug-in mine.py; pass plugin=mine.py'):
        run(Config(), 'out', resume=True)


def test_data_of_a_plug_in_has_flags(mine, command, toy):
    words = [f'--plugin={mine}', '--scenario=my_points', '--times=3', '--out=points']
    found = command('run', *[word for word in toy if 'scenario' not in word], *words)
    assert found.code == 0, found.err
    assert json.loads(pathlib.Path('points/config.json').read_text())['data'] == {'times': 3.0}
    plain, larger = (
        prepare(Config(scenario='my_points', plugins=(mine,), data=data)).federation.x for data in ({}, {'times': 3})
    )
    assert (larger == 3 * plain).all()


def test_everything_is_listed_with_its_origin(mine, command):
    text = command('list', f'--plugin={mine}').out
    assert '\nof my own:\n  mine ' in text and text.count('[plug-in mine.py]') == 3
    assert '--mine.strength=0.5 (at least 0)' in text
    found = json.loads(command('list', '--json', f'--plugin={mine}').out)
    assert found['plugins'] == {'mine': 'mine.py', 'my_model': 'mine.py', 'my_points': 'mine.py'}
    assert found['recipes']['mine']['options']['strength']['range'] == 'at least 0'
    told = command('list', f'--plugin={mine}', 'mine').out
    assert told == command('list', 'mine', f'--plugin={mine}').out
    assert 'With a long story.' in told and '--mine.strength=0.5 (at least 0): of the pull' in told


@pytest.mark.parametrize('words', [['run'], ['data', 'partition']])
def test_help_knows_the_options_of_plug_ins(mine, monkeypatch, capsys, words):
    monkeypatch.setattr(sys, 'argv', ['fedjax-fair', *words, f'--plugin={mine}', '--help'])
    with pytest.raises(SystemExit) as left:
        main.console()
    assert left.value.code == 0 and '  --times ' in capsys.readouterr().out


def test_data_of_a_plug_in_is_looked_at(mine, monkeypatch, capsys):
    words = ['data', 'partition', 'my_points', f'--plugin={mine}', '--times=2']
    monkeypatch.setattr(sys, 'argv', ['fedjax-fair', *words])
    with pytest.raises(SystemExit) as left:
        main.console()
    assert left.value.code == 0 and 'my_points' in capsys.readouterr().out


def test_a_factory_that_looks_at_a_traced_option_is_told_so(mine, command, toy, tmp_path):
    words = [f'--plugin={mine}', '--recipe=mine', '--grid=mine.strength=1,2', f'--out={tmp_path / "out"}']
    outcome = command('sweep', *toy, *words)
    assert outcome.code == 2 and 'use jnp.where in place of if' in outcome.err


def test_an_option_of_a_type_that_no_flag_can_give(mine, tmp_path):
    (tmp_path / 'odd.py').write_text(
        'from fedjax_fair.registry import register\n@register.recipe\ndef odd(pair: dict = {}): ...'
    )
    told = r'^recipe odd: odd.pair is of type dict; options are of bool, int, float, tuple\[int, \.\.\.\], str$'
    with pytest.raises(UserError, match=told):
        plugins.load('odd.py')


def test_a_task_of_a_plug_in_is_a_choice_for_sources(mine, tmp_path):
    (tmp_path / 'tasks.py').write_text(
        'from fedjax_fair.metrics import classification\nfrom fedjax_fair.registry import register\n\n'
        '@register.task\ndef my_task(num_classes: int):\n    """A task."""\n    return classification(num_classes)\n'
    )
    path = tmp_path / 'images.npz'
    np.savez(path, images=np.zeros((20, 2, 2, 1), np.uint8), labels=np.arange(20) % 2)
    config = Config(scenario=f'npz:{path}', data={'task': 'my_task', 'num_clients': 2, 'split_by': 'iid'})
    made = prepare(dataclasses.replace(config, plugins=('tasks.py',), model='logreg'))
    assert made.federation.task == 'my_task'


@pytest.mark.parametrize('kind', ['augmentations', 'samplers'])
def test_a_registry_is_filled_by_whoever_looks_first(kind):
    code = f'from fedjax_fair import registry; assert len(registry.{kind}) > 1'
    subprocess.run([sys.executable, '-c', code], check=True)
