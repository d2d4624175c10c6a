"""Words to settings: defaults, files of flags, config.json, and who overrules whom."""

import dataclasses
import json
import pathlib

import pytest
from absl import flags

from fedjax_fair.cli import settings
from fedjax_fair.data import data_options
from fedjax_fair.errors import UserError
from fedjax_fair.results import FACTS
from fedjax_fair.training import Config
from fedjax_fair.training.checks import checked

RECORDED = sorted((pathlib.Path(__file__).parents[2] / 'experiments').rglob('config.json'))


def config(*words: str, command: str = 'run') -> Config:
    values = flags.FlagValues()
    settings.define_flags(values)
    hyper = settings.parse(words, values, command)
    return checked(settings.config_of(values, hyper))


def test_no_flags_give_the_defaults():
    assert config() == Config()


def test_every_setting_is_a_flag_and_flags_can_be_defined_twice():
    values = flags.FlagValues()
    settings.define_flags(values)
    settings.define_flags(values)
    names = {f.name for f in dataclasses.fields(Config)} - {'hyper', 'data', 'plugins'}
    assert names | set(data_options()) | {'plugin'} <= set(values)


def test_types():
    found = config('--seeds=3,1', '--lr=0.5', '--clip_norm=2', '--keep_optimizer', '--client_sizes=4,5', '--norm=none')
    assert found.seeds == (3, 1) and found.data == {'client_sizes': (4, 5)} and found.norm == 'none'
    assert (found.lr, found.clip_norm, found.keep_optimizer) == (0.5, 2.0, True)


def test_short_names():
    assert config('--seed=7').seeds == (7,) and config('--clients=9').data == {'num_clients': 9}
    assert config('--seed=7', '--seeds=1,2').seeds == (1, 2)  # the later one counts


def test_hyper_parameters_get_the_type_of_their_default():
    assert config('--recipe=fedprox', '--fedprox.mu=1').hyper == {'fedprox.mu': 1.0}


def test_a_file_of_flags(tmp_path):
    path = tmp_path / 'my.flags'
    path.write_text(
        '# my settings\n--recipe=fedprox\nlr=0.25\n\n  --seeds=1,2\n--fedprox.mu=0.5\nkeep_optimizer=true\n'
    )
    expected = Config(recipe='fedprox', lr=0.25, seeds=(1, 2), hyper={'fedprox.mu': 0.5}, keep_optimizer=True)
    assert config(f'--config={path}') == expected


@pytest.mark.parametrize('first', [True, False])
def test_the_command_line_overrules_files(tmp_path, first):
    path = tmp_path / 'my.flags'
    path.write_text('--recipe=fedprox\n--lr=0.25\n--fedprox.mu=0.5\n--seed=4\n')
    words = ['--lr=0.125', '--fedprox.mu=2', '--seeds=0,1']
    words = [f'--config={path}', *words] if first else [*words, f'--config={path}']
    assert config(*words) == Config(recipe='fedprox', lr=0.125, seeds=(0, 1), hyper={'fedprox.mu': 2.0})


def test_config_json_gives_back_the_settings(tmp_path):
    path = tmp_path / 'config.json'
    kept = Config(
        recipe='fedprox+server_adam', seeds=(2, 5), lr=1e-7, clip_norm=0.1,
        data={'client_sizes': (3, 4), 'truncate': True},
        model='mlp', model_options={'widths': (8, 4)},
        schedule='0,1;1,0', sampler='schedule', hyper={'fedprox.mu': 0.1, 'server_adam.lr': 1 / 3},
    )  # fmt: skip
    facts = dict.fromkeys(FACTS, 'of no matter')
    path.write_text(json.dumps(dataclasses.asdict(kept) | facts))
    assert config(f'--config={path}') == kept
    assert config(f'--config={path}', '--lr=0.5') == dataclasses.replace(kept, lr=0.5)


def test_config_json_of_earlier_versions(tmp_path):
    """Options of data stood beside the other settings, whether given or not, and those of the network were text."""
    path = tmp_path / 'config.json'
    old = {'recipe': 'fedprox', 'model': 'mlp', 'model_options': 'widths=16x32', 'seeds': [0, 1], 'num_clients': 5}
    old |= {'alpha': None, 'client_sizes': [], 'truncate': False, 'join_sites': True, 'shift': 0.0, 'versions': {}}
    path.write_text(json.dumps(old))
    data = {'num_clients': 5, 'join_sites': True, 'shift': 0.0}
    kept = Config(recipe='fedprox', model='mlp', model_options={'widths': (16, 32)}, seeds=(0, 1), data=data)
    assert config(f'--config={path}') == kept
    assert checked(Config.of_run(tmp_path)) == kept


@pytest.mark.parametrize('path', RECORDED, ids=lambda path: '/'.join(path.parts[-5:-1]))
def test_recorded_runs_load(path):
    """As settings of a folder and as a file of flags."""
    assert config(f'--config={path}') == checked(Config.of_run(path.parent))


def test_options_of_the_network_are_written_with_equals_signs():
    assert config('--model=mlp', '--model_options=widths=64x64').model_options == {'widths': (64, 64)}
    with pytest.raises(UserError, match='model_options=depth must be written name=value'):
        config('--model_options=depth')


def test_changed_settings_and_options_of_data():
    base = Config(lr=0.5, data={'alpha': 0.1, 'test_size': 5})
    assert base.changed(lr=0.25, alpha=None, num_clients=3) == Config(lr=0.25, data={'test_size': 5, 'num_clients': 3})


def test_texts_become_values_and_unknown_options_of_data_are_refused():
    assert checked(Config(rounds='3', data={'num_clients': '4', 'client_sizes': '5,6', 'truncate': False})) == Config(
        rounds=3, data={'num_clients': 4, 'client_sizes': (5, 6)}
    )
    with pytest.raises(UserError, match=r"num_client=4: data has no option 'num_client'; .*did you mean 'num_clients'"):
        checked(Config(data={'num_client': 4}))


@pytest.mark.parametrize(
    ('name', 'text', 'message'),
    [
        ('a.json', '{', 'is not valid JSON'),
        ('a.json', '[1]', 'must hold a JSON object'),
        ('a.json', '{"hyper": 3}', "setting 'hyper' must be an object of options, is 3"),
        ('a.json', '{"learning_rate": 0.1}', "setting 'learning_rate' is not one of recipe, scenario"),
        ('a.flags', '--config=b.flags', 'cannot stand in a file of flags'),
        ('a.flags', '--\n--rounds=3', r"a\.flags: '--' names no flag; lines have the form --name=value"),
        ('a.flags', '=3', "a.flags: '--=3' names no flag"),
        ('a.flags', '--lrr=3', 'unknown flag --lrr'),
        ('a.flags', 'fedprox.mu', 'write --fedprox.mu=VALUE'),
    ],
)
def test_broken_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        config(f'--config={tmp_path / name}')


def test_a_binary_file_is_no_file_of_flags(tmp_path):
    (tmp_path / 'x.bin').write_bytes(b'\xff\xfe\x00')
    with pytest.raises(ValueError, match='is not a text file'):
        config(f'--config={tmp_path / "x.bin"}')


def test_grids():
    assert settings.grid_of(['lr=0.1,1e-3', 'fedprox.mu=0']) == {'lr': [0.1, 0.001], 'fedprox.mu': [0.0]}
