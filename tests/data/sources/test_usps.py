"""USPS in LIBSVM's text form: read as written, and every bad line named by its number."""

import bz2

import numpy as np
import pytest

from fedjax_fair.data import make_scenario, read_pool


def line(label, values):
    return ' '.join([str(label), *(f'{n}:{value:g}' for n, value in enumerate(values, 1))]) + ' \n'


def write(path, count, seed=0):
    values = np.random.default_rng(seed).uniform(-1, 1, (count, 256)).round(3)
    path.write_bytes(bz2.compress(''.join(line(n % 10 + 1, row) for n, row in enumerate(values)).encode()))
    return values


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / 'usps.bz2', 30)
    write(tmp_path / 'usps.t.bz2', 20, seed=1)
    return tmp_path


def test_greys_become_the_nearest_bytes_and_labels_count_from_zero(folder):
    values = write(folder / 'usps.bz2', 30)
    pool = read_pool('usps', str(folder))
    assert pool.x.shape == (50, 16, 16, 1) and pool.x.dtype == np.uint8 and pool.held_out.sum() == 20
    assert np.abs(pool.x[:30].reshape(30, 256) - (values + 1) * 127.5).max() <= 0.5
    np.testing.assert_array_equal(pool.y, np.r_[np.arange(30) % 10, np.arange(20) % 10])


def test_black_and_white_are_0_and_255(folder):
    (folder / 'usps.bz2').write_bytes(bz2.compress((line(1, [-1, 1] * 128) + line(2, [0] * 256)).encode()))
    x = read_pool('usps', str(folder)).x
    assert x[0, 0, :3, 0].tolist() == [0, 255, 0] and set(x[1].ravel()) == {128}


def test_a_scenario(folder):
    data = make_scenario(f'usps:{folder}', num_clients=3, image_size=8)
    assert data.x.shape == (30, 8, 8, 1) and data.num_classes == 10


GOOD = [0.0] * 256


@pytest.mark.parametrize(
    ('bad', 'message'),
    [
        ('1 1:0.5\n', 'line 2: a label and 1:value to 256:value'),
        ('\n', 'line 2: a label and'),
        (line(1, [*GOOD, 0.5]), 'line 2: a label and'),
        (line(1, GOOD).replace(' 7:', ' 8:'), 'line 2: a label and'),
        (line(1, GOOD).replace(' 256:', ' 0:'), 'line 2: a label and'),
        (line(1, GOOD).replace(':', ' '), 'line 2: a label and'),
        (line(1, GOOD).replace(':0 ', ':zero ', 1), 'line 2: could not convert'),
        (line(0, GOOD), 'line 2: label 0 is not one of 1 to 10'),
        (line(11, GOOD), 'line 2: label 11 is not'),
        (line(1.5, GOOD), 'line 2: label 1.5 is not'),
        (line('nan', GOOD), 'line 2: label nan is not'),
        (line(1, [2.0] * 256), 'line 2: values must be in -1..1, got 2 to 2'),
        (line(1, [float('nan')] * 256), 'line 2: values must be in -1..1'),
        ('\xff\xfe', 'line 2: could not convert'),
    ],
)
def test_a_bad_line_is_named(folder, bad, message):
    (folder / 'usps.t.bz2').write_bytes(bz2.compress((line(1, GOOD) + bad).encode('latin1')))
    with pytest.raises(ValueError, match='scenario=usps: usps.t.bz2, ' + message):
        read_pool('usps', str(folder))


@pytest.mark.parametrize(
    ('spoil', 'message'),
    [
        (lambda f: f.unlink(), 'usps.t.bz2: no such file'),
        (lambda f: f.write_bytes(b'no bzip2'), 'usps.t.bz2 cannot be read: Invalid data'),
        (lambda f: f.write_bytes(f.read_bytes()[:-9]), 'usps.t.bz2 cannot be read: Compressed file ended'),
        (lambda f: f.write_bytes(b''), 'usps.t.bz2 cannot be read'),
        (lambda f: f.write_bytes(bz2.compress(b'')), 'usps.t.bz2 holds no examples'),
    ],
)
def test_a_bad_file_is_named(folder, spoil, message):
    spoil(folder / 'usps.t.bz2')
    with pytest.raises(ValueError, match=message):
        make_scenario(f'usps:{folder}')


def test_a_missing_folder():
    with pytest.raises(ValueError, match='scenario=usps:/nowhere: no such folder'):
        make_scenario('usps:/nowhere')
