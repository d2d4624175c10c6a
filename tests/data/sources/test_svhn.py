"""Digits in MATLAB files, as SVHN and the synthetic digits made after it are given out."""

import numpy as np
import pytest
import scipy.io

from fedjax_fair.data import make_scenario, read_pool


def write_mat(path, count, seed=0, labels=None):
    """The published layout: compressed, X [32, 32, 3, N] of bytes, y [N, 1] with 10 for the digit 0."""
    x = np.random.default_rng(seed).integers(256, size=(32, 32, 3, count)).astype(np.uint8)
    y = np.arange(count) % 10 + 1 if labels is None else labels
    scipy.io.savemat(path, {'X': x, 'y': np.asarray(y, np.uint8)[:, None]}, do_compression=True)
    return x


@pytest.fixture
def folder(tmp_path):
    write_mat(tmp_path / 'train_32x32.mat', 40, 1)
    write_mat(tmp_path / 'test_32x32.mat', 20, 2)
    return tmp_path


def test_images_stand_upright_and_ten_is_zero(folder):
    x = write_mat(folder / 'train_32x32.mat', 40, 1)
    pool = read_pool('svhn', str(folder))
    assert pool.x.shape == (60, 32, 32, 3) and pool.x.dtype == np.uint8
    np.testing.assert_array_equal(pool.x[7, 3, 5], x[3, 5, :, 7])
    np.testing.assert_array_equal(pool.y[:40], (np.arange(40) + 1) % 10)
    assert pool.held_out.tolist() == [False] * 40 + [True] * 20 and pool.num_classes == 10


def test_the_extra_images_are_for_training_where_asked_for(folder):
    write_mat(folder / 'extra_32x32.mat', 30, 3)
    sizes = [
        make_scenario(f'svhn:{folder}', num_clients=2, source_options=options).sizes.sum()
        for options in (None, 'extra=false', 'extra=true')
    ]
    assert sizes == [40, 40, 70]


def test_synthetic_digits_are_numbered_from_zero(tmp_path):
    for name in ('train', 'test'):
        write_mat(tmp_path / f'synth_{name}_32x32.mat', 20, labels=np.arange(20) % 10)
    pool = read_pool('synth_digits', str(tmp_path))
    np.testing.assert_array_equal(pool.y, np.arange(40) % 10)
    assert pool.held_out.sum() == 20


def cut(path):
    path.write_bytes(path.read_bytes()[:-200])


def save(**arrays):
    return lambda path: scipy.io.savemat(path, arrays)


X, Y = np.zeros((32, 32, 3, 4), np.uint8), np.ones((4, 1), np.uint8)


@pytest.mark.parametrize(
    ('spoil', 'message'),
    [
        (lambda path: path.unlink(), 'test_32x32.mat: no such file'),
        (cut, 'cannot be read as a MATLAB file'),
        (lambda path: path.write_bytes(b''), 'cannot be read as a MATLAB file'),
        (lambda path: path.write_bytes(b'PK\3\4' * 100), 'cannot be read as a MATLAB file'),
        (save(images=X, y=Y), r"must hold X, bytes \(32, 32, 3, N\).*holds {'y'"),
        (save(X=X), 'must hold X'),
        (save(X=X.astype(float), y=Y), r'float64 \(32, 32, 3, 4\)'),
        (save(X=np.moveaxis(X, -1, 0), y=Y), r'holds .*\(4, 32, 32, 3\)'),
        (save(X=X, y=Y[:3]), r'holds .*\(3, 1\)'),
        (save(X=X, y={'a': 1}), 'must hold X'),
        (save(X='text', y='text'), 'must hold X'),
        (save(X=X, y=Y + 10), 'labels must be digits, 10 being 0 too, got 11 to 11'),
        (save(X=X, y=Y / 2), 'labels must be digits'),
    ],
)
def test_what_is_wrong_is_named(folder, spoil, message):
    spoil(folder / 'test_32x32.mat')
    with pytest.raises(ValueError, match=r'scenario=svhn: test_32x32\.mat') as raised:
        read_pool('svhn', str(folder))
    assert raised.match(message) and '\n' not in str(raised.value)


@pytest.mark.parametrize(
    ('options', 'message'),
    [('extra=yes', 'extra=yes: expected true or false'), ('extra=true', 'extra_32x32.mat: no such file')],
)
def test_options_that_cannot_be_followed(folder, options, message):
    with pytest.raises(ValueError, match=message):
        make_scenario(f'svhn:{folder}', source_options=options)


def test_a_missing_folder():
    with pytest.raises(ValueError, match='scenario=svhn:/nowhere: no such folder'):
        make_scenario('svhn:/nowhere')
