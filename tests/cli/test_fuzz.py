"""Mangled command lines, flag files and config files: refused in one line, or settings that are all within range."""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import pathlib
import random
import string
from typing import Any, NoReturn

import pytest

from fedjax_fair import registry
from fedjax_fair.cli import settings
from fedjax_fair.data import data_options, scenario_options
from fedjax_fair.escaping import visible
from fedjax_fair.methods import resolve_hyper
from fedjax_fair.options import Option
from fedjax_fair.ranges import fits_float32
from fedjax_fair.training import Config, comparison, loop, tuning
from fedjax_fair.training.checks import checked
from fedjax_fair.training.config import setting_options

TOY = 'gaussian_toy_1'
SOUND = (  # flags that go together, most of them with any other
    *('rounds=3', 'lr=0.25', 'seeds=0,1', 'seed=3', 'batch_size=8', 'local_epochs=1', 'local_steps=2', 'clip_norm=1'),
    *('weight_decay=1e-4', 'participation=0.5', 'dropout=0.1', 'eval_every=2', 'last_k=1', 'keep_optimizer'),
    *('nokeep_predictions', 'lr_decay=0.99', 'validation=0.25', 'adapt_every=2', 'checkpoint_every=0', 'data_seed=1'),
    *('model=mlp', 'chunk=1', 'devices=1', 'eval_batch_size=10', 'local_optimizer=adam', 'deterministic=false'),
    *('data_seeds=0,1', 'recipe=fedavg', 'recipe=fedavg+server_adam', 'client_map=vmap', 'precision=float32', 'quiet'),
)
ODD_VALUES = (
    *('', ' ', 'nan', 'NaN', 'inf', '-inf', '-1', '-0', '0', '1', '2', '0.5', '1.5', '1e400', '1e-400', '1e39', '1e9'),
    *('99999999999999999999', '2147483648', '0x10', '1_0', '١', '½', '²', 'true', 'None', 'null', '[]', '{}', ',', ';'),
    *('+', '=', '--', '-', '.', '..', '/', ':', '%s', '{0}', '$HOME', '*', '`lr`', "'", '"', '\\', '\t', '\x1b[31m'),
    *('\r', '\n', '\x85', '\u2028', '\u202e', '\ufeff', '\x7f', 'naïve', '数', '🙂', '\udcff'),
    *('a' * 9_999, '9' * 5_000),
)
ODD_JSON: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, 10**30, math.nan, math.inf, -math.inf, '', 'x', '\ud800', '\x00', [], {}, [[]]),
    *([None], [1, 'a'], [True], {'': ''}, {'a': {'b': []}}, {'lr': 1}, {'fedprox.mu': 'x'}, [[[1]]], 'a' * 5_000, ['']),
)
RECIPES = ('fedprox', 'fedavg', 'scaffold', 'qfedavg', 'server_adam', 'fedyogi', 'ditto', 'uniform', 'nope', '', '+')
SCENARIOS = (TOY, 'gaussian_toy_2', 'nope', 'npz', 'npz:', 'npz:no.npz', 'folders:', 'folders:.', 'csv:x', ':', '::')
COMMANDS = (*['run'] * 12, 'sweep', 'compare', 'tune')
NEEDED = {'sweep': ['--grid=lr=0.1,0.2'], 'compare': ['--recipes=fedavg,fedprox'], 'tune': ['--recipes=fedavg']}

