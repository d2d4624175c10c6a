"""DICOM files in class folders."""

import sys

import numpy as np
import pydicom
import pytest
from pools import assert_same_pool
from pydicom.dataset import FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage

from fedjax_fair.data import make_scenario
from fedjax_fair.data.sources import checks, dicom, read_pool

RAMP = np.arange(48, dtype=np.uint16).reshape(6, 8)


def save(path, pixels=RAMP, patient='P1', kind='MONOCHROME2', **more):
    """A file of the pixels (16-bit grey, or 8-bit colour) and of more elements by name."""
    data = pydicom.Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = SecondaryCaptureImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = pydicom.uid.generate_uid()
    data.Rows, data.Columns = pixels.shape[:2]
    data.SamplesPerPixel = 1 if kind.startswith('MONO') else 3
    data.PhotometricInterpretation, data.PixelRepresentation = kind, 0
    data.BitsAllocated = data.BitsStored = 8 * pixels.itemsize
    data.HighBit = data.BitsStored - 1
    if data.SamplesPerPixel == 3:
        data.PlanarConfiguration = 0
    if patient is not None:
        data.PatientID = patient
    for name, value in more.items():
        setattr(data, name, value)
    data.PixelData = pixels.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path, enforce_file_format=True)


def pool_of(root, **options):
    return read_pool('dicom', str(root), **options)


def two_classes(root, **first):
    save(root / 'normal' / 'a.dcm', **first)
    save(root / 'tumour' / 'b.dcm')
    return root


def test_images_that_are_too_large_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, 'MOST_PIXELS', RAMP.size - 1)
    with pytest.raises(ValueError, match=r'2 of 2 files .* normal/a\.dcm \(its 6 x 8 pixels exceed the limit of 47\)'):
        pool_of(two_classes(tmp_path))


def test_class_and_domain_folders_are_read_like_those_of_pictures(tmp_path):
    for domain in ('hospital_b', 'hospital_a'):
        for kind in ('normal', 'tumour'):
            for k in range(6):
                save(tmp_path / domain / kind / f'IM{k:04}', patient=f'P{k // 2}')
    data = make_scenario(f'dicom:{tmp_path}')
    assert data.groups == ('hospital_a', 'hospital_b') and data.class_names == ('normal', 'tumour')
    assert data.x.shape[1:] == (6, 8, 1) and data.x.dtype == np.uint8
    pool = pool_of(tmp_path)
    for patient in np.unique(pool.patient_of):
        assert len(set(pool.held_out[pool.patient_of == patient])) == 1
    assert len(np.unique(pool.patient_of)) == 6  # P0 of one hospital is not P0 of the other


@pytest.mark.parametrize('image_size', [None, 5])
def test_files_are_decoded_once(tmp_path, monkeypatch, image_size):
    save(two_classes(tmp_path) / 'tumour' / 'c.dcm', np.zeros((7, 3, 3), np.uint8), 'P2', 'RGB')
    first = pool_of(tmp_path, image_size=image_size)
    monkeypatch.setattr(dicom, '_decode', lambda *_: pytest.fail('decoded again'))
    again = pool_of(tmp_path, image_size=image_size)
    assert_same_pool(first, again)
    assert again.name(2) == 'tumour/c.dcm'


def test_other_files_are_decoded_anew(tmp_path):
    first = pool_of(two_classes(tmp_path))
    save(tmp_path / 'normal' / 'a.dcm', RAMP.T.copy().reshape(6, 8))
    assert (pool_of(tmp_path).x != first.x).any()


def test_split_folders_are_kept(tmp_path):
    for k, side in enumerate(('train', 'train', 'test')):
        for kind in ('normal', 'tumour'):
            save(tmp_path / side / kind / f'{k}.dcm')
    assert pool_of(tmp_path).held_out.sum() == 2


def test_values_are_stretched_over_all_bytes(tmp_path):
    x = pool_of(two_classes(tmp_path)).x
    np.testing.assert_array_equal(x[0, ..., 0], np.round(RAMP / 47 * 255))


