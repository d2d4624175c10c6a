"""The published protocols of FedHEAL: clients of one domain each, from files, one per domain."""

import numpy as np
import pytest

from fedjax_fair.data import make_scenario
from fedjax_fair.data.partition import with_every_class

TOTALS = {'caltech': 1123, 'amazon': 958, 'webcam': 295, 'dslr': 157}


def held(made):
    """The examples of every client, as places among those that any holds."""
    return [row[:n] for row, n in zip(made.index, made.sizes, strict=True)]


def write(folder, name, train, test=None, size=4, channels=None, classes=10):
    rng = np.random.default_rng(len(name))

    def arrays(count):
        shape = (count, size, size) if channels is None else (count, size, size, channels)
        return rng.integers(0, 256, shape, dtype=np.uint8), np.sort(np.arange(count) % classes).astype(np.int32)

    images, labels = arrays(train)
    found = {'images': images, 'labels': labels}
    if test is not None:
        more = arrays(test)
        found = dict(train_images=images, train_labels=labels, test_images=more[0], test_labels=more[1])
    np.savez(folder / f'{name}.npz', **found)
    return str(folder / f'{name}.npz')


def test_digits_from_four_files(tmp_path):
    """Five clients of each domain in shuffled order, fixed sizes, disjoint, tested on all there is to test."""
    sizes = {'mnist': (6, 400, 31), 'usps': (2, 90, 17), 'svhn': (7, 500, 40), 'mnist_m': (3, 60, 11)}
    paths = [
        write(tmp_path, name, train, test, 8, 3 if name in ('svhn', 'mnist_m') else None)
        for name, (_, train, test) in sizes.items()
    ]
    own = [size for size, _, _ in sizes.values()]
    options = dict(clients_per_domain=5, client_sizes=own, image_size=8)
    made = make_scenario('npz:' + ','.join(paths), **options)
    assert made.num_clients == 20 and made.groups == tuple(sizes) and made.x.shape[1:] == (8, 8, 3)
    np.testing.assert_array_equal(np.bincount(made.group_of), [5] * 4)
    assert (np.diff(made.group_of) < 0).any()
    np.testing.assert_array_equal(made.sizes, np.array(own)[made.group_of])
    assert len(np.unique(np.concatenate(held(made)))) == 5 * sum(own)
    np.testing.assert_array_equal(made.tests.mask.sum(1), [test for _, _, test in sizes.values()])
    np.testing.assert_array_equal(made.tests.test_of, made.group_of)
    other = make_scenario('npz:' + ','.join(paths), data_seed=1, **options)
    assert (other.group_of != made.group_of).any()


@pytest.fixture(scope='module')
def office(tmp_path_factory):
    folder = tmp_path_factory.mktemp('office')
    return make_scenario('office_caltech:' + ','.join(write(folder, *item, channels=3) for item in TOTALS.items()))


def test_office_sizes_are_the_published_ones(office):
    assert office.groups == tuple(TOTALS) and office.num_clients == 20
    np.testing.assert_array_equal(office.tests.mask.sum(1), [224, 190, 58, 30])
    np.testing.assert_array_equal(office.sizes, np.array([89, 76, 23, 12])[office.group_of])


def test_office_clients_hold_every_class(office):
    for rows in held(office):
        assert set(office.y[rows]) == set(range(10))
        assert len(np.unique(rows)) == len(rows)


def test_every_eighth_of_ten_images_is_for_training(tmp_path):
    """Images carry their place, so that what is trained on and tested on can be read off."""
    images = np.arange(200, dtype=np.uint8)[:, None, None] * np.ones((1, 2, 2), np.uint8)
    path = tmp_path / 'only.npz'
    np.savez(path, images=images, labels=np.arange(200) // 100, site=np.array(['a'] * 97 + ['b'] * 103))
    made = make_scenario(f'office_caltech:{path}', clients_per_domain=2, client_sizes=[5, 7])
    places = made.x[:, 0, 0, 0]
    within = np.where(places < 97, places, places - 97)
    assert (within % 10 <= 7).all()
    tested = made.tests.x[..., 0, 0, 0][made.tests.mask]
    assert len(tested) == sum((np.arange(n) % 10 > 7).sum() for n in (97, 103))
    assert not set(tested) & set(places)


def test_missing_classes_are_exchanged_for_plenty():
    labels = np.array([0, 0, 0, 1, 2, 0, 1, 2])
    domain = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    clients = [np.array([0, 1, 2]), np.array([0, 1]), np.array([5, 6])]
    filled = with_every_class(clients, labels, domain, seed=0)
    assert [len(c) for c in filled] == [3, 2, 2]
    assert set(labels[filled[0]]) == {0, 1, 2}
    assert len(set(labels[filled[1]])) == 2 and set(domain[filled[1]]) == {0}
    assert len(set(filled[2])) == 2 and set(domain[filled[2]]) == {1}  # nothing to spare


def test_what_a_client_gives_up_is_left_for_the_next_and_what_it_receives_is_not():
    """Six examples of class 0, two of class 1, two clients of four: if the first holds one 1, the next has the rest."""
    labels, domain = np.repeat([0, 1], [6, 2]), np.zeros(8, int)
    for seed in range(40):
        first, second = with_every_class([np.arange(4), np.arange(4, 8)], labels, domain, seed)
        assert set(labels[first]) == set(labels[second]) == {0, 1}
        assert labels[first].sum() == 2 or sorted([*first, *second]) == list(range(8))


def test_office_files_must_be_sorted_by_class(tmp_path):
    np.savez(tmp_path / 'mixed.npz', images=np.zeros((40, 2, 2), np.uint8), labels=np.arange(40) % 4)
    paths = ','.join([write(tmp_path, 'sorted', 40, size=2, classes=4), str(tmp_path / 'mixed.npz')])
    with pytest.raises(ValueError, match='the labels of mixed must be sorted by class'):
        make_scenario(f'office_caltech:{paths}')