NONSENSE = (
    *('--recipe=+', '--recipe=fedavg+', '--recipe=+fedavg', '--recipe=fedavg++fedprox', '--recipe=FedAvg'),
    *('--recipe= fedavg', '--recipe=fedavg,fedprox', '--recipe=fedavg\n', '--recipe=fedprox+fedprox', '--select=best'),
    *('--scenario=', '--scenario=:', '--scenario=gaussian_toy_1:', '--scenario=gaussian_toy_1 ', '--scenario=npz:'),
    *('--rounds=1e400', '--rounds=99999999999999999999', '--rounds=0x10', '--rounds=1_0', '--rounds=١'),
    *('--rounds=', '--lr=', '--lr=1e400', '--lr=1,2', '--lr=-0.1', '--lr=½', '--lr=-inf', '--momentum=-1', '--seed=-1'),
    *('--seeds=4294967296', '--seeds=0;1', '--seeds=,', '--deterministic=2', '--resume=maybe', '--dropout=-1', 'lr=1'),
    *('--=1', '--lr', '--nolr', '--norounds=3', '--LR=1', '--lr =1', '--lr\x00=1', '-1', '--fedprox.=1', '--.mu=1'),
    *('--fedavg.mu=1', '--fedprox.mu.mu=1', '--scenario.gaussian=1'),
)
NO_SETTINGS = (
    *('{', '[]', '3', 'null', '"lr"', '{"lr": NaN}', '{"lr": Infinity}', '{"rounds": true}', '{"rounds": 2.5}', ''),
    *('{"rounds": [3]}', '{"rounds": {"of": 3}}', '{"recipe": ["fedavg"]}', '{"recipe": true}', '{"seeds": [true]}'),
    *('{"seeds": []}', '{"seeds": [[0]]}', '{"data": 3}', '{"data": [["alpha", 1]]}', '{"hyper": {"fedprox.mu": 1}}'),
    *('{"hyper": {"overwrite": true}}', '{"hyper": {"lr": 0.5}}', '{"data": {"out": "other"}}', '{"data": {"lr": 5}}'),
    *('{"data": {"out=": "x"}}', '{"data": {"seed": 3}}', '{"data": {"config": "x"}}', '{"data": {"fedprox.mu": 1}}'),
    *('{"plugins": [3]}', '{"plugins": [""]}', '{"model": "mlp", "model_options": {"widths": -1}}', '{"clients": 3}'),
)


class Reached(Exception):
    """Nothing is wrong with these settings so far."""

    def __init__(self, config: Config):
        self.config = config


@pytest.fixture
def attempt(command, tmp_path, monkeypatch):
    """Run a command up to where it would compile: the settings it has then, or None where it was refused."""
    for module in (loop, comparison, tuning):
        monkeypatch.setattr(module, 'prepare', reached)
    monkeypatch.chdir(tmp_path)

    def attempt(name: str, *words: str) -> Config | None:
        try:
            found = command(name, *words)
        except Reached as reached:
            return reached.config
        assert_refused(found)
        return None

    return attempt


def assert_refused(found) -> None:
    """The command ended with one printable line."""
    assert found.code == 2 and found.out == '', found
    assert found.err.startswith('fedjax-fair: error: ') and found.err.endswith('\n'), found.err
    assert visible(found.err[:-1]) == found.err[:-1], found.err


@pytest.fixture
def run(command, tmp_path, monkeypatch):
    """Run ``fedjax-fair run`` up to where training would begin, which is a failure."""

    def refuse(*args, **kwargs):
        raise AssertionError('got as far as running')

    monkeypatch.setattr(loop, '_Runner', refuse)
    monkeypatch.chdir(tmp_path)
    return lambda word: command('run', f'--scenario={TOY}', '--out=out', word)


def reached(config: Config, *others) -> NoReturn:
    """In place of what reads data and builds programs."""
    raise Reached(checked(config))


def check_value(option: Option, value: Any) -> None:
    """Numbers are finite, of the declared type and within the declared range, words are among the choices."""
    if value is None or value == option.default:
        return
    assert not option.choices or value in option.choices
    for one in value if isinstance(value, tuple | list) else (value,):
        if option.kind in (int, float, tuple[int, ...]):
            assert isinstance(one, numbers.Real) and not isinstance(one, bool) and math.isfinite(one)
            assert option.range is None or one in option.range
            assert fits_float32(one) if option.kind is float else isinstance(one, int) and abs(one) < 2**32


def check_config(config: Config) -> None:
    """All that the settings hold is what they declare; reading them again changes nothing."""
    for name, option in setting_options().items():
        check_value(option, getattr(config, name))
    data = {**data_options(), **scenario_options(config.scenario)}
    for name, value in config.data.items():
        check_value(data[name], value)
    parts = config.recipe.split('+')
    assert len(set(parts)) == len(parts) and not set(parts) - set(registry.recipes)
    full = resolve_hyper(config.recipe, config.method_options)
    for name, value in config.hyper.items():
        part, _, key = name.partition('.')
        assert full[part][key] == value and (not isinstance(value, float) or math.isfinite(value))
    assert checked(config) == config == Config.from_dict(json.loads(config.to_json()))


# --- mutations -------------------------------------------------------------------------------------------------------


def mangled(text: str, chance: random.Random) -> str:
    """The text with a slip of the keyboard, or with something strange in it."""
    place = chance.randrange(len(text) + 1)
    before, after = text[:place], text[place:]
    added = chance.choice([*string.printable, *ODD_VALUES])
    return chance.choice([before + after[1:], before + added + after, before, after, text * 2, text.upper()])


