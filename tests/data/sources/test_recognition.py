"""A path without a kind: recognised by what is there, or told what was looked for."""

import pytest

from fedjax_fair.data.sources.image_paths import SUFFIXES
from fedjax_fair.data.sources.recognition import SIGNS, recognise

ALL = tuple(sign.kind for sign in SIGNS)
LAYOUTS = {
    'npz': ['hospital.npz'],
    'medmnist': ['pathmnist_64.npz'],
    'csv': ['images.tsv'],
    'idx': ['d/train-images-idx3-ubyte.gz', 'd/t10k-labels-idx1-ubyte.gz'],
    'svhn': ['d/train_32x32.mat', 'd/test_32x32.mat'],
    'synth_digits': ['d/synth_train_32x32.mat'],
    'usps': ['d/usps.bz2', 'd/usps.t.bz2'],
    'cifar10': ['d/cifar-10-batches-bin/data_batch_1.bin'],
    'cifar100': ['d/cifar-100-binary/fine_label_names.txt', 'd/cifar-100-binary/train.bin'],
    'camelyon17': ['d/metadata.csv', 'd/patches/patient_004_node_4/patch.png'],
    'fed_isic2019': ['d/train_test_split', 'd/ISIC_2019_Training_Input/ISIC_0.jpg'],
    'ssl_fl': ['d/labels.csv', 'd/test.csv', 'd/5_clients/split_1/client_1.csv', 'd/train/a.jpg'],
    'ffl4mia': ['d/train.csv', 'd/test.csv', 'd/train/clean/a.png'],
    'prostate': ['d/HK/Case00.nii.gz', 'd/HK/Case00_Segmentation.nii.gz'],
    'masks': ['d/site/images/a.png', 'd/site/masks/a.png'],
    'folders': ['d/photo/dog/A.JPG', 'd/notes.txt'],
    'dicom': ['d/sick/1.dcm'],
}


def write(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return str(folder / names[0].partition('/')[0])


@pytest.mark.parametrize('kind', LAYOUTS)
def test_each_layout_is_recognised_among_all_kinds(tmp_path, kind):
    assert recognise(write(tmp_path, LAYOUTS[kind]), ALL) == kind


@pytest.mark.parametrize('front', ['', 'north/', 'train/north/'])
def test_masks_may_lie_below_splits_and_sites(tmp_path, front):
    assert recognise(write(tmp_path, [f'd/{front}images/a.png', f'd/{front}masks/a.png']), ALL) == 'masks'


@pytest.mark.parametrize('ending', SUFFIXES)
def test_class_folders_of_every_image_format(tmp_path, ending):
    assert recognise(write(tmp_path, [f'd/dog/a{ending}']), ALL) == 'folders'


def test_every_sign_has_a_layout_here():
    assert set(LAYOUTS) == set(ALL)


def test_several_files_are_of_one_kind(tmp_path):
    one, other = write(tmp_path, ['a.npz']), write(tmp_path, ['b.npz'])
    assert recognise(f'{one},{other}', ALL) == 'npz'
    with pytest.raises(ValueError, match=r'different kinds \(csv, npz\); write domains:NAME=KIND:PATH'):
        recognise(f'{one},{write(tmp_path, ["c.csv"])}', ALL)


def test_nothing_matches(tmp_path):
    with pytest.raises(
        ValueError, match=r'notes.txt is not recognised; .* an \.npz file \(npz\); .*ubyte \(idx\)$'
    ) as error:
        recognise(write(tmp_path, ['notes.txt']), ('npz', 'idx', 'domains'))
    assert 'svhn' not in str(error.value) and '\n' not in str(error.value)


@pytest.mark.parametrize('path', ['nope:x.npz', '~nosuchuser/x', 'a' * 300])
def test_no_such_path(path):
    with pytest.raises(ValueError, match=f'^{path}: no such file or folder, nor KIND:PATH with a kind among npz, idx$'):
        recognise(path, ('npz', 'idx'))
