"""CIFAR in its binary version: folder and archive read alike, nothing unpacked, the pickled version refused."""

import errno
import io
import os
import pathlib
import pickle
import tarfile

import numpy as np
import pytest

from fedjax_fair.data import make_scenario, read_pool

BATCHES = [*(f'data_batch_{n}.bin' for n in range(1, 6)), 'test_batch.bin']
NAMES = ['airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck']


def records(labels, seed=0):
    """Label bytes [T, L] and random images, red plane before green and blue."""
    pixels = np.random.default_rng(seed).integers(256, size=(len(labels), 3072))
    return np.concatenate([labels, pixels], 1).astype(np.uint8).tobytes()


def ten():
    """The files of CIFAR-10, of 20 images each."""
    batches = {name: records(np.arange(20)[:, None] % 10, seed) for seed, name in enumerate(BATCHES)}
    return {**batches, 'batches.meta.txt': ('\n'.join(NAMES) + '\n\n').encode(), 'readme.html': b'<html>'}


def hundred():
    labels = np.stack([np.arange(200) % 20, np.arange(200) % 100], 1)
    names = {
        f'{kind}_label_names.txt': '\n'.join(f'{kind}_{n}' for n in range(count)) + '\n'
        for kind, count in (('fine', 100), ('coarse', 20))
    }
    return {'train.bin': records(labels), 'test.bin': records(labels, 1)} | {n: t.encode() for n, t in names.items()}


def as_folder(path, files):
    path.mkdir(parents=True)
    for name, content in files.items():
        (path / name).write_bytes(content)
    return path


def as_archive(path, files, folder='cifar-10-batches-bin/'):
    with tarfile.open(path, 'w:gz') as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(folder + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_images_stand_upright_in_colour(tmp_path):
    pool = read_pool('cifar10', str(as_folder(tmp_path / 'bin', ten())))
    assert pool.x.shape == (120, 32, 32, 3) and pool.held_out.tolist() == [False] * 100 + [True] * 20
    raw = np.frombuffer(ten()['data_batch_2.bin'], np.uint8).reshape(20, 3073)[4]
    assert pool.x[24, 2, 7].tolist() == [raw[1 + 1024 * channel + 2 * 32 + 7] for channel in range(3)]
    assert pool.y[24] == raw[0] == 4 and pool.class_names == tuple(NAMES)


def test_the_archive_and_the_folder_around_give_the_same(tmp_path):
    archive = as_archive(tmp_path / 'cifar-10-binary.tar.gz', ten())
    as_folder(tmp_path / 'data' / 'cifar-10-batches-bin', ten())
    one, other = (read_pool('cifar10', str(path)) for path in (archive, tmp_path / 'data'))
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.y, other.y)
    assert one.class_names == other.class_names and sorted(p.name for p in tmp_path.iterdir()) == [archive.name, 'data']


def test_class_names_may_be_missing(tmp_path):
    files = ten()
    del files['batches.meta.txt']
    pool = read_pool('cifar10', str(as_folder(tmp_path / 'bin', files)))
    assert pool.class_names == () and pool.num_classes == 10


@pytest.mark.parametrize(('options', 'classes'), [(None, 100), ('labels=fine', 100), ('labels=coarse', 20)])
def test_cifar100_has_two_kinds_of_labels(tmp_path, options, classes):
    data = make_scenario(f'cifar100:{as_folder(tmp_path / "bin", hundred())}', num_clients=4, source_options=options)
    assert (
        data.num_classes == classes and data.class_names[-1] == f'{"fine" if classes > 20 else "coarse"}_{classes - 1}'
    )
    assert set(data.y) == set(range(classes)) and data.sizes.sum() == 200


def test_paths_that_leave_the_folder_are_only_names(tmp_path):
    inner = tmp_path / 'inner'
    inner.mkdir()
    archive = as_archive(inner / 'a.tar.gz', ten(), folder='../../')
    assert len(read_pool('cifar10', str(archive)).y) == 120
    assert [p.name for p in tmp_path.rglob('*')] == ['inner', 'a.tar.gz']


def linked(path):
    with tarfile.open(path, 'w:gz') as archive:
        for name in BATCHES:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, '/etc/passwd'
            archive.addfile(member)


