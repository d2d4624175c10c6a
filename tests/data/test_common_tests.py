"""Test examples without a site test every client."""

import numpy as np
import pytest

from fedjax_fair.data import make_scenario
from fedjax_fair.data.federation_overview import describe


def write(folder, site, split):
    count = len(site)
    images = np.arange(count, dtype=np.uint8)[:, None, None] * np.ones((1, 4, 4), np.uint8)
    arrays = {'images': images, 'labels': np.arange(count) % 2, 'site': np.array(site), 'split': np.array(split)}
    np.savez(folder / 'own.npz', **arrays)
    return f'npz:{folder}/own.npz'


@pytest.mark.parametrize('options', [{}, {'join_sites': True}])
def test_sites_train_and_one_test_set_is_everyones(tmp_path, options):
    spec = write(tmp_path, ['b'] * 6 + [''] * 5 + ['a'] * 4, ['train'] * 6 + ['test'] * 5 + ['train'] * 4)
    data = make_scenario(spec, **options)
    assert data.groups == ('b', 'a') and data.sizes.tolist() == [6, 4]
    assert data.tests.names == ('test',) and data.tests.test_of.tolist() == [0, 0]
    assert data.tests.x[0, :, 0, 0, 0].tolist() == [6, 7, 8, 9, 10]
    assert 'a  1 client, 4 training, 5 test examples' in describe(data)


@pytest.mark.parametrize('options', [{}, {'join_sites': True}])
def test_sites_of_validation_only_are_a_mistake(tmp_path, options):
    spec = write(tmp_path, ['a', 'b', '', '', 'c'], ['train', 'train', 'test', 'test', 'val'])
    with pytest.raises(ValueError, match=r'no training example for c; every site or domain needs one$'):
        make_scenario(spec, **options)


@pytest.mark.parametrize('wishes', [{'clients_per_domain': 2}, {'split_by': 'iid', 'num_clients': 3}])
def test_the_common_test_set_serves_any_partition(tmp_path, wishes):
    spec = write(tmp_path, ['a'] * 6 + ['b'] * 6 + [''] * 5, ['train'] * 12 + ['test'] * 5)
    data = make_scenario(spec, test_size=3, **wishes)
    assert data.tests.mask.sum(1).tolist() == [3] and set(data.tests.test_of) == {0}


@pytest.mark.parametrize(
    ('site', 'split'),
    [
        (['a', '', 'b', ''], ['train', 'train', 'train', 'test']),  # whose would the second image be?
        (['a', 'b', 'b', ''], ['train', 'train', 'test', 'test']),
    ],
)
def test_sites_that_are_left_out_elsewhere_are_a_mistake(tmp_path, site, split):
    with pytest.raises(ValueError, match=r'own.npz leaves the site of some images empty'):
        make_scenario(write(tmp_path, site, split))
