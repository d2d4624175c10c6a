"""The registry: names, options that apply and options that do not."""

import dataclasses
from typing import Annotated, Any

import numpy as np
import pytest

from fedjax_fair.data import (
    SCENARIOS,
    SOURCES,
    data_options,
    describe_scenarios,
    federate,
    make_scenario,
    make_split,
    scenario_names,
    scenario_options,
)
from fedjax_fair.data.blocks import Block
from fedjax_fair.data.declarations import merged
from fedjax_fair.data.pool import Pool
from fedjax_fair.data.sources import Arrays
from fedjax_fair.errors import UserError
from fedjax_fair.options import Option, at_least, between
from fedjax_fair.registry import Registry, partitions, register
from fedjax_fair.training import Config, checked
from fedjax_fair.training.config import BARE_NAMES

EMBEDDED = [name for name in SCENARIOS if not SCENARIOS.entry(name).notes.get('argument')]


@pytest.mark.parametrize('name', EMBEDDED)
def test_every_embedded_scenario_is_a_sound_federation(name):
    made = make_scenario(name)
    assert made.name == name and len(made.x) == len(made.y) and made.y.dtype == np.int32
    assert made.y.min() >= 0 and made.y.max() < made.num_classes == len(made.class_names)
    owned = np.concatenate([row[:n] for row, n in zip(made.index, made.sizes, strict=True)])
    assert len(np.unique(owned)) == len(owned) == len(made.x) and made.sizes.min() > 0
    assert made.tests.mask.any(1).all() and len(made.tests.names) == len(made.tests.y)
    assert made.tests.test_of.shape == (made.num_clients,) and made.tests.test_of.max() < len(made.tests.names)


def test_every_scenario_has_one_line_and_options_with_help():
    for about in describe_scenarios().values():
        assert about and '\n' not in about and len(about) < 110
    assert tuple(describe_scenarios()) == scenario_names() and 'npz:PATH[,PATH]' in scenario_names()
    for name in (*SCENARIOS, *SOURCES):
        assert all(option.help for option in scenario_options(name).values())
    assert all(option.help for kind in SOURCES for option in SOURCES.options(kind).values())


def test_data_options_are_those_of_all_scenarios_and_schemes():
    options = data_options()
    assert set(options) >= {name for known in (*SCENARIOS, *SOURCES) for name in scenario_options(known)}
    numbers = {name: options[name].default for name in ('num_clients', 'alpha', 'test_size', 'image_size', 'task')}
    assert set(numbers.values()) == {None}  # scenarios have different ones
    assert options['severity'].choices == (1, 2, 3, 4, 5) and options['shift'].default == 1.0
    assert options['client_sizes'].parse('3,4') == (3, 4) and 'power_law' in options['split_by'].help
    with pytest.raises(UserError, match=r'alpha=0.0 must be above 0'):
        options['alpha'].parse('0')


def test_options_may_be_texts():
    made = make_scenario('digits_domains', num_clients='4', client_sizes='5,6,7,8', test_size='3', truncate='true')
    same = make_scenario('digits_domains', num_clients=4, client_sizes=[5, 6, 7, 8], test_size=3, truncate=True)
    np.testing.assert_array_equal(made.index, same.index)
    assert made.sizes.tolist() == [5] * 4


def test_whole_tests_take_the_place_of_a_scenarios_own():
    made = make_scenario('digits_labels', num_clients=20, whole_tests=True, examples_per_class=5)
    assert made.sizes.tolist() == [10] * 20
    for client, own in enumerate(made.tests.test_of):
        held = np.unique(made.y[made.index[client, :10]])
        tested = made.tests.y[own][made.tests.mask[own]]
        assert np.unique(tested).tolist() == held.tolist()
        assert len(tested) > 90  # of 54 test digits of every class


@pytest.mark.parametrize(
    ('spec', 'options', 'words'),
    [
        ('digits', {}, 'scenario=digits is not one of digits_domains, digits_labels, digits_common, gaussian_toy_1'),
        ('npz', {}, 'scenario=npz must be written npz:PATH'),
        ('digits_labels:x', {}, 'scenario=digits_labels:x must be written digits_labels'),
        ('gaussian_toy_1', {'num_clients': 3}, 'num_clients=3 does not apply to scenario=gaussian_toy_1'),
        ('gaussian_toy_2', {'truncate': True}, 'truncate=True does not apply to scenario=gaussian_toy_2'),
        ('digits_labels', {'npz_keys': 'a:b'}, 'npz_keys=a:b does not apply'),
        ('digits_labels', {'split_by': 'site'}, 'no sites or domains; choose one of iid, dirichlet'),
        ('digits_labels', {'num_clients': 0}, 'num_clients=0 must be at least 1'),
        ('digits_domains', {'image_size': 64}, 'image_size=64 does not apply'),
        ('digits_domains', {'whole_tests': True}, 'whole_tests=True does not apply to scenario=digits_domains'),
    ],
)
def test_mistakes_list_the_choices(spec, options, words):
    with pytest.raises(ValueError, match=r'^[^\n]+$') as caught:
        make_scenario(spec, **options)
    assert words in str(caught.value)


def test_federate_drops_examples_nobody_holds():
    pool = Pool(
        np.arange(40.0)[:, None],
        np.tile([0, 1], 20).astype(np.int32),
        np.arange(40) % 4 == 0,
        np.zeros(40, int),
        ('a',),
    )
    made = federate(pool, 'tiny', make_split('domain', clients_per_domain=2, client_sizes=(5,)))
    assert len(made.x) == 10 and set(made.x[made.index.ravel(), 0]) <= set(pool.x[~pool.held_out, 0])