def twice(path):
    as_archive(path, {f'{folder}/{name}': content for folder in 'ab' for name, content in ten().items()})


@pytest.mark.parametrize(
    ('write', 'message'),
    [
        (lambda path: path.write_bytes(b'not an archive'), 'cannot be read as an archive'),
        (lambda path: path.write_bytes(b''), 'cannot be read as an archive'),
        (lambda path: path.write_bytes(as_archive(path, ten()).read_bytes()[:-4000]), 'cannot be read as an archive'),
        (linked, 'no data_batch_1.bin, '),
        (twice, 'holds data_batch_1.bin twice'),
        (lambda path: as_archive(path, {'data_batch_1': pickle.dumps(1)}), 'pickled.*get cifar-10-binary.tar.gz'),
    ],
)
def test_a_bad_archive_is_refused(tmp_path, write, message):
    write(tmp_path / 'a.tar.gz')
    with pytest.raises(ValueError, match=r'scenario=cifar10:.*a\.tar\.gz') as raised:
        read_pool('cifar10', str(tmp_path / 'a.tar.gz'))
    assert raised.match(message) and [p.name for p in tmp_path.iterdir()] == ['a.tar.gz']


@pytest.mark.parametrize('share', [0.1, 0.5, 0.95])
def test_a_spoiled_byte_of_an_archive_is_noticed(tmp_path, share):
    path = as_archive(tmp_path / 'a.tar.gz', ten())
    raw = bytearray(path.read_bytes())
    raw[int(share * len(raw))] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(ValueError, match='cannot be read as an archive'):
        read_pool('cifar10', str(path))


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    path = as_folder(tmp_path / 'bin', ten())

    def refuse(self):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(pathlib.Path, 'read_bytes', refuse)
    with pytest.raises(ValueError, match=rf'^scenario=cifar10:{path}: {path}/.* cannot be read: Permission denied$'):
        read_pool('cifar10', str(path))


@pytest.mark.parametrize('layout', ['cifar-10-batches-py', 'data/cifar-10-batches-py'])
def test_the_pickled_version_is_refused_unopened(tmp_path, layout):
    as_folder(tmp_path / layout, {name.removesuffix('.bin'): b'not even a pickle' for name in BATCHES})
    for folder in {tmp_path / layout, tmp_path / layout.split('/')[0]}:
        with pytest.raises(ValueError, match='pickled and never read; get cifar-10-binary'):
            read_pool('cifar10', str(folder))


@pytest.mark.parametrize(
    ('changed', 'message'),
    [
        ({'data_batch_3.bin': records(np.zeros((20, 1)))[:-1]}, 'data_batch_3.bin has 61459 bytes; .* records of 3073'),
        ({'test_batch.bin': b''}, 'test_batch.bin has 0 bytes'),
        ({'test_batch.bin': records(np.full((20, 1), 10))}, 'test_batch.bin: label 10 is not one of 0 to 9'),
        ({'batches.meta.txt': b'one\ntwo\n'}, 'batches.meta.txt holds 2 names; expected are 10'),
        ({'data_batch_5.bin': None}, 'no data_batch_5.bin; expected is cifar-10-binary.tar.gz or its folder'),
        ({'test_batch.bin': None}, 'no test_batch.bin'),
    ],
)
def test_what_is_wrong_is_named(tmp_path, changed, message):
    files = {name: content for name, content in (ten() | changed).items() if content is not None}
    with pytest.raises(ValueError, match=message):
        read_pool('cifar10', str(as_folder(tmp_path / 'bin', files)))


def test_wrong_options_and_paths(tmp_path):
    with pytest.raises(ValueError, match="labels='both' is not one of 'fine', 'coarse'"):
        make_scenario(f'cifar100:{tmp_path}', source_options='labels=both')
    with pytest.raises(ValueError, match='source_options=labels=fine does not apply to scenario=cifar10'):
        make_scenario(f'cifar10:{tmp_path}', source_options='labels=fine')
    with pytest.raises(ValueError, match='scenario=cifar10:/nowhere: no such file or folder'):
        make_scenario('cifar10:/nowhere')
