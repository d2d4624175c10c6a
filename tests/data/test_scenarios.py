"""The registry: names, options that apply and options that do not."""

import inspect

import numpy as np
import pytest

from fedjax_fair.data import SCENARIOS, Split, federate, make_scenario, scenario_names
from fedjax_fair.data.pool import Pool

EMBEDDED = [name for name, scenario in SCENARIOS.items() if not scenario.argument]


@pytest.mark.parametrize('name', EMBEDDED)
def test_every_embedded_scenario_is_a_sound_federation(name):
    made = make_scenario(name)
    assert made.name == name and len(made.x) == len(made.y) and made.y.dtype == np.int32
    assert made.y.min() >= 0 and made.y.max() < made.num_classes == len(made.class_names)
    owned = np.concatenate([row[:n] for row, n in zip(made.index, made.sizes, strict=True)])
    assert len(np.unique(owned)) == len(owned) == len(made.x) and made.sizes.min() > 0
    assert made.tests.mask.any(1).all() and len(made.tests.names) == len(made.tests.y)
    assert made.tests.test_of.shape == (made.num_clients,) and made.tests.test_of.max() < len(made.tests.names)


def test_every_entry_has_one_line_and_reads_only_known_options():
    known = set(inspect.signature(make_scenario).parameters)
    for scenario in SCENARIOS.values():
        assert scenario.description and '\n' not in scenario.description and len(scenario.description) < 110
        assert set(scenario.options) <= known and 'data_seed' in scenario.options
    assert 'npz:PATH[,PATH]' in scenario_names()


@pytest.mark.parametrize(
    ('spec', 'options', 'words'),
    [
        ('digits', {}, '--scenario=digits is unknown; choose one of digits_domains, digits_labels, gaussian_toy_1'),
        ('npz', {}, '--scenario=npz must be written npz:PATH'),
        ('digits_labels:x', {}, '--scenario=digits_labels:x must be written digits_labels'),
        ('gaussian_toy_1', {'num_clients': 3}, '--num_clients=3 does not apply to --scenario=gaussian_toy_1'),
        ('gaussian_toy_2', {'truncate': True}, '--truncate=True does not apply to --scenario=gaussian_toy_2'),
        ('digits_labels', {'npz_keys': 'a:b'}, '--npz_keys=a:b does not apply'),
        ('digits_labels', {'split_by': 'site'}, 'no sites or domains; choose one of iid, dirichlet'),
        ('digits_labels', {'num_clients': 0}, 'num_clients must be at least 1, got 0'),
        ('digits_domains', {'image_size': 64}, '--image_size=64 does not apply'),
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
    made = federate(pool, 'tiny', Split('domain', clients_per_domain=2, client_sizes=(5,)))
    assert len(made.x) == 10 and set(made.x[made.index.ravel(), 0]) <= set(pool.x[~pool.held_out, 0])


def test_clients_whose_classes_are_never_tested():
    y = np.repeat([0, 1], 20).astype(np.int32)
    pool = Pool(np.zeros((40, 1)), y, np.arange(40) < 5)
    with pytest.raises(ValueError, match='no test example of the classes of clients'):
        federate(pool, 'tiny', Split('classes', 2, classes_per_client=1), own_tests=5)
