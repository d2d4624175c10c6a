"""Image files of every kind into arrays of bytes."""

import struct
import zlib

import numpy as np
import pytest
from pictures import save, save_pixels
from PIL import Image

from fedjax_fair.data import make_scenario
from fedjax_fair.data.resize import resize_images
from fedjax_fair.data.sources import Files, checks, read_pool
from fedjax_fair.data.sources.image_decoder import decode
from fedjax_fair.data.sources.pixels import read_image
from fedjax_fair.data.sources.workers import UnreadableFiles


def decoded(folder, image_size=None):
    names = sorted(path.name for path in folder.iterdir())
    zeros = np.zeros(len(names), np.int32)
    return decode(Files(folder, names, zeros, zeros), image_size).blocks[0].images


def test_grey_stays_grey_and_mixed_becomes_colour(tmp_path):
    grey = save(tmp_path / 'a.png', mode='L')
    save(tmp_path / 'b.png', mode='L', seed=1)
    assert decoded(tmp_path).shape == (2, 6, 6, 1)
    colour = save(tmp_path / 'c.png', mode='RGB')
    images = decoded(tmp_path)
    assert images.dtype == np.uint8 and images.shape == (3, 6, 6, 3)
    assert (images[0] == grey[..., None]).all() and (images[2] == colour).all()


@pytest.mark.parametrize('size', [(12, 20), (7, 5), (33, 4)])
@pytest.mark.parametrize('channels', [1, 3])
def test_sizes_are_fitted_as_arrays_are(tmp_path, size, channels):
    pixels = save(tmp_path / 'a.png', size, 'RGB' if channels == 3 else 'L')
    expected = resize_images(pixels.reshape(1, *size, channels), (9, 9))
    assert np.abs(decoded(tmp_path, 9).astype(int) - expected).max() <= 1


def test_the_most_common_size_is_that_of_all(tmp_path):
    for number, size in enumerate([(6, 8), (9, 9), (6, 8)]):
        save(tmp_path / f'{number}.png', size, seed=number)
    assert decoded(tmp_path).shape == (3, 6, 8, 3)


def test_sixteen_bits_become_eight(tmp_path):
    pixels = np.array([[0, 128, 129, 257], [32768, 65406, 65407, 65535]], np.uint16)
    save_pixels(tmp_path / 'a.png', pixels)
    save_pixels(tmp_path / 'b.tif', pixels)
    assert decoded(tmp_path)[..., 0].tolist() == [[[0, 0, 1, 1], [128, 254, 255, 255]]] * 2


def test_sixteen_bits_of_a_portable_map(tmp_path):
    pixels = np.array([[0, 128, 129, 257], [32768, 65406, 65407, 65535]], '>u2')
    (tmp_path / 'a.pgm').write_bytes(b'P5\n4 2\n65535\n' + pixels.tobytes())
    assert decoded(tmp_path)[..., 0].tolist() == [[[0, 0, 1, 1], [128, 254, 255, 255]]]


@pytest.mark.parametrize('value', [-1, 65536])
def test_more_than_sixteen_bits_are_named(tmp_path, value):
    save_pixels(tmp_path / 'a.tif', np.array([[0, value]], np.int32))
    low, high = sorted((0, value))
    with pytest.raises(ValueError, match=rf'a\.tif \(it holds {low} to {high}; expected are 0 to 65535\)'):
        decoded(tmp_path)


def test_sixteen_bits_of_colour(tmp_path):
    rows = np.array([[[0, 257 * 3, 65535]], [[257 * 200, 257, 0]]], '>u2')
    raw = b''.join(b'\0' + row.tobytes() for row in rows)
    (tmp_path / 'a.png').write_bytes(png(1, 2, 16, 2, raw))
    assert decoded(tmp_path)[0].tolist() == [[[0, 3, 255]], [[200, 1, 0]]]


def test_transparent_pixels_are_black(tmp_path):
    pixels = np.array([[[200, 100, 50, 255], [200, 100, 50, 0]]], np.uint8)
    save_pixels(tmp_path / 'a.png', pixels)
    assert read_image(tmp_path / 'a.png', 3).tolist() == [[[200, 100, 50], [0, 0, 0]]]
    save_pixels(tmp_path / 'b.png', pixels[..., [0, 3]])
    assert read_image(tmp_path / 'b.png', 1).tolist() == [[[200], [0]]]


