"""NIfTI volumes of hospitals in the layout of HarmoFL."""

import sys

import nibabel
import numpy as np
import pytest
from pools import assert_same_pool

from fedjax_fair.data import make_scenario
from fedjax_fair.data.sources import prostate, read_pool

DEPTH, HEIGHT, WIDTH = 6, 10, 12
FULL = (1, 2, 4)  # slices with a segmentation that count; the first and the last never do


def save(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values.T, np.eye(4)), path)  # files store width, height, depth


def case(number):
    """Values grow by 10 in a slice and 1 in a case; the segmentation is one block of rows, marked 1 and 2."""
    volume = np.zeros((DEPTH, HEIGHT, WIDTH), np.int16)
    volume += (10 * np.arange(DEPTH, dtype=np.int16) + number)[:, None, None]
    volume[:, :, 0] = 0
    mask = np.zeros((DEPTH, HEIGHT, WIDTH), np.uint8)
    mask[[0, *FULL], 2:5, 3:9] = 1
    mask[FULL[0], 2, 3] = 2
    return volume, mask


@pytest.fixture
def root(tmp_path):
    for hospital, mark in (('BIDMC', '_segmentation'), ('ISBI_1.5', '_Segmentation')):
        for number in range(5):
            volume, mask = case(number)
            save(tmp_path / hospital / f'Case{number:02}.nii.gz', volume)
            save(tmp_path / hospital / f'Case{number:02}{mark}.nii.gz', mask)
    return tmp_path


def test_an_example_is_a_slice_with_its_neighbours(root):
    pool = read_pool('prostate', str(root))
    assert pool.task == 'segmentation' and pool.sites == ('BIDMC', 'ISBI_1.5')
    assert pool.x.shape == (2 * 5 * len(FULL), HEIGHT, WIDTH, 3) and pool.x.dtype == np.uint8
    volume, _ = case(0)
    high = np.quantile(volume, 0.99)
    for row, depth in enumerate(FULL):
        wanted = np.moveaxis(np.minimum(volume[depth - 1 : depth + 2], high) / high * 255, 0, -1).astype(np.uint8)
        np.testing.assert_array_equal(pool.x[row], wanted)
    expected = np.zeros((HEIGHT, WIDTH), np.uint8)
    expected[2:5, 3:9] = 1
    assert (pool.masks == expected).all()


@pytest.mark.parametrize('image_size', [None, 8])
def test_volumes_are_decoded_once(root, image_size, monkeypatch):
    first = read_pool('prostate', str(root), image_size=image_size)
    monkeypatch.setattr(prostate, '_slices', lambda *_: pytest.fail('decoded again'))
    assert_same_pool(first, read_pool('prostate', str(root), image_size=image_size))


def test_the_brightest_values_are_cut_off(root):
    volume, _ = case(0)
    volume[3, 0, 1] = 5000  # one of 720 values
    save(root / 'BIDMC/Case00.nii.gz', volume)
    assert read_pool('prostate', str(root)).x[0].max() > 50


def test_a_fifth_of_the_patients_is_held_out(root):
    pool = read_pool('prostate', str(root))
    held = pool.held_out.reshape(2, 5, len(FULL))
    np.testing.assert_array_equal(held.all(2), held.any(2))
    assert held.any(2).sum(1).tolist() == [1, 1]


def lists(root, index):
    for hospital, mark in (('BIDMC', '_segmentation'), ('ISBI_1.5', '_Segmentation')):
        names = [f'Case{n:02}{kind}.nii.gz' for n in (3, 0, 4, 1, 2) for kind in ('', mark)]
        np.save(root / f'{hospital}-dir.npy', np.array(names))
        np.save(root / f'{hospital}-index.npy', index)


def test_the_split_by_slice_is_that_of_the_lists(root):
    """15 slices of cases in the order 3, 0, 4, 1, 2: of the index 9 train, 3 validate, 3 test."""
    index = np.random.default_rng(0).permutation(15)
    lists(root, index)
    data = make_scenario(f'prostate:{root}', source_options='split=slice')
    assert data.sizes.tolist() == [9, 9] and data.tests.mask.sum(1).tolist() == [3, 3]
    listed = [(number, depth) for number in (3, 0, 4, 1, 2) for depth in FULL]
    tested = {bytes(image) for image in data.tests.x[0]}
    for place in index[12:]:
        number, depth = listed[place]
        volume, _ = case(number)
        high = np.quantile(volume, 0.99)
        seen = np.moveaxis(np.minimum(volume[depth - 1 : depth + 2], high) / high * 255, 0, -1).astype(np.uint8)
        assert seen.tobytes() in tested


