"""FedISM's data in the layout of FFL4MIA."""

import numpy as np
import pytest
from pictures import save_picture

from fedjax_fair.data import make_scenario
from fedjax_fair.data.sources import read_pool

SIZES = {'train': 60, 'test': 15}


def write(folder, ending='.png'):
    for part, size in SIZES.items():
        lines = [f'ID_{part}{k},{k % 5}' for k in range(size)]
        (folder / f'{part}.csv').write_text('\n'.join(['id,class', *lines]) + '\n')
        for k in range(size):
            save_picture(folder / part / 'clean' / f'ID_{part}{k}{ending}', 4 * k)
    return folder


@pytest.mark.parametrize('ending', ['.png', '.jpg'])
def test_both_parts_are_read_in_the_order_of_their_tables(tmp_path, ending):
    pool = read_pool('ffl4mia', str(write(tmp_path, ending)))
    assert pool.x.shape == (75, 8, 8, 3) and pool.sites == ()
    np.testing.assert_array_equal(pool.held_out, np.arange(75) >= 60)
    np.testing.assert_array_equal(pool.y[:60], np.arange(60) % 5)
    np.testing.assert_allclose(pool.x[:60, 0, 0, 0], 4 * np.arange(60), atol=2)


def test_the_federation_of_the_paper_is_made_from_it(tmp_path):
    data = make_scenario(f'quality_shift:ffl4mia:{write(tmp_path)}', num_clients=4, corrupted_ratio=0.25)
    assert data.groups == ('clean', 'corrupted') and data.sizes.sum() == 60
    assert data.tests.mask.sum(1).tolist() == [15, 15]
    flat = [np.ptp(data.x[data.index[n, : data.sizes[n]]], (1, 2, 3)).max() for n in range(4)]
    assert flat[:3] == [0, 0, 0] and flat[3] > 0


def test_other_variants_are_read_where_asked(tmp_path):
    write(tmp_path)
    for k in range(15):
        save_picture(tmp_path / 'test' / 'gaussian_3' / f'ID_test{k}.png', 200)
    pool = read_pool('ffl4mia', str(tmp_path), source_options='test=gaussian_3')
    assert (pool.x[pool.held_out] == 200).all() and (pool.x[~pool.held_out][0] == 0).all()
    with pytest.raises(ValueError, match=r'source_options=test=gaussian_9 is not one of clean, gaussian_3'):
        read_pool('ffl4mia', str(tmp_path), source_options='test=gaussian_9')


def test_wrong_files_are_named(tmp_path):
    write(tmp_path)
    (tmp_path / 'train/clean/ID_train7.png').unlink()
    with pytest.raises(ValueError, match=r'scenario.*ID_train7.png cannot be read: No such file'):
        make_scenario(f'ffl4mia:{tmp_path}')
    (tmp_path / 'train/clean/ID_train0.png').unlink()
    with pytest.raises(ValueError, match=r'no train/clean/ID_train0.png or .jpg, which train.csv names'):
        make_scenario(f'ffl4mia:{tmp_path}')
    (tmp_path / 'test.csv').write_text('id,class\nID_test0,8\n')
    save_picture(tmp_path / 'train/clean/ID_train0.png')
    with pytest.raises(ValueError, match=r"test.csv: column class of row 1 is '8'; whole numbers from 0 to 7"):
        make_scenario(f'ffl4mia:{tmp_path}')
    (tmp_path / 'test.csv').write_text('image,class\nID_test0,0\n')
    with pytest.raises(ValueError, match=r"test.csv has no column 'id'; it has image, class"):
        make_scenario(f'ffl4mia:{tmp_path}')
    (tmp_path / 'test.csv').unlink()
    with pytest.raises(ValueError, match=r'test.csv cannot be read'):
        make_scenario(f'ffl4mia:{tmp_path}')


def test_tables_without_images_are_named(tmp_path):
    (tmp_path / 'train.csv').write_text('id,class\nID_1,0\n')
    with pytest.raises(ValueError, match=r'no folder train; the images are expected in train/clean'):
        make_scenario(f'ffl4mia:{tmp_path}')
