"""Presets that bear a paper's name have its published settings, but for deviations that are listed with a reason."""

import importlib
import re
import types

import pytest

from experiments import published
from experiments.published import HERE, PAPERS, SAME, preset_config, settings_of
from fedjax_fair.methods import defaults

PRESETS = [(paper, preset) for paper in PAPERS for preset in settings_of(paper)]
# What every preset of a paper must account for: model, data, training, participation and evaluation.
REQUIRED = (
    'scenario', 'model', 'image_size', 'norm', 'normalize', 'pretrained', 'augment', 'rounds', 'local_epochs',
    'batch_size', 'local_optimizer', 'lr', 'lr_decay', 'momentum', 'weight_decay', 'keep_optimizer', 'num_clients',
    'participation', 'seeds', 'validation', 'select', 'eval_every', 'last_k', 'eval_batch_size',
)  # fmt: skip


CONSTANT = re.compile(r'(\w+)\.([A-Z_]+)(?:\[(.+)\])?')


def value_of(config, name, paper):
    """A setting, an option of the data, a constant of tables, or a hyper-parameter, by default that of the method."""
    if constant := CONSTANT.fullmatch(name):
        module, own, key = constant.groups()
        value = getattr(importlib.import_module(f'experiments.{paper}.{module}'), own)
        return value if key is None else value[key]
    if hasattr(config, name):
        return getattr(config, name)
    part, dot, key = name.partition('.')
    if not dot:
        return config.data.get(name)
    return config.hyper[name] if name in config.hyper else defaults(part)[key]


@pytest.mark.parametrize(('paper', 'preset'), PRESETS)
def test_a_preset_has_the_published_settings(paper, preset):
    config, settings = preset_config(paper, preset), settings_of(paper)[preset]
    found = {name: value_of(config, name, paper) for name in settings}
    assert found == {name: one.expected for name, one in settings.items()}


@pytest.mark.parametrize(('paper', 'preset'), PRESETS)
def test_every_setting_that_matters_is_accounted_for(paper, preset):
    settings = settings_of(paper)[preset]
    assert set(REQUIRED) <= set(settings)
    for name, one in settings.items():
        assert one.source, name
        assert bool(one.why) == (one.ours != SAME), name
        assert one.value is not None or one.ours != SAME, name


def test_every_flag_file_but_small_ones_has_published_settings():
    """Whatever a preset sets is in the table, so that no setting is added without a place in the paper."""
    for paper, preset in PRESETS:
        lines = (HERE / paper / f'{preset}.flags').read_text().splitlines()
        names = {line.partition('=')[0] for line in lines if line and not line.startswith('#')}
        assert names <= set(settings_of(paper)[preset]), (paper, preset, names - set(settings_of(paper)[preset]))


SMALL = [(path.parent.name, path.stem) for path in sorted(HERE.glob('*/tiny*.flags'))]
NETWORK = ('model', 'model_options', 'norm')


def test_every_paper_has_a_tiny_preset():
    assert {paper for paper, preset in SMALL if preset == 'tiny'} == set(PAPERS)


@pytest.mark.parametrize(('paper', 'preset'), SMALL)
def test_tiny_is_a_quarter_of_smoke_with_one_seed_and_a_smaller_network(paper, preset):
    tiny, smoke = preset_config(paper, preset), preset_config(paper, preset.replace('tiny', 'smoke'))
    rounds = round(smoke.rounds / 4)
    network = {name: getattr(tiny, name) for name in NETWORK}
    own = {**network, 'rounds': rounds, 'seeds': (0,), 'eval_every': min(smoke.eval_every, rounds)}
    assert tiny == smoke.changed(**own)


def test_flag_files_have_lines_that_can_be_read():
    files = sorted(HERE.rglob('*.flags'))
    assert [path.name for path in files if max(map(len, path.read_text().splitlines())) > 120] == []


def test_deviations_are_printed_with_their_reasons(monkeypatch, capsys):
    monkeypatch.setattr(published, 'flags', types.SimpleNamespace(FLAGS=types.SimpleNamespace(deviations=True)))
    published.main([])
    lines = capsys.readouterr().out.splitlines()
    differing = [one for paper, preset in PRESETS for one in settings_of(paper)[preset].values() if one.ours != SAME]
    told = [line for line in lines if line.startswith('- ')]
    assert len(told) == len(differing)
    assert all(line.endswith(one.why) for line, one in zip(told, differing, strict=True))
    assert [line for line in lines if line.endswith('--preset=cifar10')] == ['fedtilt, --preset=cifar10']
