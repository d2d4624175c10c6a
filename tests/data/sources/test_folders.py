"""Class folders, with domains and splits in front of them or not."""

import errno
import os

import numpy as np
import pytest
from pictures import save, save_all

from fedjax_fair.data import make_scenario
from fedjax_fair.data.blocks import TEST, TRAIN, UNKNOWN, VAL
from fedjax_fair.data.sources import read_pool
from fedjax_fair.data.sources.folders import read_folders


def test_classes_alone(tmp_path):
    save_all(tmp_path, '10 9 cat', count=2)
    found = read_folders(str(tmp_path))
    assert found.class_names == ('9', '10', 'cat')
    assert found.images == ['10/0.png', '10/1.png', '9/0.png', '9/1.png', 'cat/0.png', 'cat/1.png']
    assert found.labels.tolist() == [1, 1, 0, 0, 2, 2] and found.site is None
    assert set(found.split.tolist()) == {UNKNOWN}


@pytest.mark.parametrize(
    'layout', ['train/{d}/{c} test/{d}/{c} valid/{d}/{c}', '{d}/Training/{c} {d}/testing/{c} {d}/validation/{c}']
)
def test_domains_and_splits(tmp_path, layout):
    for domain, kind in (('art', 'dog'), ('art', 'cat'), ('photo', 'dog')):
        save_all(tmp_path, layout.format(d=domain, c=kind))
    found = read_folders(str(tmp_path))
    assert found.class_names == ('cat', 'dog')
    rows = sorted(zip(found.site.tolist(), found.labels.tolist(), found.split.tolist(), strict=True))
    kinds = (('art', 0), ('art', 1), ('photo', 1))
    assert rows == [(*kind, split) for kind in kinds for split in (TRAIN, TEST, VAL)]


def test_domains_without_splits_make_a_federation(tmp_path):
    save_all(tmp_path, 'art/cat art/dog photo/cat photo/dog', count=10)
    data = make_scenario(f'folders:{tmp_path}', clients_per_domain=2)
    assert data.groups == ('art', 'photo') and data.num_clients == 4
    assert data.x.shape[1:] == (6, 6, 3) and data.x.dtype == np.uint8 and data.class_names == ('cat', 'dog')
    assert data.description == f'data of {tmp_path}'


def test_training_without_test_images_draws_them(tmp_path):
    save_all(tmp_path, 'train/a train/b', count=10)
    save_all(tmp_path, 'val/a val/b', count=1)
    pool = read_pool('folders', str(tmp_path))
    assert len(pool.y) == 20 and pool.held_out.sum() == 4


def test_a_class_that_training_lacks_counts(tmp_path):
    save_all(tmp_path, 'train/a train/b test/a test/b test/c', count=3)
    pool = read_pool('folders', str(tmp_path))
    assert pool.num_classes == 3 and pool.y[~pool.held_out].max() == 1
    assert make_scenario(f'folders:{tmp_path}', num_clients=2).num_classes == 3


def test_a_class_may_be_called_valid(tmp_path):
    save_all(tmp_path, 'valid invalid')
    assert read_folders(str(tmp_path)).class_names == ('invalid', 'valid')


def test_what_is_no_image_does_not_count(tmp_path):
    save_all(tmp_path, 'a b')
    for name in ('README.md', 'a/Thumbs.db', 'a/.DS_Store', 'b/._0.png', 'docs/notes.txt'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b'text')
    save(tmp_path / '.thumbnails' / 'deep' / 'x.png')
    save(tmp_path / '__MACOSX' / 'a' / 'x.png')
    assert read_folders(str(tmp_path)).images == ['a/0.png', 'b/0.png']


def test_links_that_lead_back_are_no_trap(tmp_path):
    save_all(tmp_path / 'data', 'a b')
    os.symlink(tmp_path / 'data' / 'a', tmp_path / 'data' / 'c')
    assert read_folders(str(tmp_path / 'data')).class_names == ('a', 'b', 'c')
    os.symlink(tmp_path / 'data', tmp_path / 'data' / 'a' / 'up')
    with pytest.raises(ValueError, match='folders deep beside images of another depth'):
        read_folders(str(tmp_path / 'data'))