def test_palettes_bits_and_inks(tmp_path):
    image = Image.fromarray(np.array([[0, 1]], np.uint8)).convert('P')
    image.putpalette([9, 8, 7, 90, 80, 70])
    image.save(tmp_path / 'a.png')
    assert read_image(tmp_path / 'a.png', 3).tolist() == [[[9, 8, 7], [90, 80, 70]]]
    image.save(tmp_path / 'b.png', transparency=1)
    assert read_image(tmp_path / 'b.png', 3).tolist() == [[[9, 8, 7], [0, 0, 0]]]
    Image.fromarray(np.array([[False, True]])).save(tmp_path / 'c.png')
    assert read_image(tmp_path / 'c.png', 1).tolist() == [[[0], [255]]]
    Image.new('CMYK', (2, 1), (0, 255, 255, 0)).save(tmp_path / 'd.tif')
    assert read_image(tmp_path / 'd.tif', 3).tolist() == [[[255, 0, 0]] * 2]


@pytest.mark.parametrize('ending', ['png', 'tif', 'webp'])
def test_cameras_held_sideways(tmp_path, ending):
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[0] = 255  # the upper edge, which was the right one
    exif = Image.Exif()
    exif[0x0112] = 6
    lossless = {'lossless': True} if ending == 'webp' else {}
    Image.fromarray(pixels).save(tmp_path / f'a.{ending}', exif=exif, **lossless)
    images = decoded(tmp_path)
    assert images.shape == (1, 6, 4, 3) and (images[0, :, -1] == 255).all() and (images[0, :, 0] == 0).all()


def test_array_files(tmp_path):
    colour = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    np.save(tmp_path / 'a.npy', colour)
    np.save(tmp_path / 'b.npy', colour.astype(np.float64))
    np.save(tmp_path / 'c.npy', colour[..., 0])
    images = decoded(tmp_path)
    assert (images[:2] == colour).all() and (images[2] == colour[..., :1]).all()


@pytest.mark.parametrize(
    ('array', 'message'),
    [
        (np.full((4, 4), 0.5), 'it holds 0.5 to 0.5; expected are 0 to 255'),
        (np.full((4, 4), -1.0), 'it holds -1 to -1'),
        (np.full((4, 4), 256), 'it holds 256 to 256'),
        (np.full((4, 4), np.nan), 'it holds nan to nan'),
        (np.zeros((4, 4, 2), np.uint8), r'it holds uint8 \(4, 4, 2\); expected are numbers'),
        (np.zeros(4, np.uint8), r'it holds uint8 \(4,\)'),
        (np.array([['a']], object), 'Python objects'),
    ],
)
def test_arrays_that_are_no_images_are_named(tmp_path, array, message):
    np.save(tmp_path / 'a.npy', array, allow_pickle=True)
    with pytest.raises(ValueError, match=rf'1 of 1 files in .* cannot be read: a\.npy \(.*{message}'):
        decoded(tmp_path)


def test_damaged_files_are_counted_and_named(tmp_path):
    for number in range(6):
        save(tmp_path / f'{number}.png', (40, 40), seed=number)
    whole = (tmp_path / '0.png').read_bytes()
    (tmp_path / '1.png').write_bytes(b'')
    (tmp_path / '2.png').write_bytes(b'this is no image')
    (tmp_path / '3.png').write_bytes(whole[:-300])
    with pytest.raises(ValueError, match=r'3 of 6 files .*: 1\.png \(.+\), 2\.png \(not an image.*3\.png \(.*trunc'):
        decoded(tmp_path)
    for number in (1, 2, 3, 4):
        (tmp_path / f'{number}.png').write_bytes(whole[: 100 * number])
    told = r'4 of 6 files .* 1\.png \(.*truncated.*3\.png \(.*\), \.\.\.$'
    with pytest.raises(UnreadableFiles, match=told) as caught:
        decoded(tmp_path)
    assert [file.partition(' (')[0] for file in caught.value.files] == ['1.png', '2.png', '3.png', '4.png']
    assert '\n' not in str(caught.value) and str(caught.value).count(str(tmp_path)) == 1


