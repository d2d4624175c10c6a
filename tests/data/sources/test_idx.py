"""IDX files: read as written, plain or packed, and refused with one line when they are not what they should be."""

import gzip
import struct

import numpy as np
import pytest

from fedjax_fair.data import make_scenario, read_pool
from fedjax_fair.data.sources.idx import read_idx_file

CODES = {'u1': 0x08, 'i2': 0x0B, 'f4': 0x0D}


def idx_bytes(array, code='u1'):
    head = bytes([0, 0, CODES[code], array.ndim]) + struct.pack(f'>{array.ndim}I', *array.shape)
    return head + array.astype(f'>{code}').tobytes()


def write_set(folder, prefix='', test='t10k', start=0):
    """Training and test images of four classes; the labels are packed, the images are not."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (('train', 60), (test, 20)):
        images, labels = rng.integers(256, size=(count, 6, 5)), np.arange(count) % 4 + start
        (folder / f'{prefix}{name}-images-idx3-ubyte').write_bytes(idx_bytes(images))
        with gzip.open(folder / f'{prefix}{name}-labels-idx1-ubyte.gz', 'wb') as file:
            file.write(idx_bytes(labels))


@pytest.fixture
def folder(tmp_path):
    write_set(tmp_path)
    return tmp_path


@pytest.mark.parametrize('code', CODES)
def test_an_array_comes_back_as_written(code, tmp_path):
    array = np.arange(24).reshape(2, 3, 4)
    (tmp_path / 'a').write_bytes(idx_bytes(array, code))
    found = read_idx_file(tmp_path / 'a')
    np.testing.assert_array_equal(found, array)
    assert found.dtype == np.dtype(code)


def test_a_folder_is_a_pool_with_its_own_test_set(folder):
    pool = read_pool('idx', str(folder))
    assert pool.x.shape == (80, 6, 5, 1) and pool.x.dtype == np.uint8
    assert pool.held_out.sum() == 20 and pool.num_classes == 4


def test_a_scenario_of_two_classes_per_client(folder):
    data = make_scenario(f'idx:{folder}', num_clients=6, classes_per_client=2)
    assert data.num_clients == 6
    for client in range(6):
        rows = data.index[client, : data.sizes[client]]
        assert set(data.y[rows]) == set(data.tests.y[client][data.tests.mask[client]]) and len(set(data.y[rows])) == 2


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize(
    ('spoil', 'message'),
    [
        (lambda f: (f / 'train-images-idx3-ubyte').unlink(), 'no train-images-idx3-ubyte or'),
        (lambda f: (f / 'train-images-idx3-ubyte').write_bytes(b'PK\3\4'), 'is not an IDX file'),
        (lambda f: (f / 't10k-images-idx3-ubyte').write_bytes(idx_bytes(np.zeros((20, 6, 5)))[:-1]), 'should hold'),
        (lambda f: (f / 't10k-images-idx3-ubyte').write_bytes(b'\0\0\x08\3\0'), 'should hold'),
        (lambda f: (f / 'train-labels-idx1-ubyte.gz').write_bytes(b'no gzip'), 'cannot be read'),
        (lambda f: (f / 't10k-images-idx3-ubyte').write_bytes(idx_bytes(np.zeros((3, 6, 5)))), 't10k has images'),
        (
            lambda f: (f / 't10k-images-idx3-ubyte').write_bytes(idx_bytes(np.zeros((20, 6, 5)), 'f4')),
            'expected are bytes',
        ),
        (lambda f: (f / 't10k-images-idx3-ubyte').write_bytes(b'\0\0\x08\xff' + bytes(4 * 255)), 'is not an IDX file'),
        (lambda f: (f / 't10k-images-idx3-ubyte').write_bytes(b'\0\0\x08\4' + b'\0\1\0\0' * 4), 'should hold'),
        (lambda f: cut(f / 'train-labels-idx1-ubyte.gz'), 'train-labels-idx1-ubyte.gz cannot be read'),
    ],
)
def test_what_is_wrong_is_named(folder, spoil, message):
    spoil(folder)
    with pytest.raises(ValueError, match=message):
        read_pool('idx', str(folder))


def test_a_missing_folder_and_an_option_of_another_source_are_refused(folder):
    with pytest.raises(ValueError, match='no such folder'):
        make_scenario('idx:/nowhere/at/all')
    with pytest.raises(ValueError, match='npz_keys=a:b does not apply to scenario=idx'):
        make_scenario(f'idx:{folder}', npz_keys='a:b')


def test_a_folder_can_be_the_base_of_a_quality_shift(folder):
    data = make_scenario(f'quality_shift:idx:{folder}', num_clients=4, corrupted_ratio=0.25)
    assert data.sizes.sum() == 60 and data.tests.x.shape[:2] == (2, 20)
    with pytest.raises(ValueError, match='npz_keys=a:b does not apply to scenario=quality_shift:idx'):
        make_scenario(f'quality_shift:idx:{folder}', npz_keys='a:b')


@pytest.mark.parametrize('below', ['raw', 'MNIST/raw'])
def test_the_folder_may_be_that_of_torchvision(tmp_path, below):
    write_set(tmp_path / 'data' / below)
    assert len(read_pool('idx', str(tmp_path / 'data')).y) == 80
    write_set(tmp_path / 'data' / 'FashionMNIST' / 'raw')
    with pytest.raises(ValueError, match=r'holds several data sets; choose one of .*/raw, .*/raw$'):
        read_pool('idx', str(tmp_path / 'data'))


def test_letters_stand_upright_and_are_numbered_from_zero(tmp_path):
    write_set(tmp_path, 'emnist-letters-', 'test', start=1)
    pool = read_pool('idx', str(tmp_path))
    stored = read_idx_file(tmp_path / 'emnist-letters-train-images-idx3-ubyte')
    np.testing.assert_array_equal(pool.x[:60, ..., 0], stored.transpose(0, 2, 1))
    np.testing.assert_array_equal(pool.y[:60], np.arange(60) % 4)
    assert pool.held_out.sum() == 20
    write_set(tmp_path, 'emnist-letters-', 'test', start=0)
    with pytest.raises(ValueError, match='emnist-letters has label 0; letters are numbered from 1'):
        read_pool('idx', str(tmp_path))


def test_a_set_is_chosen_by_name_where_there_are_several(tmp_path):
    write_set(tmp_path, 'emnist-letters-', 'test', start=1)
    write_set(tmp_path, 'emnist-digits-', 'test', start=3)
    with pytest.raises(ValueError, match='needs source_options=name=NAME, one of emnist-digits, emnist-letters'):
        read_pool('idx', str(tmp_path))
    with pytest.raises(ValueError, match='no emnist-byclass-train-images-idx3-ubyte or'):
        read_pool('idx', str(tmp_path), source_options='name=emnist-byclass')
    digits = read_pool('idx', str(tmp_path), source_options='name=emnist-digits')
    assert set(digits.y) == {3, 4, 5, 6}


def test_where_fashion_mnist_is_to_be_had_is_said():
    with pytest.raises(
        ValueError, match='no such folder; Debian has it as package dataset-fashion-mnist, in /usr/share'
    ):
        make_scenario('idx:/nowhere/Fashion-MNIST')
    with pytest.raises(ValueError, match=r'no such folder$'):
        make_scenario('idx:/nowhere/mnist')
