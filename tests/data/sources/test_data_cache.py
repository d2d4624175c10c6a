"""Decoded images are kept on disk, and only those that are whole and of the same contents are used again."""

import os
import shutil
import types

import numpy as np
import pytest
from pictures import save, save_all, save_pixels

from fedjax_fair import plugins
from fedjax_fair.data import make_scenario
from fedjax_fair.data.memory_map import MappedRows
from fedjax_fair.data.sources import array_cache, image_decoder, read_pool


@pytest.fixture
def root(tmp_path):
    save_all(tmp_path / 'data', 'a b', count=3)
    return tmp_path / 'data'


def images(root, **options):
    return read_pool('folders', str(root), **options).x


def kept(cache_home):
    """The arrays that are kept, and nothing else may lie there."""
    entries = list((cache_home / 'fedjax_fair' / 'data' / 'arrays').glob('*'))
    assert not [entry for entry in entries if entry.name.startswith('unfinished')]
    return entries


def swap(path, *, notice):
    """Other pixels in a file of the same length; who looks at its time only may ``notice``."""
    before, old = path.stat(), path.read_bytes()
    path.write_bytes(old[:-1] + bytes([old[-1] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + notice))


def test_a_second_start_only_looks_at_names_sizes_and_times(root, cache_home):
    np.save(root / 'a' / 'x.npy', np.zeros((6, 6, 3), np.uint8))
    first = images(root)
    assert not first.flags.writeable and len(kept(cache_home)) == 1
    swap(root / 'a' / 'x.npy', notice=False)
    assert (images(root) == first).all()
    swap(root / 'a' / 'x.npy', notice=True)  # and back, to what was there first
    assert (images(root) == first).all() and len(kept(cache_home)) == 1
    swap(root / 'a' / 'x.npy', notice=True)
    assert images(root)[3, -1, -1, -1] == 1 and len(kept(cache_home)) == 2


def test_a_copy_elsewhere_is_not_decoded_again(root, tmp_path, cache_home, monkeypatch):
    first = images(root)
    shutil.copytree(root, tmp_path / 'copy')
    os.utime(tmp_path / 'copy' / 'a' / '0.png')
    monkeypatch.setattr(image_decoder, '_draw', lambda *_: pytest.fail('decoded again'))
    assert (images(tmp_path / 'copy') == first).all()


def test_settings_and_names_count(root, cache_home):
    assert images(root).shape[1:] == (6, 6, 3) and images(root, image_size=4).shape[1:] == (4, 4, 3)
    (root / 'a' / '0.png').rename(root / 'a' / '9.png')
    images(root)
    assert len(kept(cache_home)) == 3


def test_an_interrupted_decode_leaves_nothing(root, cache_home, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(image_decoder, '_draw_images', stop)
        with pytest.raises(KeyboardInterrupt):
            images(root)
    assert kept(cache_home) == [] and len(images(root)) == 6


def test_damaged_files_leave_nothing(root, cache_home):
    (root / 'a' / '0.png').write_bytes((root / 'a' / '0.png').read_bytes()[:60])
    with pytest.raises(ValueError, match=r'1 of 6 files in .* cannot be read'):
        images(root)
    assert kept(cache_home) == []
    save(root / 'a' / '0.png')
    assert len(images(root)) == 6


@pytest.mark.parametrize('damage', ['cut', 'empty', 'gone', 'other'])
def test_a_damaged_entry_is_made_again(root, cache_home, damage):
    first = images(root).copy()
    path = kept(cache_home)[0] / 'images.npy'
    whole = path.read_bytes()
    path.unlink()
    if damage != 'gone':
        path.write_bytes({'cut': whole[:-9], 'empty': b'', 'other': b'text'}[damage])
    assert (images(root) == first).all() and path.read_bytes() == whole


def test_damaged_notes_are_not_believed(root, cache_home):
    first = images(root)
    for note in (cache_home / 'fedjax_fair' / 'data' / 'digests').iterdir():
        note.write_bytes(b'\xff no digest')
    assert (images(root) == first).all() and len(kept(cache_home)) == 1


def test_masks_are_kept_with_their_images(tmp_path, cache_home):
    save(tmp_path / 'images' / 'a.png')
    save_pixels(tmp_path / 'masks' / 'a.png', np.full((6, 6), 255, np.uint8))
    first = read_pool('masks', str(tmp_path)).masks
    (kept(cache_home)[0] / 'masks.npy').unlink()
    assert (read_pool('masks', str(tmp_path)).masks == first).all() and len(kept(cache_home)) == 1


def test_places_without_room_are_named(root, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(array_cache.shutil, 'disk_usage', lambda _: types.SimpleNamespace(free=100))
        with pytest.raises(ValueError, match=r'need [0-9.]+ k?B, but .* are free in .*smaller image_size'):
            images(root)
    (tmp_path / 'file').write_text('not a folder')
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file'))
    with pytest.raises(ValueError, match=r'nothing can be kept in .*XDG_CACHE_HOME names another place'):
        images(root)


def test_decoded_images_stay_in_their_file(root):
    """However large: neither the split nor the federation reads them."""
    data = make_scenario(f'folders:{root}', num_clients=2, split_by='iid')
    assert isinstance(data.x, MappedRows) and len(data.x) == data.sizes.sum()
    np.testing.assert_array_equal(data.arrays().x, np.stack([data.x[k] for k in range(len(data.x))]))


DECODER = """
import pathlib

import numpy as np

from fedjax_fair.data.blocks import Block
from fedjax_fair.data.sources import Arrays, Encoded
from fedjax_fair.registry import register

def decode(image_size):
    images = np.full((10, 4, 4, 1), 7, np.uint8)
    return Arrays([Block('ten', images, np.arange(10, dtype=np.int32) % 2, (np.arange(10) < 4).astype(int))])

@register.source('ten', argument='PATH', about='ten images')
def ten(path: str):
    return Encoded(pathlib.Path(path), ['0'], 'as they are', decode)

@register.source('eleven', argument='PATH', about='other images of the same files')
def eleven(path: str):
    return Encoded(pathlib.Path(path), ['0'], 'as they are', lambda size: Arrays([
        block._replace(images=block.images + 1) for block in decode(size).blocks]))
"""


def test_the_cache_knows_the_source_and_the_code_of_its_plug_in(tmp_path, cache_home):
    (tmp_path / '0').write_text('raw')
    plugin = tmp_path / 'decoder.py'
    try:
        plugin.write_text(DECODER)
        plugins.load(str(plugin))
        for _ in range(2):
            assert [read_pool(kind, str(tmp_path)).x.max() for kind in ('ten', 'eleven')] == [7, 8]
        assert len(kept(cache_home)) == 2
        plugin.write_text(DECODER.replace('7', '9'))
        plugins.load(str(plugin))
        assert read_pool('ten', str(tmp_path)).x.max() == 9 and len(kept(cache_home)) == 3
    finally:
        plugins.unload('decoder.py')
