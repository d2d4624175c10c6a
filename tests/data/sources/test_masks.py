"""Images with masks of their pixels, as files."""

import numpy as np
import pytest
from pictures import save, save_pixels
from PIL import Image

from fedjax_fair.data import make_scenario
from fedjax_fair.data.sources import read_pool


def write(folder, count=4, values=(0, 255), images='images', masks='masks', ending='png', size=(8, 6)):
    """``count`` images and masks, of which the left half has the first value and the right half the last."""
    for number in range(count):
        save(folder / images / f'{number}.jpg', size, seed=number)
        mask = np.full(size, values[0], np.uint8)
        mask[:, size[1] // 2 :] = values[number % len(values)]
        save_pixels(folder / masks / f'{number}.{ending}', mask)


def test_black_and_white_are_two_classes(tmp_path):
    write(tmp_path)
    pool = read_pool('masks', str(tmp_path))
    assert pool.task == 'segmentation' and pool.x.shape == (4, 8, 6, 3) and pool.num_classes == 2
    assert pool.masks.dtype == np.uint8 and pool.masks[1, 0].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize('values', [(0, 2, 254), tuple(range(256))])
def test_class_numbers_stay(tmp_path, values):
    write(tmp_path, count=len(values), values=values)
    assert np.unique(read_pool('masks', str(tmp_path)).masks).tolist() == list(values)


@pytest.mark.parametrize(('values', 'told'), [((0, 255, 1), '1'), ((0, 1, 2, 255), '1'), ((7, 255), '7')])
def test_white_among_class_numbers_is_refused(tmp_path, values, told):
    write(tmp_path, values=values)
    white, number = values.index(255), values.index(int(told))
    expected = rf'^scenario: masks/{white}.* holds 255 and masks/{number}.* holds {told}; masks are'
    with pytest.raises(ValueError, match=expected) as caught:
        read_pool('masks', str(tmp_path))
    assert '\n' not in str(caught.value)


def test_masks_of_one_source_are_not_copied(tmp_path):
    write(tmp_path)
    assert isinstance(read_pool('masks', str(tmp_path), image_size=6).masks, np.memmap)


def test_sites_and_names_of_folders(tmp_path):
    for site in ('north', 'south'):
        write(tmp_path / site, count=10, images='scans', masks='truth')
    data = make_scenario(f'masks:{tmp_path}', source_options='images=scans,masks=truth')
    assert data.groups == ('north', 'south') and data.task == 'segmentation' and data.y.shape[1:] == (8, 6)


def test_splits(tmp_path):
    write(tmp_path / 'train', count=3)
    write(tmp_path / 'test', count=2)
    pool = read_pool('masks', str(tmp_path))
    assert pool.sites == () and pool.held_out.tolist() == [True] * 2 + [False] * 3


def test_masks_are_resized_with_their_images(tmp_path):
    write(tmp_path, size=(8, 4))
    pool = read_pool('masks', str(tmp_path), image_size=16)
    assert pool.masks.shape == (4, 16, 16) and pool.masks[1, 8].tolist() == [0] * 8 + [1] * 4 + [0] * 4


def test_places_in_a_palette_are_classes(tmp_path):
    write(tmp_path, count=1)
    mask = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(8, 6) % 3).convert('P')
    mask.putpalette([200, 0, 0, 0, 200, 0, 0, 0, 200])
    mask.save(tmp_path / 'masks' / '0.png')
    assert read_pool('masks', str(tmp_path)).masks[0, 0].tolist() == [0, 1, 2, 0, 1, 2]


def test_smeared_black_and_white(tmp_path):
    write(tmp_path, ending='jpg', size=(32, 32))
    masks = read_pool('masks', str(tmp_path)).masks
    assert np.unique(masks).tolist() == [0, 1] and masks[1].mean() == pytest.approx(0.5, abs=0.05)


def test_one_bit_is_black_or_white(tmp_path):
    write(tmp_path)
    Image.fromarray(np.ones((8, 6), bool)).save(tmp_path / 'masks' / '0.png')
    masks = read_pool('masks', str(tmp_path)).masks
    assert masks.max() == 1 and (masks[0] == 1).all()


def test_array_files_are_masks_too(tmp_path):
    save(tmp_path / 'images' / 'a.png')
    (tmp_path / 'masks').mkdir()
    np.save(tmp_path / 'masks' / 'a.npy', np.eye(6, dtype=bool))
    assert read_pool('masks', str(tmp_path)).masks[0].tolist() == np.eye(6, dtype=int).tolist()


def test_mistakes_are_named(tmp_path):
    write(tmp_path)
    with pytest.raises(ValueError, match="no images below a folder 'scans'"):
        read_pool('masks', str(tmp_path), source_options='images=scans')
    save(tmp_path / 'masks' / '3.png', (5, 5), 'L')
    with pytest.raises(
        ValueError, match=r'1 of 4 files .* masks/3\.png \(it is a mask of size \(5, 5\), but .*\(8, 6\)'
    ):
        read_pool('masks', str(tmp_path))
    save(tmp_path / 'masks' / '3.png', (8, 6))
    with pytest.raises(ValueError, match=r'masks/3\.png \(it is coloured'):
        read_pool('masks', str(tmp_path))
    (tmp_path / 'masks' / '3.png').unlink()
    save_pixels(tmp_path / 'masks' / '3.jpg', np.full((8, 6, 3), (255, 0, 0), np.uint8))
    with pytest.raises(ValueError, match=r'masks/3\.jpg \(it is coloured'):
        read_pool('masks', str(tmp_path))
    (tmp_path / 'masks' / '3.jpg').unlink()
    save_pixels(tmp_path / 'masks' / '3.png', np.full((8, 6), 300, np.uint16))
    with pytest.raises(ValueError, match=r'masks/3\.png \(it holds 300 to 300; a mask holds classes 0 to 255'):
        read_pool('masks', str(tmp_path))
    (tmp_path / 'masks' / '3.png').unlink()
    with pytest.raises(ValueError, match=r'images/3\.jpg has no mask; expected is masks/3 with any ending'):
        read_pool('masks', str(tmp_path))
    save(tmp_path / 'masks' / '0.jpg')
    with pytest.raises(ValueError, match=r'masks/0\.jpg and masks/0\.png are masks of one image'):
        read_pool('masks', str(tmp_path))


def test_images_in_folders_of_their_own_are_refused(tmp_path):
    save(tmp_path / 'images' / 'inner' / 'a.png')
    with pytest.raises(ValueError, match=r"images/inner/a\.png does not lie in a folder 'images'"):
        read_pool('masks', str(tmp_path))