def test_modes_without_a_meaning_in_bytes_are_named(tmp_path):
    Image.new('F', (3, 3)).save(tmp_path / 'a.tif')
    with pytest.raises(ValueError, match=r'a\.tif \(its mode F is not one of 1, L, LA'):
        decoded(tmp_path)


def test_bombs_are_named_and_not_decoded(tmp_path):
    save(tmp_path / 'a.png')
    (tmp_path / 'b.png').write_bytes(png(10_000, 10_000, 8, 0, b''))
    (tmp_path / 'c.png').write_bytes(png(50_000, 50_000, 8, 0, b''))
    with pytest.raises(ValueError, match=r'2 of 3 files .* b\.png \(.*exceeds limit.*c\.png \(.*exceeds limit'):
        decoded(tmp_path)


def test_pillow_does_not_warn_of_a_file_that_is_named(tmp_path, recwarn):
    Image.new('L', (8, 8)).save(tmp_path / 'a.tif')
    (tmp_path / 'a.tif').write_bytes((tmp_path / 'a.tif').read_bytes()[:40])
    with pytest.raises(ValueError, match=r'a\.tif \(not an image, or damaged\)'):
        decoded(tmp_path)
    assert not recwarn.list


def test_arrays_have_the_limit_of_images(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, 'MOST_PIXELS', 20)
    np.save(tmp_path / 'a.npy', np.zeros((5, 5), np.uint8))
    with pytest.raises(ValueError, match=r'1 of 1 files .* a\.npy \(its 5 x 5 pixels exceed the limit of 20\)'):
        decoded(tmp_path)
    assert Image.MAX_IMAGE_PIXELS == 1024**3 // 12


def test_nothing_is_shown_but_in_a_terminal(tmp_path, capfd, monkeypatch):
    save(tmp_path / 'a.png')
    decoded(tmp_path, 4)
    assert capfd.readouterr() == ('', '')
    monkeypatch.setenv('FORCE_COLOR', '1')  # what makes a terminal of anything
    decoded(tmp_path, 5)
    assert 'decoding images' in capfd.readouterr().err


def test_order_is_that_of_the_names(tmp_path):
    for number in range(50):  # the first take longest
        save_pixels(tmp_path / f'{number:02}.png', np.full((2, 1000 - 20 * number), number, np.uint8))
    assert decoded(tmp_path, 3).max((1, 2, 3)).tolist() == list(range(50))


def test_sizes_must_be_positive(tmp_path):
    save(tmp_path / 'a' / '0.png')
    with pytest.raises(ValueError, match='image_size=0 must be at least 1'):
        read_pool('folders', str(tmp_path), image_size=0)


def test_files_join_other_sources(tmp_path):
    """Arrays that may not be written to pass through the joining of domains and the noise of bad cameras."""
    for number in range(40):
        save(tmp_path / 'a' / 'kl'[number % 2] / f'{number}.png', (5, 6), 'L', seed=number)
        save(tmp_path / 'b' / 'kl'[number % 2] / f'{number}.png', (6, 6), seed=number)
    data = make_scenario(f'domains:a=folders:{tmp_path}/a,b=folders:{tmp_path}/b', image_size=8)
    assert data.groups == ('a', 'b') and data.x.shape[1:] == (8, 8, 3)
    noisy = make_scenario(f'quality_shift:folders:{tmp_path}/a', corrupted_ratio=0.5, num_clients=4)
    assert noisy.num_clients == 4 and noisy.x.shape[1:] == (5, 6, 1)


def png(width: int, height: int, bits: int, kind: int, raw: bytes) -> bytes:
    """A PNG file: ``kind`` 0 is grey and 2 RGB, ``raw`` its lines."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack('>I', len(content)) + name + content + struct.pack('>I', zlib.crc32(name + content))

    header = struct.pack('>IIBBBBB', width, height, bits, kind, 0, 0, 0)
    chunks = chunk(b'IHDR', header), chunk(b'IDAT', zlib.compress(raw)), chunk(b'IEND', b'')
    return b'\x89PNG\r\n\x1a\n' + b''.join(chunks)
