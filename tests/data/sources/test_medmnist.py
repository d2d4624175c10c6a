"""MedMNIST: its files as given out, with the names of their classes."""

import numpy as np
import pytest

from fedjax_fair.data import make_scenario
from fedjax_fair.data.blocks import VAL
from fedjax_fair.data.sources.medmnist import CLASS_NAMES, read_medmnist

COUNTS = {'train': 30, 'val': 12, 'test': 15}
RNG = np.random.default_rng(0)


def arrays(shape, classes=2, labels=1):
    """The arrays of a file: bytes, labels [T, 1], or [T, K] of zeros and ones."""
    made = {f'{split}_images': RNG.integers(256, size=(n, *shape)).astype(np.uint8) for split, n in COUNTS.items()}
    for split, n in COUNTS.items():
        y = np.arange(n)[:, None] % classes if labels == 1 else RNG.integers(2, size=(n, labels))
        made[f'{split}_labels'] = y.astype(np.uint8)
    return made


def save(path, **held):
    np.savez_compressed(path, **held)
    return path


def test_classes_are_named_and_validation_is_left_out(tmp_path):
    held = arrays((28, 28, 3), classes=9)
    path = save(tmp_path / 'pathmnist.npz', **held)
    data = make_scenario(f'medmnist:{path}', num_clients=3)
    assert data.class_names == CLASS_NAMES['pathmnist'] and data.num_classes == 9
    assert data.sizes.sum() == 30 and data.tests.mask.sum() == 15 and data.task == 'classification'
    unused = {image.tobytes() for image in held['val_images']}
    assert not unused & {image.tobytes() for image in (*data.x, *data.tests.x[0])}


def test_validation_images_are_among_what_the_source_finds(tmp_path):
    held = arrays((28, 28))
    found = read_medmnist(str(save(tmp_path / 'breastmnist.npz', **held)))
    (val,) = (part for part in found.blocks if (part.split == VAL).all())
    np.testing.assert_array_equal(val.images[..., 0], held['val_images'])
    np.testing.assert_array_equal(val.labels, held['val_labels'][:, 0])


def test_several_labels_each(tmp_path):
    data = make_scenario(f'medmnist:{save(tmp_path / "chestmnist_64.npz", **arrays((64, 64), labels=14))}')
    assert data.task == 'multilabel' and data.num_classes == 14 and data.class_names[-1] == 'hernia'
    assert data.x.shape == (30, 64, 64, 1)


def test_the_views_of_organs_are_domains(tmp_path):
    paths = [save(tmp_path / f'organ{view}mnist.npz', **arrays((28, 28), classes=11)) for view in 'acs']
    data = make_scenario('medmnist:' + ','.join(map(str, paths)))
    assert data.groups == ('organamnist', 'organcmnist', 'organsmnist') and data.class_names[0] == 'bladder'


def test_there_are_twelve_sets():
    counts = {name.removesuffix('mnist'): len(classes) for name, classes in CLASS_NAMES.items()}
    organs = {f'organ{view}': 11 for view in 'acs'}
    assert counts == organs | {
        'path': 9, 'chest': 14, 'derma': 7, 'oct': 4, 'pneumonia': 2, 'retina': 5, 'breast': 2, 'blood': 8, 'tissue': 8
    }  # fmt: skip


def without(held, *names):
    return {name: array for name, array in held.items() if name not in names}


@pytest.mark.parametrize(
    ('name', 'held', 'message'),
    [
        ('organmnist3d', arrays((28, 28, 28)), r'organmnist3d.npz holds images of shape \(28, 28, 28\); .* 3D sets'),
        ('mine', arrays((28, 28)), 'a file must be named after one of pathmnist, .*; others are read by npz:'),
        ('octmnist', without(arrays((28, 28)), 'val_images', 'val_labels'), 'must hold train, val and test'),
        ('octmnist', without(arrays((28, 28)), 'test_images', 'test_labels'), 'must hold train, val and test'),
        ('octmnist', without(arrays((28, 28)), 'val_labels'), "no array 'val_labels'"),
        ('octmnist', arrays((28, 28), classes=5), 'label 4 is out of range of the 4 class_names'),
        ('chestmnist', arrays((28, 28), labels=13), '13 labels, but 14 class_names'),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, held, message):
    with pytest.raises(ValueError, match=message):
        make_scenario(f'medmnist:{save(tmp_path / f"{name}.npz", **held)}')


def test_sets_of_different_classes_and_spoiled_files_are_refused(tmp_path):
    paths = [save(tmp_path / f'{name}.npz', **arrays((28, 28))) for name in ('octmnist', 'breastmnist')]
    with pytest.raises(ValueError, match='different classes'):
        make_scenario('medmnist:' + ','.join(map(str, paths)))
    paths[0].write_bytes(paths[0].read_bytes()[:-500])
    with pytest.raises(ValueError, match='not an npz file'):
        make_scenario(f'medmnist:{paths[0]}')
    with pytest.raises(ValueError, match=r'scenario=medmnist:/nowhere/octmnist\.npz: no such file'):
        make_scenario('medmnist:/nowhere/octmnist.npz')


def test_a_pickle_is_never_loaded(tmp_path):
    held = arrays((28, 28)) | {'train_labels': np.array([[{}]] * 30, object)}
    with pytest.raises(ValueError, match='cannot be read: Object arrays cannot be loaded'):
        make_scenario(f'medmnist:{save(tmp_path / "octmnist.npz", **held)}')
