"""Several sources as domains of one federation."""

import bz2
import struct

import numpy as np
import pytest
import scipy.io
from PIL import Image

from fedjax_fair.data import SOURCES, make_scenario, read_pool
from fedjax_fair.data.blocks import UNKNOWN
from fedjax_fair.data.sources import Files


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name, channels in (('grey', 1), ('colour', 3)):
        images = rng.integers(0, 256, (40, 6, 6, channels), dtype=np.uint8)
        np.savez(tmp_path / f'{name}.npz', images=images, labels=np.arange(40) % 4)
    return tmp_path


def test_each_source_is_a_domain_and_grey_joins_colour(files):
    data = make_scenario(f'domains:a=npz:{files}/grey.npz,b=npz:{files}/colour.npz', clients_per_domain=2)
    assert data.groups == ('a', 'b') and data.num_clients == 4
    assert data.x.shape[1:] == (6, 6, 3) and data.tests.names == ('a', 'b') and data.name == 'domains:a+b'


@pytest.mark.parametrize(
    'spec', ['npz:{0}/first.npz,{0}/second.npz', 'domains:a=npz:{0}/first.npz,b=npz:{0}/second.npz']
)
def test_every_domain_numbers_its_patients_alone(files, spec):
    for name in ('first', 'second'):
        held = {'images': greys(20, 6, 6), 'labels': np.arange(20) % 2, 'group': np.arange(20) // 4}
        np.savez(files / f'{name}.npz', **held)
    pool = read_pool(*spec.format(files).split(':', 1))
    assert len(np.unique(pool.patient_of)) == 10
    assert not set(pool.patient_of[pool.site_of == 0]) & set(pool.patient_of[pool.site_of == 1])


@pytest.mark.parametrize(
    ('argument', 'message'),
    [
        ('a=npz:{0}/grey.npz,a=npz:{0}/colour.npz', 'each once'),
        ('npz:{0}/grey.npz', 'NAME=KIND:PATH'),
        ('a=nowhere:{0}', "'nowhere' is not one of npz, "),
        ('a=npz:{0}/none.npz', 'no such file'),
    ],
)
def test_mistakes_are_named(files, argument, message):
    with pytest.raises(ValueError, match=message):
        make_scenario('domains:' + argument.format(files))


# --- four looks of digits, each in the form in which it is given out --------------------------------------------------

COUNTS = {'train': 40, 'test': 20}
DIGITS = {name: np.arange(count) % 10 for name, count in COUNTS.items()}


def greys(count, *shape):
    return np.random.default_rng(0).integers(256, size=(count, *shape)).astype(np.uint8)


def write_mnist(folder):
    for part, name in (('train', 'train'), ('test', 't10k')):
        for what, array in (
            ('images-idx3', greys(COUNTS[part], 28, 28)),
            ('labels-idx1', DIGITS[part].astype(np.uint8)),
        ):
            head = bytes([0, 0, 8, array.ndim]) + struct.pack(f'>{array.ndim}I', *array.shape)
            (folder / f'{name}-{what}-ubyte').write_bytes(head + array.tobytes())


def write_usps(folder):
    for part, name in (('train', 'usps.bz2'), ('test', 'usps.t.bz2')):
        values = greys(COUNTS[part], 256) / 127.5 - 1
        rows = zip(DIGITS[part], values, strict=True)
        lines = [f'{y + 1} ' + ' '.join(f'{n}:{v:.3f}' for n, v in enumerate(row, 1)) for y, row in rows]
        (folder / name).write_bytes(bz2.compress('\n'.join(lines).encode()))


def write_svhn(folder):
    for part, y in DIGITS.items():
        held = {'X': greys(32, 32, 3, COUNTS[part]), 'y': np.where(y, y, 10)[:, None].astype(np.uint8)}
        scipy.io.savemat(folder / f'{part}_32x32.mat', held)


def write_mnist_m(folder):
    held = {f'{part}_images': greys(count, 32, 32, 3) for part, count in COUNTS.items()}
    np.savez(folder / 'mnist_m.npz', **held, **{f'{part}_labels': y for part, y in DIGITS.items()})


@pytest.mark.parametrize('side', [16, 32])
def test_digits_of_four_publishers_make_one_federation(tmp_path, side):
    for write in (write_mnist, write_usps, write_svhn, write_mnist_m):
        write(tmp_path)
    spec = f'domains:mnist=idx:{tmp_path},usps=usps:{tmp_path},svhn=svhn:{tmp_path},mnist_m=npz:{tmp_path}/mnist_m.npz'
    data = make_scenario(spec, clients_per_domain=2, image_size=side)
    assert data.groups == data.tests.names == ('mnist', 'usps', 'svhn', 'mnist_m')
    assert data.x.shape == (160, side, side, 3) and data.x.dtype == np.uint8 and data.num_classes == 10
    assert data.sizes.tolist() == [20] * 8 and data.tests.mask.sum(1).tolist() == [20] * 4
    for tested in data.tests.y:
        np.testing.assert_array_equal(tested, DIGITS['test'])


def test_image_files_of_a_domain_are_decoded_at_the_size_asked_for(files, monkeypatch):
    for n in range(40):
        Image.fromarray(greys(20, 20, 3)).save(files / f'{n}.png')
    names, split = [f'{n}.png' for n in range(40)], np.full(40, UNKNOWN)
    monkeypatch.setitem(SOURCES, 'pngs', lambda folder: Files(files, names, np.arange(40) % 4, split))
    monkeypatch.setattr('fedjax_fair.data.blocks.resize_images', lambda x, size: x)  # no second resizing
    data = make_scenario(f'domains:a=npz:{files}/grey.npz,b=pngs:{files}', image_size=6)
    assert data.x.shape[1:] == (6, 6, 3) and data.groups == ('a', 'b')