def test_clients_whose_classes_are_never_tested():
    y = np.repeat([0, 1], 20).astype(np.int32)
    pool = Pool(np.zeros((40, 1)), y, np.arange(40) < 5)
    with pytest.raises(ValueError, match='no test example of the classes of clients'):
        federate(pool, 'tiny', make_split('classes', num_clients=2, classes_per_client=1), own_tests=5)


@pytest.fixture
def halves():
    """A partition scheme and a source of somebody else's, for one test."""

    @register.partition
    def halves(patients, seed, first: Annotated[float, 'share of the first client', between(0, 1)] = 0.5):
        return np.split(np.arange(len(patients.labels)), [round(first * len(patients.labels))])

    @register.source('dots', argument='COUNT', about='points in a row')
    def dots(argument, classes: int = 2):
        count = int(argument)
        return Arrays([Block('dots', np.arange(count, dtype=np.float32)[:, None], np.arange(count) % classes,
                             (np.arange(count) < 10).astype(int))])  # fmt: skip

    yield
    del partitions['halves'], SOURCES['dots']


def test_a_source_and_a_scheme_from_outside_are_known_everywhere(halves):
    made = make_scenario('dots:50', split_by='halves', first='0.25', source_options='classes=5')
    assert made.sizes.tolist() == [10, 30] and made.num_classes == 5
    assert 'dots:COUNT' in scenario_names() and data_options()['first'].help == 'share of the first client'
    joined = make_scenario('domains:a=dots:40,b=dots:50')
    assert joined.groups == ('a', 'b') and joined.sizes.tolist() == [30, 40]
    assert make_scenario('digits_common', split_by='halves').num_clients == 2
    assert make_scenario('digits_labels', split_by='halves').num_clients == 2
    with pytest.raises(UserError, match=r'^first=2.0 must be at least 0 and at most 1$'):
        make_scenario('dots:50', split_by='halves', first='2')
    with pytest.raises(UserError, match=r'^alpha=1.0 does not apply to split_by=halves, which reads first$'):
        make_scenario('dots:50', split_by='halves', alpha=1.0)
    with pytest.raises(UserError, match=r"^source_options=class=5: dots has no option 'class'; it has: classes"):
        make_scenario('dots:50', source_options='class=5')
    with pytest.raises(UserError, match='corruption=gaussian_noise needs images'):
        make_scenario('quality_shift:dots:50', num_clients=2, corrupted_ratio=0.5)


@pytest.fixture
def lamp():
    """A scenario of somebody else's with a flag that is on by default."""

    @register.scenario
    def lamp(data_seed, bright: Annotated[bool, 'whether it is on'] = True, size: Annotated[int, 'how large'] = 2):
        made = make_scenario('gaussian_toy_1', data_seed=data_seed)
        return dataclasses.replace(made, name=f'{bright} {size}')

    yield
    del SCENARIOS['lamp']


@pytest.mark.parametrize('off', [False, 'false'])
def test_a_flag_that_is_on_by_default_can_be_turned_off(lamp, off):
    assert make_scenario('lamp').name == 'True 2' and make_scenario('lamp', bright=off).name == 'False 2'
    assert checked(Config(scenario='lamp', data={'bright': off})).data == {'bright': False}
    assert Config.from_dict({'scenario': 'lamp', 'bright': False}).data == {'bright': False}
    with pytest.raises(UserError, match='truncate=True does not apply to scenario=lamp'):
        make_scenario('lamp', truncate=True)
    assert make_scenario('lamp', truncate=False, bright=None).name == 'True 2'


def test_options_that_factories_declare_differently_are_left_to_the_scenario(lamp):
    first = {'size': Option('size', 2, int, range=at_least(1)), 'mode': Option('mode', 'a', str, choices=('a', 'b'))}
    second = {'size': Option('size', 2.5, float, range=between(0, 1)), 'mode': Option('mode', 'a', str, choices=('a',))}
    for order in ([first, second], [second, first], [first, second, first]):
        union = merged(order)
        assert union['size'] == Option('size', None, Any) and union['mode'] == Option('mode', 'a', str)
        assert union['size'].parse('0.5') == '0.5'
    assert merged([first, first]) == first

    @register.scenario
    def tall(data_seed, size: float = 1.0): ...

    try:
        assert checked(Config(scenario='tall', data={'size': '2.5'})).data == {'size': 2.5}
        with pytest.raises(UserError, match=r'size=2.5: expected a whole number'):
            checked(Config(scenario='lamp', data={'size': '2.5'}))
    finally:
        del SCENARIOS['tall']


@pytest.mark.parametrize(('kind', 'what'), [('scenario', 'scenario'), ('partition', 'partition scheme')])
def test_an_option_with_the_name_of_a_setting_is_refused(kind, what):
    with pytest.raises(UserError, match=f'^{what} steep: its option lr has the name of the setting lr of a run'):

        @getattr(register, kind)
        def steep(data_seed, lr: float = 7.0): ...


def test_settings_that_are_told_later_are_refused_too():
    own = Registry('scenario')

    @own.register
    def steep(data_seed, lr: float = 7.0): ...

    with pytest.raises(UserError, match=r'^scenario steep: its option lr has the name of the setting lr of a run'):
        own.beside_settings(['lr'])


def test_no_option_of_data_has_the_name_of_a_setting():
    assert not set(data_options()) & BARE_NAMES