def flag(chance: random.Random) -> str:
    """One flag: mostly sound, otherwise with a strange name or value."""
    name = chance.choice([*settings.all_flags(), 'seed', 'clients', 'flagfile', 'fedprox.mu', 'server_adam.lr'])
    kind = chance.random()
    if kind < 0.6:
        return '--' + chance.choice(SOUND)
    if kind < 0.75:
        return f'--{name}={chance.choice(ODD_VALUES)}'
    if kind < 0.8:
        return f'--recipe={"+".join(chance.choices(RECIPES, k=chance.randint(1, 3)))}'
    if kind < 0.85:
        return f'--scenario={chance.choice(SCENARIOS)}'
    if kind < 0.9:
        return chance.choice(['--', '-', '', '--no']) + name
    return mangled('--' + chance.choice(SOUND), chance)


def sound_settings(chance: random.Random) -> dict[str, Any]:
    """What the config.json of a run holds, or a part of it."""
    config = Config(recipe='fedprox', scenario=TOY, rounds=3, hyper={'fedprox.mu': 0.1}, data={'test_size': 5})
    kept = dataclasses.asdict(config)
    return {name: value for name, value in kept.items() if name in ('recipe', 'scenario') or chance.random() < 0.7}


def json_file(chance: random.Random) -> str:
    """The text of a config.json, with values that are none."""
    values = sound_settings(chance)
    for _ in range(chance.choice([0, 1, 1, 2])):
        place = chance.choice([values, values, values.get('hyper', values), values.get('data', values)])
        name = chance.choice([*settings.all_flags(), *values, 'nope', '', 'fedprox.mu', 'a=b'])
        place[name] = chance.choice(ODD_JSON)
    return json.dumps(values)


def flag_file(chance: random.Random) -> str:
    """The text of a file of flags."""
    lines = [flag(chance).removeprefix(chance.choice(['', '--'])) for _ in range(chance.randint(0, 3))]
    return chance.choice(['\n', '\n\n', '\r\n', '\n# remark\n']).join(lines)


def file_of(chance: random.Random, number: int) -> str:
    """The flag that names a new file of flags or settings, some of them damaged."""
    ending, text = chance.choice([('.json', json_file), ('.flags', flag_file)])
    content = text(chance)
    if chance.random() < 0.2:
        content = mangled(content, chance)
    coded = content.encode(chance.choice([*['utf-8'] * 9, 'utf-8-sig', 'utf-16']), errors='replace')
    if chance.random() < 0.1:
        coded = chance.choice([coded[: len(coded) // 2], coded + b'\xff\x00', b'', b'[' * 100_000, b'{"a":' * 100_000])
    path = pathlib.Path(f'{number}{ending}')
    path.write_bytes(coded)
    return f'--{chance.choice(["config", "config", "flagfile"])}={path}'


def command_line(chance: random.Random, number: int) -> list[str]:
    """A command and its words."""
    name = chance.choice(COMMANDS)
    words = [flag(chance) for _ in range(chance.randint(0, 4))]
    if chance.random() < 0.4:
        words.append(file_of(chance, number))
    needed = NEEDED.get(name, []) if chance.random() < 0.9 else []
    return [name, f'--scenario={TOY}', *needed, f'--out=out{number}', *words]


def fuzz(attempt, first: int, count: int) -> None:
    """Every line is refused properly or has sound settings, and both happen often."""
    accepted = 0
    for number in range(first, first + count):
        words = command_line(random.Random(number), number)
        try:
            config = attempt(*words)
            if config is not None:
                check_config(config)
        except Exception as error:
            raise AssertionError(f'case {number}: {words}') from error
        accepted += config is not None
    assert 0.05 * count < accepted < 0.95 * count


# --- tests -----------------------------------------------------------------------------------------------------------


def test_mangled_lines(attempt):
    fuzz(attempt, 0, 400)


def test_a_part_that_is_listed_twice_is_refused_before_data_are_read(attempt):
    assert attempt('run', f'--scenario={TOY}', '--out=out', '--recipe=ditto+ditto+fedavg') is None


@pytest.mark.long
def test_many_mangled_lines(attempt):
    fuzz(attempt, 1000, 5000)


@pytest.mark.parametrize('word', NONSENSE)
def test_nonsense_is_refused(run, word):
    assert_refused(run(word))


@pytest.mark.parametrize('text', NO_SETTINGS)
def test_files_of_nonsense_are_refused(run, text):
    pathlib.Path('config.json').write_text(text)
    assert_refused(run('--config=config.json'))