def test_the_window_of_a_file_is_applied_after_its_rescaling(tmp_path):
    """Values 0..47 are -100..84 in steps of 4 after rescaling; the window shows -20..20."""
    more = {'RescaleSlope': 4, 'RescaleIntercept': -100, 'WindowCenter': 0, 'WindowWidth': 40}
    x = pool_of(two_classes(tmp_path, **more)).x[0, ..., 0].ravel().astype(int)
    units = 4 * np.arange(48) - 100
    assert (x[units <= -20] == 0).all() and (x[units >= 20] == 255).all()
    inside = x[(units > -20) & (units < 20)]
    assert (np.diff(inside) > 0).all() and 100 < x[units == 0][0] < 160


def test_monochrome1_is_turned_bright_side_up(tmp_path):
    x = pool_of(two_classes(tmp_path, kind='MONOCHROME1')).x
    np.testing.assert_array_equal(x[0, ..., 0], 255 - np.round(RAMP / 47 * 255))


def test_colour_and_other_sizes_are_joined(tmp_path):
    colour = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    two_classes(tmp_path, pixels=colour, kind='RGB')
    save(tmp_path / 'tumour' / 'c.dcm', np.zeros((12, 16), np.uint16))
    pool = pool_of(tmp_path)
    assert pool.x.shape == (3, 6, 8, 3)
    assert any(np.array_equal(image, colour) for image in pool.x)
    assert sorted(pool.y.tolist()) == [0, 1, 1]


def test_images_of_unnamed_patients_stand_alone(tmp_path):
    for k in range(4):
        save(tmp_path / f'c{k % 2}' / f'{k}.dcm', patient=None)
    assert len(np.unique(pool_of(tmp_path).patient_of)) == 4


def fails(root, *messages):
    with pytest.raises(ValueError) as raised:
        make_scenario(f'dicom:{root}')
    text = str(raised.value)
    assert 'scenario' in text and '\n' not in text
    assert all(message in text for message in messages), text


def test_damaged_files_are_named(tmp_path):
    two_classes(tmp_path)
    (tmp_path / 'normal' / 'c.dcm').write_bytes(b'no DICOM at all')
    fails(tmp_path, f'1 of 3 files in {tmp_path} cannot be read: normal/c.dcm')
    whole = (tmp_path / 'normal' / 'a.dcm').read_bytes()
    (tmp_path / 'normal' / 'c.dcm').write_bytes(whole[:-20])
    fails(tmp_path, f'1 of 3 files in {tmp_path} cannot be read: normal/c.dcm')


@pytest.mark.parametrize(
    ('pixels', 'more', 'message'),
    [
        (np.zeros((2, 6, 8), np.uint16), {'NumberOfFrames': 2, 'Rows': 6, 'Columns': 8}, 'it holds 2 frames'),
        (np.zeros((6, 8, 3), np.uint16), {'kind': 'RGB'}, 'its pixels are RGB of 16 bits'),
        (np.zeros((6, 8), np.uint8), {'kind': 'PALETTE COLOR', 'SamplesPerPixel': 1}, 'its pixels are PALETTE COLOR'),
    ],
)
def test_pixels_that_are_no_single_image_are_named(tmp_path, pixels, more, message):
    fails(two_classes(tmp_path, pixels=pixels, **more), 'normal/a.dcm', message)


def test_folders_without_dicom_files_are_named(tmp_path):
    fails(tmp_path, 'no image file')
    save(tmp_path / 'a.dcm')
    fails(tmp_path, 'a.dcm lies 0 folders deep', 'ROOT/CLASS/image')
    fails(tmp_path / 'none', 'no such folder')


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    two_classes(tmp_path)
    monkeypatch.setitem(sys.modules, 'pydicom', None)
    fails(tmp_path, f"scenario=dicom:{tmp_path} needs pydicom: pip install 'fedjax-fair[medical]'")
