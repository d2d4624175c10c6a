"""Retina and COVID-FL in the layout of SSL-FL."""

import numpy as np
import pytest
from pictures import save_picture

from fedjax_fair.data import make_scenario

CLIENTS = {'client_1': 6, 'client_2': 3, 'client_10': 5}


def write(folder, splits=('3_clients/split_1',), ending='.png'):
    """Three clients of 14 training images and 4 test images; an image's value is 10 times its number."""
    names = [f'{"test" if k >= 14 else "img"}_{k}{ending}' for k in range(18)]
    (folder / 'labels.csv').write_text(''.join(f'{name},{k % 3}.0\n' for k, name in enumerate(names)))
    (folder / 'test.csv').write_text('\n'.join(names[14:]) + '\n')
    for split in splits:
        (folder / split).mkdir(parents=True)
        first = 0
        for client, size in CLIENTS.items():
            (folder / split / f'{client}.csv').write_text('\n'.join(names[first : first + size]) + '\r\n')
            first += size
    for k, name in enumerate(names):
        path = folder / ('test' if k >= 14 else 'train') / name
        if ending == '.npy':
            path.parent.mkdir(exist_ok=True)
            np.save(path, np.full((8, 8, 3), 10.0 * k, np.float32))
        else:
            save_picture(path, 10 * k)
    return folder


@pytest.mark.parametrize('ending', ['.png', '.npy'])
def test_clients_are_as_published_and_share_the_test_set(tmp_path, ending):
    data = make_scenario(f'ssl_fl:{write(tmp_path, ending=ending)}')
    assert data.groups == tuple(CLIENTS) and data.sizes.tolist() == list(CLIENTS.values())
    np.testing.assert_array_equal(data.x[..., 0, 0, 0], 10 * np.arange(14))
    np.testing.assert_array_equal(data.y, np.arange(14) % 3)
    assert data.tests.names == ('test',) and data.tests.test_of.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(data.tests.x[0, :, 0, 0, 0], [140, 150, 160, 170])


def test_a_split_is_chosen_by_its_name(tmp_path):
    write(tmp_path, ('3_clients/split_1', '3_clients/split_2', '2_clients/split_1'))
    (tmp_path / '3_clients/split_2/client_2.csv').write_text('img_9.png,2\nimg_9.png,2\nimg_4.png,1\n')
    data = make_scenario(f'ssl_fl:{tmp_path}', source_options='split=split_2')
    assert data.sizes.tolist() == [6, 2, 5]
    assert make_scenario(f'ssl_fl:{tmp_path}', source_options='split=2_clients/split_1').sizes.sum() == 14
    choices = 'choose with source_options=split=... one of 2_clients/split_1, 3_clients/split_1, 3_clients/split_2'
    for options in ({}, {'source_options': 'split=split_1'}, {'source_options': 'split=split_9'}):
        with pytest.raises(ValueError, match=choices):
            make_scenario(f'ssl_fl:{tmp_path}', **options)


@pytest.mark.parametrize(
    ('file', 'text', 'message'),
    [
        ('3_clients/split_1/client_2.csv', '', 'client_2.csv is empty'),
        ('3_clients/split_1/client_2.csv', 'none.png\n', "client_2.csv names 'none.png', which labels.csv does not"),
        ('test.csv', 'image_name\ntest_14.png\n', "test.csv names 'image_name', which labels.csv does not"),
        ('labels.csv', 'filename,label\nimg_0.png,0\n', "labels.csv: column 1 of row 1 is 'label'"),
        ('labels.csv', 'img_0.png,-1\n', "labels.csv: column 1 of row 1 is '-1'; whole numbers from 0 are expected"),
        ('labels.csv', 'img_0.png\n', "labels.csv has no column '1'"),
    ],
)
def test_wrong_lists_are_named(tmp_path, file, text, message):
    (write(tmp_path) / file).write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        make_scenario(f'ssl_fl:{tmp_path}')
    assert 'scenario=ssl_fl' in str(raised.value) and '\n' not in str(raised.value)


def test_labels_out_of_range_and_missing_images_are_named(tmp_path):
    write(tmp_path)
    labels = (tmp_path / 'labels.csv').read_text()
    (tmp_path / 'labels.csv').write_text(labels.replace('img_0.png,0.0', 'img_0.png,99'))
    with pytest.raises(ValueError, match='label 99 is out of range'):
        make_scenario(f'ssl_fl:{tmp_path}')
    (tmp_path / 'labels.csv').write_text(labels)
    (tmp_path / 'train/img_0.png').unlink()
    with pytest.raises(ValueError, match=r'scenario.*img_0.png cannot be read: No such file'):
        make_scenario(f'ssl_fl:{tmp_path}')


def test_folders_without_clients_are_named(tmp_path):
    write(tmp_path, splits=())
    with pytest.raises(ValueError, match=r'no folder <K>_clients/split_\*'):
        make_scenario(f'ssl_fl:{tmp_path}')
    (tmp_path / '5_clients/split_1').mkdir(parents=True)
    with pytest.raises(ValueError, match=r'no client_\*.csv in 5_clients/split_1'):
        make_scenario(f'ssl_fl:{tmp_path}')
