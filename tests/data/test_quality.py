"""The quality shift: the last clients hold corrupted images, every class in the same part; tests come in both kinds."""

import numpy as np
import pytest

from fedjax_fair.data import make_scenario, partition
from fedjax_fair.data.scenarios.digit_images import handwritten_digits


def published_partition(labels, clients, corrupted, alpha, seed):
    """wnn2000/FFL4MIA's order of random numbers, example by example."""
    np.random.seed(seed)
    owner = np.full(len(labels), -1)
    good = clients - corrupted
    for label in range(labels.max() + 1):
        rows = [i for i in range(len(labels)) if labels[i] == label]
        cut = round(good / clients * len(rows))
        p = np.random.dirichlet(alpha * np.ones(good))
        p_corrupted = np.random.dirichlet(alpha * np.ones(corrupted))
        owner[rows[:cut]] = np.random.choice(np.arange(good), size=cut, p=p)
        owner[rows[cut:]] = np.random.choice(np.arange(good, clients), size=len(rows) - cut, p=p_corrupted)
    return owner


@pytest.mark.parametrize(('clients', 'corrupted', 'alpha'), [(8, 2, 1.0), (20, 4, 1.0), (5, 3, 0.3)])
def test_the_partition_is_the_published_one(clients, corrupted, alpha):
    labels = np.random.default_rng(0).integers(5, size=600)
    expected = published_partition(labels, clients, corrupted, alpha, 2024)
    found = partition.two_pools(labels, clients, corrupted, alpha, 2024)
    for client, rows in enumerate(found):
        np.testing.assert_array_equal(rows, np.flatnonzero(expected == client))


def test_corrupted_clients_hold_their_part_of_every_class():
    labels = np.repeat(np.arange(4), [100, 60, 40, 200])
    clients = partition.two_pools(labels, 20, 4, 1.0, 1)
    np.testing.assert_array_equal(np.bincount(labels[np.concatenate(clients[16:])]), [20, 12, 8, 40])


@pytest.fixture(scope='module')
def digits():
    return make_scenario('quality_shift:digits', num_clients=10, corrupted_ratio=0.3)


def test_only_the_last_clients_have_noisy_images(digits):
    assert digits.groups == ('clean', 'corrupted')
    np.testing.assert_array_equal(digits.group_of, [0] * 7 + [1] * 3)
    pool = handwritten_digits(0)
    known = {image.tobytes() for image in pool.x[~pool.held_out]}
    for client in range(10):
        rows = digits.index[client, : digits.sizes[client]]
        clean = [digits.x[row].tobytes() in known for row in rows]
        assert all(clean) if client < 7 else not any(clean)


def test_the_test_set_is_there_in_both_kinds_with_the_same_labels(digits):
    clean, noisy = digits.tests.x
    np.testing.assert_array_equal(digits.tests.y[0], digits.tests.y[1])
    assert 0.05 < np.abs(clean.astype(float) - noisy.astype(float)).mean() / 255 < 0.2
    np.testing.assert_array_equal(digits.tests.test_of, digits.group_of)


def test_masks_stay_as_they_are():
    options = {'num_clients': 2, 'image_size': 16, 'test_size': 4, 'corruption': 'motion_blur', 'severity': 1}
    data = make_scenario('quality_shift:tissue', task='segmentation', corrupted_ratio=0.5, **options)
    assert data.task == 'segmentation' and data.y.shape[1:] == (16, 16)
    assert set(np.unique(data.y)) <= {0, 1}


def test_any_arrays_can_be_the_base(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / 'scans.npz'
    np.savez(path, images=rng.integers(256, size=(200, 8, 8), dtype=np.uint8), labels=np.arange(200) % 2)
    data = make_scenario(f'quality_shift:npz:{path}', num_clients=4, corrupted_ratio=0.25)
    assert data.name == 'quality_shift:npz:scans' and data.sizes.sum() == 160


def test_a_part_of_the_training_examples_is_dealt_to_the_same_clients(digits):
    options = {'num_clients': 10, 'corrupted_ratio': 0.3, 'train_size': 300, 'test_size': 50}
    data = make_scenario('quality_shift:digits', **options)
    assert data.sizes.sum() == len(data.x) == 300 and data.tests.mask.sum() == 100
    np.testing.assert_array_equal(data.group_of, digits.group_of)
    pool = handwritten_digits(0)
    assert not pool.held_out[np.concatenate(data.partition.clients)].any()
    corrupted = data.sizes[data.group_of == 1].sum()
    assert abs(corrupted - 90) <= 5, 'three of ten clients hold their part of every class'


@pytest.mark.parametrize(
    ('spec', 'options', 'message'),
    [
        ('quality_shift', {}, 'scenario=quality_shift must be written quality_shift:BASE'),
        (
            'quality_shift:fog',
            {},
            'quality_shift:fog is not one of digits, tissue, tissue_grades, npz:PATH',
        ),
        ('quality_shift:digits', {'corrupted_ratio': 0.01}, 'corrupted_ratio=0.01 gives 0 of 20 clients'),
        ('quality_shift:digits', {'corruption': 'fog'}, 'corruption=fog is not one of'),
        ('quality_shift:digits', {'severity': 0}, 'severity=0 is not one of 1, 2, 3, 4, 5'),
        (
            'quality_shift:digits',
            {'image_size': 32},
            'image_size=32 does not apply to scenario=quality_shift:digits',
        ),
        ('quality_shift:npz:nowhere.npz', {}, 'nowhere.npz'),
        ('quality_shift:digits', {'shift': 0.5}, 'shift=0.5 does not apply to scenario=quality_shift'),
        ('digits_domains', {'severity': 2}, 'severity=2 does not apply to scenario=digits_domains'),
        ('quality_shift:digits', {'num_clients': 400, 'alpha': 0.01}, 'without examples'),
    ],
)
def test_mistakes_are_refused(spec, options, message):
    with pytest.raises(ValueError, match=message):
        make_scenario(spec, **options)