@pytest.mark.parametrize(('count', 'sizes'), [(261, (167, 41, 53)), (157, (100, 25, 32)), (384, (245, 62, 77))])
def test_sizes_of_the_split_by_slice_are_the_published_ones(tmp_path, count, sizes):
    """BIDMC, HK and ISBI_1.5, all in one volume."""
    mask = np.ones((count + 2, 2, 2), np.uint8)
    save(tmp_path / 'HK/Case00.nii.gz', np.arange(mask.size, dtype=np.int16).reshape(mask.shape))
    save(tmp_path / 'HK/Case00_segmentation.nii.gz', mask)
    np.save(tmp_path / 'HK-dir.npy', np.array(['Case00.nii.gz', 'Case00_segmentation.nii.gz']))
    np.save(tmp_path / 'HK-index.npy', np.arange(count))
    data = make_scenario(f'prostate:{tmp_path}', source_options='split=slice')
    assert (data.sizes[0], data.tests.mask.sum()) == (sizes[0], sizes[2])


def test_lists_that_do_not_fit_are_named(root):
    with pytest.raises(ValueError, match=r'source_options=split=slice needs BIDMC-dir.npy'):
        make_scenario(f'prostate:{root}', source_options='split=slice')
    lists(root, np.arange(14))
    with pytest.raises(ValueError, match=r'BIDMC-index.npy must hold 0 to 14, a number for every slice'):
        make_scenario(f'prostate:{root}', source_options='split=slice')
    np.save(root / 'BIDMC-dir.npy', np.array(['Case00.nii.gz', 'Case00_segmentation.nii.gz']))
    with pytest.raises(ValueError, match=r'BIDMC-dir.npy must list the 5 segmentations of BIDMC'):
        make_scenario(f'prostate:{root}', source_options='split=slice')
    np.save(root / 'BIDMC-dir.npy', np.array([{'unsafe': 1}]), allow_pickle=True)
    with pytest.raises(ValueError, match=r'needs BIDMC-dir.npy, an array of numpy.save'):
        make_scenario(f'prostate:{root}', source_options='split=slice')


def fails(root, message):
    with pytest.raises(ValueError, match=message) as raised:
        make_scenario(f'prostate:{root}')
    assert 'scenario=prostate' in str(raised.value) and '\n' not in str(raised.value)


def test_wrong_volumes_are_named(root):
    volume, mask = case(0)
    save(root / 'BIDMC/Case00_segmentation.nii.gz', mask[:-1])
    fails(root, r'BIDMC/Case00_segmentation.nii.gz has shape \(5, 10, 12\), its volume \(6, 10, 12\)')
    save(root / 'BIDMC/Case00_segmentation.nii.gz', mask)
    whole = (root / 'BIDMC/Case00.nii.gz').read_bytes()
    (root / 'BIDMC/Case00.nii.gz').write_bytes(whole[: len(whole) // 2])
    fails(root, r'BIDMC/Case00.nii.gz cannot be read')
    (root / 'BIDMC/Case00.nii.gz').write_bytes(b'not a volume')
    fails(root, r'BIDMC/Case00.nii.gz cannot be read')
    save(root / 'BIDMC/Case00.nii.gz', np.where(volume == 0, np.nan, volume).astype(np.float32))
    fails(root, r'BIDMC/Case00.nii.gz holds NaN')
    (root / 'BIDMC/Case00.nii.gz').unlink()
    fails(root, r'BIDMC/Case00.nii.gz cannot be read: No such file')


def test_hospitals_without_anything_to_segment_are_named(root, tmp_path_factory):
    fails(tmp_path_factory.mktemp('empty'), r'no folders with volumes and segmentations')
    for number in range(5):
        save(root / f'BIDMC/Case{number:02}_segmentation.nii.gz', np.zeros((DEPTH, HEIGHT, WIDTH), np.uint8))
    fails(root, r'all segmentations of BIDMC are empty')
    with pytest.raises(ValueError, match=r"source_options=split='case' is not one of 'patient', 'slice'"):
        make_scenario(f'prostate:{root}', source_options='split=case')


def test_a_missing_library_is_named_with_its_extra(root, monkeypatch):
    monkeypatch.setitem(sys.modules, 'nibabel', None)
    fails(root, r"scenario=prostate:.* needs nibabel: pip install 'fedjax-fair\[medical\]'")
