"""Fed-ISIC2019 in the layout of FLamby."""

import numpy as np
import pytest
from pictures import save_picture

from fedjax_fair.data import make_scenario
from fedjax_fair.data.sources import read_pool

CLASSES = ('MEL', 'NV', 'BCC', 'AK', 'BKL', 'DF', 'VASC', 'SCC')
HEADER = ','.join(['image', *CLASSES, 'UNK', 'target', 'center', 'fold', 'fold2'])


def line(k):
    """Image k: the centres take turns beginning with the last, every fourth image of a centre is for testing."""
    target, centre, fold = k % 8, 5 - k % 6, 'test' if k // 6 % 4 == 3 else 'train'
    flags = [str(float(c == target)) for c in range(9)]
    return ','.join([f'ISIC_{k:07}', *flags, str(target), str(centre), fold, f'{fold}_{centre}'])


@pytest.fixture
def root(tmp_path):
    (tmp_path / 'train_test_split').write_text('\n'.join([HEADER, *(line(k) for k in range(96))]) + '\n')
    for k in range(96):
        save_picture(tmp_path / f'ISIC_2019_Training_Input_preprocessed/ISIC_{k:07}.jpg', 2 * k)
    return tmp_path


def place(images):
    return np.round(images[..., 0, 0, 0] / 2).astype(int)


def test_centres_are_sites_with_the_published_split(root):
    data = make_scenario(f'fed_isic2019:{root}')
    assert data.groups == ('BCN', 'vidir_molemax', 'vidir_modern', 'rosendahl', 'MSK', 'vienna_dias')
    assert data.sizes.tolist() == [12] * 6 and data.tests.mask.sum(1).tolist() == [4] * 6
    assert data.class_names == CLASSES
    trained = place(data.x)
    np.testing.assert_array_equal(data.y, trained % 8)
    np.testing.assert_array_equal(5 - trained % 6, np.repeat(np.arange(6), 12))
    assert (trained // 6 % 4 != 3).all() and (place(data.tests.x) // 6 % 4 == 3).all()


def test_lesions_stay_whole_where_the_split_is_drawn(root):
    """Images k and k + 48 are of one lesion and one centre; one image has no lesion in the table."""
    lines = [f'ISIC_{k:07},50.0,head,{"" if k == 3 else f"BCN_{k % 48:07}"},female' for k in range(96)]
    header = 'image,age_approx,anatom_site_general,lesion_id,sex'
    (root / 'ISIC_2019_Training_Metadata.csv').write_text('\n'.join([header, *lines]) + '\n')
    pool = read_pool('fed_isic2019', str(root), source_options='split=drawn')
    held = np.zeros(96, bool)
    held[place(pool.x)] = pool.held_out
    whole = np.delete(np.arange(48), 3)
    np.testing.assert_array_equal(held[whole], held[whole + 48])
    assert held.any() and not held.all()
    assert len(np.unique(pool.patient_of)) == 49


def test_unprocessed_images_are_read_where_there_are_no_others(root):
    (root / 'ISIC_2019_Training_Input_preprocessed').rename(root / 'ISIC_2019_Training_Input')
    assert read_pool('fed_isic2019', str(root)).x.shape == (96, 8, 8, 3)
    (root / 'ISIC_2019_Training_Input').rename(root / 'images')
    with pytest.raises(ValueError, match='no folder ISIC_2019_Training_Input_preprocessed or ISIC_2019'):
        make_scenario(f'fed_isic2019:{root}')


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        (',target,', ',label,', "train_test_split has no column 'target'"),
        (',0,5,train,', ',8,5,train,', "target of row 1 is '8'; whole numbers from 0 to 7"),
        (',0,5,train,', ',0,6,train,', "center of row 1 is '6'; whole numbers from 0 to 5"),
        (',0,5,train,', ',0,5,val,', "fold is 'val'; train or test is expected"),
        ('ISIC_0000000', 'ISIC_9999999', 'ISIC_9999999.jpg'),
    ],
)
def test_wrong_tables_are_named(root, old, new, message):
    path = root / 'train_test_split'
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=message) as raised:
        make_scenario(f'fed_isic2019:{root}')
    assert 'scenario' in str(raised.value) and '\n' not in str(raised.value)


def test_a_missing_table_and_an_unknown_split_are_named(root):
    (root / 'train_test_split').unlink()
    with pytest.raises(ValueError, match=r'train_test_split cannot be read'):
        make_scenario(f'fed_isic2019:{root}')
    with pytest.raises(ValueError, match=r"source_options=split='mine' is not one of 'official', 'drawn'"):
        make_scenario(f'fed_isic2019:{root}', source_options='split=mine')
