"""Files that somebody made to do harm: each is refused in one line, before it is read."""

import bz2
import gzip
import io
import os
import signal
import socket
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
from pictures import save

from fedjax_fair import foreign
from fedjax_fair.data import make_scenario
from fedjax_fair.data.sources import read_pool
from fedjax_fair.data.sources.pixels import FORMATS
from fedjax_fair.errors import UserError
from fedjax_fair.models.pretrained import read_state_dict, weights_file
from fedjax_fair.registry import sources
from fedjax_fair.results import History, load, predictions
from fedjax_fair.results.report_files import report_files
from fedjax_fair.training.writer_lock import LOCK, writing


@pytest.fixture(autouse=True)
def no_hang():
    """A file without an end must not stop the tests."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail('it was read for ever'))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def small_limit(monkeypatch):
    """A megabyte that inflates from little is too much."""
    monkeypatch.setattr(foreign, 'HARMLESS', 1 << 20)


def refused(kind, path, words, **options):
    with pytest.raises(UserError, match=words) as raised:
        read_pool(kind, str(path), **options)
    assert '\n' not in str(raised.value)


# --- what a file is, and where ---------------------------------------------------------------------------------------


def test_only_decoders_of_known_formats_run(scans, monkeypatch):
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, 'Ghostscript', lambda *_: pytest.fail('another program was started'))
    (scans / 'a' / 'z.png').write_bytes(b'%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n')
    refused('folders', scans, r'a/z.png \(not an image, or damaged\)')
    assert 'EPS' not in FORMATS


def test_a_named_pipe_is_not_waited_for(scans):
    os.mkfifo(scans / 'a' / 'z.png')
    refused('folders', scans, 'a/z.png is a named pipe, not a file')


def test_a_socket_is_refused(scans, monkeypatch):
    monkeypatch.chdir(scans / 'a')  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind('z.png')
        refused('folders', scans, 'a/z.png is a socket, not a file')


@pytest.mark.parametrize('target', ['/dev/zero', '../../private.png'])
def test_links_out_of_the_folder_are_refused(scans, target):
    save(scans.parent / 'private.png')
    (scans / 'a' / 'z.png').symlink_to(target)
    refused('folders', scans, f'a/z.png is a link that leads out of the data folder, to .*{target.split("/")[-1]};')


def test_linked_folders_outside_are_not_searched(scans):
    (scans / 'c').symlink_to('/')
    refused('folders', scans, 'c is a link that leads out of the data folder, to /;')


def test_the_folder_itself_may_be_a_link(scans):
    (scans / 'a' / 'z.png').symlink_to('../b/0.png')  # a link inside it too
    (scans.parent / 'linked').symlink_to(scans)
    assert len(read_pool('folders', str(scans.parent / 'linked')).y) == 7


def test_tables_of_publishers_do_not_lead_out_of_their_folder(tmp_path):
    save(tmp_path / 'private.png')
    root = tmp_path / 'retina'
    (root / '1_clients' / 'split_1').mkdir(parents=True)
    (root / 'labels.csv').write_text('../../private.png,0\n')
    for name in ('test.csv', '1_clients/split_1/client_1.csv'):
        (root / name).write_text('../../private.png\n')
    refused('ssl_fl', root, r'train/../../private.png lies outside of the data folder')


def test_a_table_of_your_own_may_name_files_anywhere(scans):
    names = [scans / 'a' / '0.png', '../scans/a/1.png', scans / 'b' / '0.png', '../scans/b/1.png']
    table = scans.parent / 'table' / 'images.csv'
    table.parent.mkdir()
    table.write_text('image,label\n' + ''.join(f'{name},{k // 2}\n' for k, name in enumerate(names)))
    assert len(read_pool('csv', str(table)).y) == 4


@pytest.mark.parametrize(
    ('kind', 'name'),
    [
        ('camelyon17', 'metadata.csv'),
        ('idx', 'train-images-idx3-ubyte'),
        ('svhn', 'train_32x32.mat'),
        ('usps', 'usps.bz2'),
        ('cifar10', 'test_batch.bin'),
    ],
)
@pytest.mark.parametrize('link', [False, True])
def test_files_of_publishers_are_files_inside_their_folder(tmp_path, kind, name, link):
    (tmp_path / 'data').mkdir()
    (tmp_path / 'secret').write_bytes(b'x')
    if link:
        (tmp_path / 'data' / name).symlink_to(tmp_path / 'secret')
    else:
        os.mkfifo(tmp_path / 'data' / name)
    refused(kind, tmp_path / 'data', f'{name} is {"a link that leads out" if link else "a named pipe"}')


@pytest.mark.parametrize('kind', sorted(sources))
def test_what_a_scenario_names_is_a_file_or_a_folder(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)  # so that a path is also the name of a set or of a domain's file
    os.mkfifo('pipe')
    os.symlink('/dev/zero', 'zeros')
    for name, is_what in {'pipe': 'a named pipe', 'zeros': 'a device'}.items():
        argument, reads = (f'one=npz:{name}', 'npz') if kind == 'domains' else (name, kind)
        refused(kind, argument, f'scenario={reads}:{name} is {is_what}, not a file')


def test_an_office_of_pipes_is_refused(tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    with pytest.raises(UserError, match='pipe is a named pipe, not a file'):
        make_scenario(f'office_caltech:{tmp_path / "pipe"}', data_seed=0)


def test_weights_are_in_a_file(tmp_path):
    os.mkfifo(tmp_path / 'weights.npz')
    with pytest.raises(UserError, match='no such file'):
        weights_file(tmp_path / 'weights.npz', 'resnet18')


def test_a_prepared_set_with_a_pipe_is_not_opened(tmp_path):
    folder = tmp_path / 'a_set' / '1.0.0'
    folder.mkdir(parents=True)
    os.mkfifo(folder / 'features.json')
    refused('tfds', 'a_set', 'features.json is a named pipe', source_options=f'data_dir={tmp_path}')


@pytest.mark.parametrize(
    ('read', 'name'), [(predictions, 'predictions.npz'), (load, 'config.json'), (load, 'summary.json')]
)
def test_files_of_a_run_are_files(tmp_path, read, name):
    (tmp_path / 'config.json').write_text('{"recipe": "fedavg", "scenario": "digits"}')
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to('/dev/zero')
    with pytest.raises(UserError, match=f'{name} is a device, not a file'):
        read(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match=f'{name} is a named pipe, not a file'):
        read(tmp_path)


def test_files_of_a_run_that_goes_on_are_files(tmp_path):
    os.mkfifo(tmp_path / 'metrics.jsonl')
    sealed = {'bytes': 3, 'checksum': 7}
    for read in (lambda: History(tmp_path, 1), lambda: History(tmp_path, 1, sealed), lambda: History(tmp_path)):
        with pytest.raises(UserError, match=r'metrics\.jsonl is a named pipe, not a file'):
            read()
    os.mkfifo(tmp_path / LOCK)
    with pytest.raises(UserError, match=f'{LOCK} is a named pipe, not a file'), writing(tmp_path):
        pass
    os.mkfifo(tmp_path / 'table.json')
    assert 'table.json' in report_files(tmp_path)


def test_files_of_a_run_that_are_nested_too_deeply(tmp_path):
    (tmp_path / 'config.json').write_text(f'{{"recipe": "a", "scenario": "b", "deep": {"[" * 700}{"]" * 700}}}')
    with pytest.raises(UserError, match='nested'):
        load(tmp_path)


# --- how much a file holds -------------------------------------------------------------------------------------------


def bomb(path, **arrays):
    np.savez_compressed(path, images=np.zeros((300, 64, 64), np.uint8), labels=np.arange(300) % 2, **arrays)
    return path


def test_arrays_that_inflate_to_very_much_are_refused(tmp_path, small_limit):
    path = bomb(tmp_path / 'a.npz')
    refused(
        'npz', path, r"a\.npz: array 'images' cannot be read: it would inflate from \d+ bytes to 1\.23 MB, more than"
    )
    with pytest.raises(UserError, match="array 'images' cannot be read: it would inflate"):
        read_state_dict(path)


def test_images_beside_empty_masks_are_no_bomb(tmp_path, small_limit):
    images = np.random.default_rng(0).integers(0, 256, (300, 64, 64), np.uint8)
    labels, masks = np.arange(300) % 2, np.zeros((300, 64, 64), np.uint8)
    np.savez_compressed(tmp_path / 'a.npz', images=images, labels=labels, masks=masks)
    assert read_pool('npz', str(tmp_path / 'a.npz')).x.shape == (300, 64, 64, 1)


def test_arrays_that_do_not_fit_into_memory_are_refused(tmp_path, monkeypatch):
    path = bomb(tmp_path / 'a.npz')
    monkeypatch.setattr(foreign, 'free_memory', lambda: 1e6)
    refused('npz', path, r'cannot be read: it needs 1\.23 MB, but 1 MB of memory are free')


def test_predictions_that_claim_too_much_are_refused(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {'descr': '<f8', 'fortran_order': False, 'shape': (10**13,)})
    with zipfile.ZipFile(tmp_path / 'predictions.npz', 'w') as archive:
        archive.writestr('score.npy', header.getvalue())
    with pytest.raises(UserError, match=r"'score' cannot be read: it claims to be float64 \(10000000000000,\), 80 TB"):
        predictions(tmp_path)


def test_the_memory_is_known():
    assert 1e6 < foreign.free_memory() < 1e16


@pytest.mark.parametrize(
    ('files', 'free'),
    [
        ({'memory.max': '1000\n', 'memory.current': '700\n'}, 300 + 50),
        ({'memory.max': '1000\n', 'memory.current': '1100\n'}, 0),
        ({'memory.max': 'max\n', 'memory.current': '700\n'}, np.inf),
        ({}, np.inf),
    ],
)
def test_the_memory_of_a_container_is_what_it_does_not_use(files, free, tmp_path, monkeypatch):
    monkeypatch.setattr(foreign, 'CONTAINER', tmp_path)
    monkeypatch.setattr(foreign, '_of_machine', lambda: np.inf)
    (tmp_path / 'memory.stat').write_text('anon 600\nactive_file 20\ninactive_file 30\n')
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert foreign.free_memory() == free


def idx(shape, length):
    """The head of an IDX file, and zeros of any length."""
    return gzip.compress(b'\0\0\x08' + bytes([len(shape)]) + struct.pack(f'>{len(shape)}I', *shape) + bytes(length))


@pytest.mark.parametrize(
    ('shape', 'length', 'words'),
    [
        ((4, 1024, 1024), 4 << 20, r'which would inflate from .* bytes to 4\.19 MB'),
        ((4, 1 << 31, 1 << 30), 0, r'which needs 9\.22e\+06 TB, but .* of memory are free'),
        ((4, 6, 6), 4 << 20, r'should hold \(4, 6, 6\) values of 1 bytes, but does not'),
    ],
)
def test_gzip_bombs(tmp_path, small_limit, shape, length, words):
    for part in ('train', 't10k'):
        (tmp_path / f'{part}-labels-idx1-ubyte.gz').write_bytes(idx((4,), 4))
        (tmp_path / f'{part}-images-idx3-ubyte.gz').write_bytes(idx(shape, length))
    refused('idx', tmp_path, words)


def test_a_stream_is_left_where_it_is_too_long(small_limit):
    with gzip.open(io.BytesIO(gzip.compress(bytes(16 << 20)))) as stream:
        with pytest.raises(UserError, match=r'it would inflate from 100 bytes to 2\.1 MB'):
            foreign.Inflating(stream, 100, 'it').read()
        assert stream.tell() <= 3 << 20


def test_archives_with_a_bomb_beside_the_data(tmp_path, small_limit):
    with tarfile.open(tmp_path / 'cifar-10-binary.tar.gz', 'w:gz') as archive:
        member = tarfile.TarInfo('cifar-10-batches-bin/readme.html')
        member.size = 4 << 20
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    refused('cifar10', tmp_path / 'cifar-10-binary.tar.gz', 'would inflate from .* bytes to')


def test_bzip2_bombs(tmp_path, small_limit):
    for name in ('usps.bz2', 'usps.t.bz2'):
        (tmp_path / name).write_bytes(bz2.compress(bytes(4 << 20)))
    refused('usps', tmp_path, r'usps\.bz2 would inflate from .* bytes to')


def test_volumes(tmp_path, small_limit, monkeypatch):
    import nibabel

    for name in ('Case00.nii.gz', 'Case00_segmentation.nii.gz'):
        (tmp_path / 'UCL').mkdir(exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(np.zeros((128, 128, 9), np.uint8), np.eye(4)), tmp_path / 'UCL' / name)
    monkeypatch.setattr(foreign, 'free_memory', lambda: 200_000)
    refused('prostate', tmp_path, r'UCL/Case00.nii.gz cannot be read: its volume \(128, 128, 9\) needs 1\.18 MB')
    monkeypatch.undo()
    monkeypatch.setattr(foreign, 'HARMLESS', 1000)
    refused('prostate', tmp_path, r'UCL/Case00.nii.gz cannot be read: it would inflate')


def deflated(path, length):
    """A DICOM file of the deflated syntax, with a comment of this length in it."""
    import pydicom
    from pydicom.dataset import FileMetaDataset

    data = pydicom.Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = pydicom.uid.generate_uid()
    data.Rows = data.Columns = 6
    data.SamplesPerPixel, data.PhotometricInterpretation, data.PixelRepresentation = 1, 'MONOCHROME2', 0
    data.BitsAllocated = data.BitsStored = 8
    data.HighBit, data.PixelData = 7, bytes(range(36))
    data.add_new(0x00091001, 'OB', bytes(length))
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path, enforce_file_format=True)


def test_deflated_dicom_files(tmp_path, small_limit):
    for place in ('a/1.dcm', 'b/1.dcm', 'a/2.dcm', 'b/2.dcm'):
        deflated(tmp_path / place, 100)
    assert read_pool('dicom', str(tmp_path)).x.shape == (4, 6, 6, 1)
    deflated(tmp_path / 'a' / '1.dcm', 4 << 20)
    refused('dicom', tmp_path, r'1 of 4 files .* a/1.dcm \(it would inflate from \d+ bytes to 4\.19 MB')


def test_images_of_too_many_pixels_are_not_decoded(scans):
    """A PNG of 30000 x 30000 pixels in some bytes."""

    def chunk(kind, body):
        return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body))

    head = struct.pack('>IIBBBBB', 30000, 30000, 8, 0, 0, 0, 0)
    png = b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(bytes(9))) + chunk(b'IEND', b'')
    (scans / 'a' / 'z.png').write_bytes(png)
    refused('folders', scans, 'a/z.png .*pixels.*exceeds limit')
