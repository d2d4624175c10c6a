"""Plug-ins: what others register is listed, checked, run, resumed and written down like our own."""

import dataclasses
import hashlib
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import types

import jax
import numpy as np
import pytest

from fedjax_fair import plugins, registry
from fedjax_fair.cli import main
from fedjax_fair.data import make_scenario
from fedjax_fair.errors import UserError
from fedjax_fair.methods import make_methods
from fedjax_fair.models import make_model
from fedjax_fair.training import Config, checked, finished, prepare, run

pytestmark = pytest.mark.xdist_group('plugins')
MINE = '''
from typing import Annotated

from helper_beside_it import MU
from fedjax_fair.methods import make_methods
from fedjax_fair.options import at_least
from fedjax_fair.registry import register

@register.recipe(section='of my own')
def mine(strength: Annotated[float, 'of the pull', at_least(0)] = MU):
    """FedProx under a name of my own.

    With a long story.
    """
    if strength == 13:
        raise ValueError('13 brings bad luck')
    return make_methods('fedprox', {'fedprox.mu': strength})

@register.model
def my_model(num_classes: int, width: Annotated[int, 'hidden units', at_least(1)] = 8):
    """A small network."""
    from fedjax_fair.models import make_model
    return make_model('mlp', num_classes, widths=(width,))

@register.scenario
def my_points(data_seed: int, times: Annotated[float, 'how much larger the points are', at_least(1)] = 1.0):
    """Points of my own."""
    import dataclasses
    from fedjax_fair.data import gaussian_toy
    found = gaussian_toy(1, data_seed)
    return dataclasses.replace(found, name='my_points', x=found.x * found.x.dtype.type(times))
'''
NAMES = {('recipe', 'mine'), ('model', 'my_model'), ('scenario', 'my_points')}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The plug-in mine.py in the working folder; nothing of it is left after the test."""
    (tmp_path / 'mine.py').write_text(MINE)
    (tmp_path / 'helper_beside_it.py').write_text('MU = 0.5\n')
    monkeypatch.chdir(tmp_path)
    yield 'mine.py'
    for plugin in plugins.loaded():
        plugins.unload(plugin.name)
    sys.modules.pop('helper_beside_it', None)


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


class Check(types.SimpleNamespace):
    """As the conformance suite gives them."""


@pytest.fixture
def suite(monkeypatch):
    """The conformance suite replaced by one that finds what it is told to."""
    asked = []

    def check(recipe, hyper=None):
        asked.append((recipe, hyper))
        good = Check(name='padding changes nothing', passed=True, message='')
        return [good, Check(name='order of clients', passed=recipe != 'worse', message='differs by 0.5')]

    module = types.ModuleType('fedjax_fair.testing.conformance')
    module.check = check
    monkeypatch.setitem(sys.modules, 'fedjax_fair.testing.conformance', module)
    monkeypatch.setattr('fedjax_fair.testing.conformance', module, raising=False)
    return asked


def test_check_method_prints_a_line_per_promise(mine, suite, command, tmp_path):
    found = command('check-method', mine)
    assert found.code == 0 and suite == [('mine', None)]
    assert found.out == 'mine:\n  ok      padding changes nothing\n  ok      order of clients\n'
    (tmp_path / mine).write_text(MINE + '\n@register.recipe\ndef worse():\n    return mine()\n')
    found = command('check-method', '--mine.strength=2', mine)
    assert found.code == 1 and '  FAILED  order of clients: differs by 0.5\n' in found.out
    assert suite[1:] == [('mine', {'mine.strength': '2'}), ('worse', None)]
    assert command('check-method', mine, '--recipe=mine').code == 0
    found = command('check-method', mine, '--recipe=fedavg')
    assert found.code == 2 and '--recipe=fedavg is not one of mine, worse' in found.err


def test_check_method_needs_a_recipe(mine, suite, command, tmp_path):
    (tmp_path / 'other.py').write_text('from fedjax_fair.registry import register\n@register.model\ndef other(c): ...')
    found = command('check-method', 'other.py')
    assert found.code == 2 and '--plugin=other.py registers no recipe' in found.err
    assert command('check-method').code == 2


DATA = """
import numpy as np

from fedjax_fair import register
from fedjax_fair.data.blocks import UNKNOWN, Block
from fedjax_fair.data.sources.contents import Arrays


@register.source('text_table', argument='FILE')
def read_text_table(argument, delimiter: str = ','):
    table = np.loadtxt(argument, delimiter=delimiter, dtype=np.float32, ndmin=2)
    if table.shape[1] < 2:
        raise ValueError(f'{argument} has no column beside the class')
    labels, split = table[:, -1].astype(np.int64), np.full(len(table), UNKNOWN)
    return Arrays([Block(argument, table[:, :-1], labels, split)])


@register.partition
def alternate(patients, seed, num_clients: int = 10):
    numbers = np.arange(len(patients.labels))
    return [numbers[client::num_clients] for client in range(num_clients)]


@register.sampler
def first_ones(sizes, many: int = 2):
    return lambda key, round: np.arange(many, dtype=np.int32)
"""


def test_a_source_a_partition_scheme_and_a_sampler_of_a_plug_in(tmp_path, monkeypatch, command, toy):
    monkeypatch.chdir(tmp_path)
    pathlib.Path('kinds.py').write_text(DATA)
    rows = [f'{i % 2 * 3 + i % 5};{i % 3};{i % 2}' for i in range(60)]
    pathlib.Path('numbers.csv').write_text('\n'.join(rows))
    words = [*(word for word in toy if 'scenario' not in word), '--plugin=kinds.py']
    words += ['--scenario=text_table:numbers.csv', '--source_options=delimiter=;', '--split_by=alternate']
    words += ['--num_clients=3', '--sampler=first_ones', '--first_ones.many=1']
    try:
        found = command('run', *words, '--out=out')
        assert found.code == 0, found.err
        assert json.loads(pathlib.Path('out/summary.json').read_text())['clients'] == 3
        found = command('run', *words, '--first_ones.few=1', '--out=other')
        assert found.code == 2 and "first_ones has no option 'few'; it has: many" in found.err
        pathlib.Path('narrow.csv').write_text('1\n0\n')
        found = command('run', *words, '--scenario=text_table:narrow.csv', '--out=other')
        assert found.code == 2 and 'narrow.csv has no column beside the class' in found.err
    finally:
        plugins.unload('kinds.py')


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