@pytest.mark.parametrize(
    ('folders', 'message'),
    [
        ('.', r'0\.png lies 0 folders deep; expected is ROOT/CLASS/image'),
        ('a b b/c', r'b/c/0\.png lies 2 folders deep beside images of another depth; expected'),
        ('1/2/3/4 1/2/3/5', r'1/2/3/4/0\.png lies 4 folders deep; expected'),
        ('x/y/a x/z/a', 'x/y is not the place of a split or domain; expected'),
        ('train/a test/a other/a', 'is not the place of a split or domain'),
        ('train test', 'images lie in test, train without a class'),
        ('a/train a/test b/train', 'images lie in test, train without a class'),
    ],
)
def test_other_layouts_are_refused(tmp_path, folders, message):
    save_all(tmp_path, folders)
    with pytest.raises(ValueError, match=f'scenario=folders:.*{message}'):
        read_folders(str(tmp_path))


def test_empty_folders_are_named(tmp_path):
    with pytest.raises(ValueError, match='no image file; those end in'):
        read_folders(str(tmp_path))
    with pytest.raises(ValueError, match='no such folder'):
        read_folders(str(tmp_path / 'none'))
    save_all(tmp_path, 'art/cat photo/dog')
    (tmp_path / 'photo' / 'cat').mkdir()  # a domain may lack a class of another
    assert read_folders(str(tmp_path)).class_names == ('cat', 'dog')
    (tmp_path / 'photo' / 'horse').mkdir()
    with pytest.raises(ValueError, match='class folder photo/horse is empty'):
        read_folders(str(tmp_path))


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    save_all(tmp_path, 'a b')
    allowed = os.scandir

    def scandir(path):
        if str(path) == str(tmp_path / 'b'):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return allowed(path)

    monkeypatch.setattr(os, 'scandir', scandir)
    with pytest.raises(ValueError, match=rf'^scenario=folders:.*: {tmp_path}/b cannot be read: Permission denied$'):
        read_folders(str(tmp_path))


def test_every_domain_numbers_its_patients_alone(tmp_path):
    for domain in ('art', 'photo'):
        for number in range(4):
            save(tmp_path / domain / 'ab'[number % 2] / f'P{number // 2}_{number}.png')
    found = read_folders(str(tmp_path), patient=r'^(P\d)_')
    assert sorted(set(found.patient.tolist())) == ['art/P0', 'art/P1', 'photo/P0', 'photo/P1']


def test_patients_are_found_in_names_and_stay_together(tmp_path):
    for number in range(40):
        save(tmp_path / 'ab'[number % 2] / f'P{number // 4}_{number}.png', seed=number)
    pool = read_pool('folders', str(tmp_path), source_options=r'patient=^(P\d{1,3})_')
    tested = set(pool.patient_of[pool.held_out])
    assert tested and not tested & set(pool.patient_of[~pool.held_out])


@pytest.mark.parametrize(
    ('pattern', 'message'),
    [
        ('(P', 'is not a regular expression'),
        ('P', 'must have one pair of brackets'),
        (r'^(Q\d+)', r'no patient in .*P1\.png'),
    ],
)
def test_bad_patterns_of_patients_are_named(tmp_path, pattern, message):
    save(tmp_path / 'a' / 'P1.png')
    with pytest.raises(ValueError, match=f'source_options=patient=.*{message}'):
        read_folders(str(tmp_path), patient=pattern)


def test_group_is_another_word_for_the_option_patient(tmp_path):
    for number in range(8):
        save(tmp_path / 'a' / f'P{number // 2}_{number}.png', seed=number)
    pools = [read_pool('folders', str(tmp_path), source_options=rf'{word}=^(P\d)_') for word in ('patient', 'group')]
    assert [pool.patient_of.tolist() for pool in pools] == [[0, 0, 1, 1, 2, 2, 3, 3]] * 2
    with pytest.raises(ValueError, match='source_options names an option twice: patient, group'):
        read_pool('folders', str(tmp_path), source_options='patient=^(P),group=^(P)')
